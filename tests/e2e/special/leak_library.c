/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

void lose_in_library(size_t n)
{
	void *p = malloc(n); /* here: library */

	memset(p, 1, n);
	__asm__ volatile("" : "+r"(p));
}
