/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Hides blocks from every scan behind an xor, and uses them again at its end, so that what
 * memscan must call a leak was none: `frees_later free`, `frees_later realloc`. With
 * `frees_later keep` it never does, and the leaks are true. Others it frees at once, and
 * takes as many again. See truth.h.
 */
#include "truth.h"

#include <stdio.h>

enum { BLOCKS = 20 };

static const uintptr_t KEY = 0x5a5a5a5a5a5a5a5a;
static volatile uintptr_t hidden[BLOCKS];
static void *volatile shown[BLOCKS];

NOINLINE static void make(void)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		void *p = fresh(1000 + 16 * i);

		tell("leak", p);
		hidden[i] = (uintptr_t)p ^ KEY;
		free(fresh(3000 + 16 * i));
		shown[i] = fresh(3000 + 16 * i);
		tell("live", shown[i]);
	}
}

NOINLINE static void use(const char *how)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		void *p = (void *)(hidden[i] ^ KEY); /* NOLINT(performance-no-int-to-ptr) */

		if (strcmp(how, "free") == 0)
			free(p);
		else if (strcmp(how, "realloc") == 0)
			shown[i] = realloc(p, 100000);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	make();
	forget();
	wait_for_end();
	use(argv[1]);
	return 0;
}
