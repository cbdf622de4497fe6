/* Functions of libraries that are loaded at run time. */
#ifndef GS_LIBRARY_H
#define GS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct gs_function {
	const char *name;
	size_t field; /* offset of its pointer in a table */
	bool needed;
};

/* Fills a table with the functions of a library. False: one that is needed is missing, and text says so. */
bool gs_resolve(void *library, const char *file, const struct gs_function *functions, size_t count, void *table, char *text, size_t size);

#endif
