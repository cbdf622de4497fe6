/* Opens a library that uses CUDA some time after its start, and later another
 * one that brings a second copy of the runtime. It ends some time after that. */
#include <dlfcn.h>
#include <unistd.h>

#include "options.h"
#include "plugin.h"

static int use(const char *library, struct counts *total, long launches)
{
	int (*work)(struct counts *, long) = NULL;
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (lib)
		*(void **)&work = dlsym(lib, "plugin_work");
	if (work)
		return work(total, launches);
	fprintf(stderr, "late: %s\n", dlerror());
	return 1;
}

int main(int argc, char **argv)
{
	useconds_t delay = (useconds_t)option_number(argc, argv, "-m", 50, 0) * 1000;
	long n = option_number(argc, argv, "-n", 100, 1);
	struct counts total = {0, 0, 0};
	usleep(delay);
	int bad = use("libplugin.so", &total, n);
	usleep(delay);
	bad += use("libplugin-bundled.so", &total, n);
	usleep(delay);
	counts_print("counts", total);
	return bad != 0;
}
