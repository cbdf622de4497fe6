/* Two runtimes in one process: its own static one, and the shared one that a
 * library brings. Both launch, by turns. */
#include "options.h"
#include "plugin.h"
#include "work.h"

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 100, 1);
	struct counts total = {0, 0, 0};
	int bad = 0;
	for (int i = 0; i < 3; i++) {
		bad += work_all(&total, n);
		bad += plugin_work(&total, n);
	}
	counts_print("counts", total);
	return bad != 0;
}
