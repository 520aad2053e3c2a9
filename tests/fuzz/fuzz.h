/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_H
#define MS_TESTS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* End the process, as the fuzzer wants it, where something is not so. */
static inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "not so: %s\n", what);
	abort();
}

#endif
