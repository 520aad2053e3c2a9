/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_H
#define MS_TESTS_FUZZ_H

/*
 * A fuzzer of one reader of foreign bytes.
 *
 * It is built in two ways: with libFuzzer, which looks for inputs that reach new code
 * (`make fuzz`), and with seeds.c, which runs the seeds and some random changes of them
 * (`make check-fuzz`), and both the kept corpus. Both have arena.c in place of base/arena.c,
 * and write the seeds to files by written.c.
 *
 * To add a fuzzer:
 *	1. tests/fuzz/ROOM/fuzz_NAME.c: define both functions below;
 *	2. options of libFuzzer's stand in its comment, behind "fuzz: ";
 *	3. break the reader on purpose, and see it found;
 *	4. make fuzz-keep FUZZ=NAME keeps what it found in tests/fuzz/corpus/NAME. An input
 *	   that broke a reader is added there by hand, when the reader is mended.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Run one input. Anything but 0: it is not worth keeping. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With --write DIR alone: write the seeds, and end. Returns 0: go on. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

typedef void (*fuzz_take)(const void *bytes, size_t len);

/*
 * Of what is in arenas now nothing is ever freed, nor an input's: memory's bound is without it.
 * For what is drawn once, before anything else of the run.
 */
void fuzz_keep(void);

/* Hand each seed to @take: inputs that the reader takes for good. */
void fuzz_seeds(fuzz_take take);

/* End the process, as the fuzzer wants it, where something is not so. */
static inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "not so: %s\n", what);
	abort();
}

#endif
