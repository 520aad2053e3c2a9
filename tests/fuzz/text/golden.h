/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_GOLDEN_H
#define MS_TESTS_FUZZ_GOLDEN_H

/* Seeds from files that tests compare with. */

#include <string.h>

#include "fuzz.h"

/* @n_chosen bytes by which a fuzzer chooses what it does, and the file behind them. */
static inline void take_golden(fuzz_take take, const char *chosen, size_t n_chosen,
                               const char *path)
{
	char bytes[32 * 1024];
	FILE *from = fopen(path, "r");
	size_t len;

	require(from, "seeds are taken from the top of the project");
	memcpy(bytes, chosen, n_chosen);
	len = fread(bytes + n_chosen, 1, sizeof(bytes) - n_chosen, from);
	(void)fclose(from);
	take(bytes, n_chosen + len);
}

#endif
