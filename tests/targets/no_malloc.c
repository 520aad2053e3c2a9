// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program with glibc in it that never calls malloc; see truth.h.
 */
#include "truth.h"

int main(void)
{
	ready();
}
