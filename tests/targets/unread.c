/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unread NAME: much memory in which memscan can find no leak; see truth.h.
 *
 *	kept   an area of 32 MiB, and malloc is never called
 *	lost   the same, and nothing points to it
 *	both   the same, beside blocks of malloc that are in use
 */
#include "truth.h"

#include <sys/mman.h>

enum { MUCH = 32 << 20, BLOCKS = 1000 };

static void *volatile kept[1 + BLOCKS];

NOINLINE static void map(int keep)
{
	char *area = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		_exit(97);
	memset(area, 1, MUCH);
	if (keep)
		kept[0] = area;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "kept";

	map(!strcmp(name, "kept"));
	for (int i = 0; i < BLOCKS && !strcmp(name, "both"); i++)
		kept[1 + i] = malloc(100);
	ready();
}
