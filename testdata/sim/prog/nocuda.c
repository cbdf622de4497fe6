/* Does not use CUDA. Exits with the code in its first argument. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	printf("nocuda: no CUDA here\n");
	return argc > 1 ? atoi(argv[1]) : 0;
}
