/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program that has itself checked: `lsan_checks LETTERS`, one deed each:
 *
 *	l leak a block      c __lsan_do_leak_check()     r __lsan_do_recoverable_leak_check()
 *	u keep one by a pointer at an odd address alone
 *
 * It prints the letter and what the call answered, which stdio holds back until the end.
 * TURNED_OFF and DEFAULT_OPTIONS, when it is built with them, are what its functions say.
 */
#include <sanitizer/lsan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

#ifdef TURNED_OFF
int __lsan_is_turned_off(void)
{
	return TURNED_OFF;
}
#endif

#ifdef DEFAULT_OPTIONS
const char *__lsan_default_options(void)
{
	return DEFAULT_OPTIONS;
}
#endif

NOINLINE static void lose(void)
{
	void *volatile p = memset(malloc(1000), 0, 1000);

	p = NULL;
	(void)p;
}

static volatile struct {
	char first;
	void *kept;
} __attribute__((packed, aligned(8))) odd;

NOINLINE static void keep_unaligned(void)
{
	odd.kept = memset(malloc(1000), 0, 1000);
}

NOINLINE static void forget(void)
{
	char dead[65536];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

static void say_last(void)
{
	printf("end\n");
}

int main(int argc, char **argv)
{
	atexit(say_last);
	for (const char *deed = argc > 1 ? argv[1] : ""; *deed; deed++) {
		int answer = 0;

		if (*deed == 'l')
			lose();
		if (*deed == 'u')
			keep_unaligned();
		forget();
		if (*deed == 'c')
			__lsan_do_leak_check();
		if (*deed == 'r')
			answer = __lsan_do_recoverable_leak_check();
		printf("%c%d\n", *deed, answer);
	}
	return 5;
}
