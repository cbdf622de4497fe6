/* Command lines of the test programs: "-x NUMBER" and "--flag". */
#ifndef SIM_PROG_OPTIONS_H
#define SIM_PROG_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool option_flag(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return false;
}

static inline const char *option_text(int argc, char **argv, const char *name, const char *fallback)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], name))
			return argv[i + 1];
	return fallback;
}

/* A number from min upwards; anything else ends the program with code 2. */
static inline long option_number(int argc, char **argv, const char *name, long fallback, long min)
{
	const char *text = option_text(argc, argv, name, NULL);
	char *end = NULL;
	long value = text ? strtol(text, &end, 10) : fallback;
	if (value < min || value > 1000000000 || (text && (end == text || *end))) {
		fprintf(stderr, "%s: %s takes a number from %ld\n", argv[0], name, min);
		exit(2);
	}
	return value;
}

#endif
