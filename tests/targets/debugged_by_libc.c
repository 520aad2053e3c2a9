/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * debugged_by_libc mtrace|mcheck: leaks of a program that has the C library watch its malloc.
 */
#include <mcheck.h>

#include "truth.h"

enum { LEAKS = 100 };

/* Before 2.34 malloc_usable_size() does not know of mcheck()'s headers. */
NOINLINE static void leak_watched(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		_exit(98);
	memset(p, 0, size);
	tell_sized("leak", p, size);
}

NOINLINE static void make_leaks(int watched)
{
	for (size_t i = 0; i < LEAKS; i++)
		(watched ? leak_watched : leak)(16 + i * 7);
}

int main(int argc, char **argv)
{
	int watched = argc > 1 && strcmp(argv[1], "mcheck") == 0;

	if (watched && mcheck(NULL) != 0)
		return 97;
	if (!watched)
		mtrace();
	make_leaks(watched);
	ready();
}
