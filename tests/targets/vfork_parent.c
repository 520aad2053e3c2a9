/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A parent that waits for its vfork child, in a sleep which no tracer can
 * interrupt; the child, which has the same memory, ends with standard input.
 * See truth.h.
 */
#include "truth.h"

int main(void)
{
	pid_t child;

	leak(100);
	forget();
	child = vfork();
	if (child == 0) {
		wait_for_end();
		_exit(0);
	}
	_exit(child < 0 ? 97 : 0);
}
