/* Uses CUDA, starts itself with fork and exec, and goes on using CUDA meanwhile;
 * the child does the same, DEPTH generations down. */
#include "children.h"
#include "work.h"

int main(int argc, char **argv)
{
	long depth = option_number(argc, argv, "-d", 2, 0), n = option_number(argc, argv, "-n", 100, 1);
	char deeper[24], launches[24];
	char *args[] = {argv[0], "-n", launches, "-d", deeper, NULL, NULL, NULL};
	struct counts mine = {0, 0, 0}, total = {0, 0, 0};
	struct child child = {0};
	snprintf(deeper, sizeof deeper, "%ld", depth - 1);
	snprintf(launches, sizeof launches, "%ld", n);
	int bad = work_all(&mine, n);
	if (depth)
		child = child_start(args);
	bad += work_all(&mine, n);
	if (depth)
		bad += child_wait(child, &total);
	child_print(mine);
	total = counts_add(total, mine);
	if (!child_report(argc, argv, &total))
		counts_print("counts", total);
	return bad != 0;
}
