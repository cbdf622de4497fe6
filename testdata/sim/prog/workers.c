/* A launcher that uses no CUDA starts equal workers, as torchrun does: equal
 * work, so equal stream numbers and correlation ids in each worker. */
#include "children.h"
#include "work.h"

static int worker(int argc, char **argv)
{
	struct counts mine = {0, 0, 0};
	int bad = 0;
	for (int i = 0; i < 2; i++)
		bad += work_all(&mine, option_number(argc, argv, "-n", 100, 1));
	child_print(mine);
	child_report(argc, argv, &mine);
	return bad != 0;
}

int main(int argc, char **argv)
{
	static struct child children[64];
	long count = option_number(argc, argv, "-w", 2, 1), n = option_number(argc, argv, "-n", 100, 1);
	char rank[24], launches[24], world[24];
	char *args[] = {argv[0], "-n", launches, "--rank", rank, NULL, NULL, NULL};
	struct counts total = {0, 0, 0};
	int bad = 0;
	if (option_text(argc, argv, "--rank", NULL))
		return worker(argc, argv);
	if (count > 64) {
		fprintf(stderr, "workers: at most 64 workers\n");
		return 2;
	}
	snprintf(launches, sizeof launches, "%ld", n);
	snprintf(world, sizeof world, "%ld", count);
	setenv("WORLD_SIZE", world, 1);
	for (int i = 0; i < count; i++) {
		snprintf(rank, sizeof rank, "%d", i);
		setenv("RANK", rank, 1);
		setenv("LOCAL_RANK", rank, 1);
		children[i] = child_start(args);
	}
	for (int i = 0; i < count; i++)
		bad += child_wait(children[i], &total);
	counts_print("counts", total);
	return bad != 0;
}
