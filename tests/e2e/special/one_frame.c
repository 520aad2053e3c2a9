/* SPDX-License-Identifier: Apache-2.0 */

/* A library with one function, whose frame has SPACE bytes but whose code is as long. */

int run(void (*call_back)(void));

int run(void (*call_back)(void))
{
	volatile char space[SPACE];

	space[0] = 1;
	call_back();
	return space[0];
}
