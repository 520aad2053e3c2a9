/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * hidden KIND: blocks that are kept by words which are no pointers to them.
 *
 *	fixnum SHIFT TAG   shifted to the left, with a tag below, in memory of its own
 *	light              as LuaJIT's light userdata, in a table
 *	front              arrays of pointers that are counted from 1
 *
 * Tells them and one leak (truth.h), frees all but that at its end, and prints how many blocks
 * that were.
 */
#include <sys/mman.h>

#include "../../targets/truth.h"

enum { N = 40, LENGTH = 5 };

#define LIGHT UINT64_C(0xfffe000000000000)
#define LOW39 ((UINT64_C(1) << 39) - 1)

static uint64_t *table;
static void **arrays[N];
static unsigned shift;
static uint64_t tag, upper;

NOINLINE static void make_words(int light)
{
	for (unsigned i = 0; i < N; i++) {
		char *block = fresh(100 + i);
		uint64_t at = (uint64_t)(uintptr_t)block;

		tell("live", block);
		upper = at & ~LOW39;
		table[i] = light ? LIGHT | UINT64_C(1) << 39 | (at & LOW39) : at << shift | tag;
	}
}

NOINLINE static void make_arrays(void)
{
	for (unsigned i = 0; i < N; i++) {
		void **array = fresh(LENGTH * sizeof(*array));

		tell("live", array);
		for (unsigned k = 0; k < LENGTH; k++) {
			array[k] = fresh(200);
			tell("live", array[k]);
		}
		arrays[i] = array - 1;
	}
}

static unsigned long release(int light)
{
	unsigned long n = 0;

	for (unsigned i = 0; i < N && table; i++, n++)
		free((void *)(uintptr_t)(light ? upper | (table[i] & LOW39) : table[i] >> shift));
	for (unsigned i = 0; i < N && !table; i++, n++) {
		for (unsigned k = 1; k <= LENGTH; k++, n++)
			free(arrays[i][k]);
		free(arrays[i] + 1);
	}
	return n;
}

int main(int argc, char **argv)
{
	char line[32], *to = line;
	int light = argc > 1 && !strcmp(argv[1], "light");

	if (argc > 3) {
		shift = (unsigned)atoi(argv[2]);
		tag = (uint64_t)atoi(argv[3]);
	}
	if (light || argc > 3)
		table = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table)
		make_words(light);
	else
		make_arrays();
	leak(77);
	forget();
	wait_for_end();
	to = put_text(to, "freed ");
	to = put_number(to, release(light), 10);
	*to++ = '\n';
	*to = '\0';
	say_text(line);
	return 0;
}
