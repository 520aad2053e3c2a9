/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held_memory FLAGS MIB: a heap of so many MiB, of which some is lost, in memory that is locked
 * by mlockall(FLAGS) from the beginning; with -1 it is a process that is not dumpable.
 */
#include "truth.h"

#include <sys/mman.h>
#include <sys/prctl.h>

enum { A_MIB = 1000, MOST = 128 };

static void *volatile kept[MOST * A_MIB];

NOINLINE static void fill(int n)
{
	for (int i = 0; i < n; i++) {
		void *block = fresh(1000);

		if (i % 500 == 7)
			tell("leak", block);
		else
			kept[i] = block;
	}
}

int main(int argc, char **argv)
{
	int flags = argc > 1 ? atoi(argv[1]) : 0;
	int n = argc > 2 ? atoi(argv[2]) * A_MIB : 0;

	if ((flags > 0 && mlockall(flags)) || (flags < 0 && prctl(PR_SET_DUMPABLE, 0)) ||
	    n > MOST * A_MIB)
		_exit(96);
	fill(n);
	ready();
	return 0;
}
