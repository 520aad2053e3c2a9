/* SPDX-License-Identifier: Apache-2.0 */
/* System calls without the C library: what it keeps of itself may be damaged when they are made. */
#ifndef RAW_H
#define RAW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

struct raw_args {
	long a, b, c, d;
};

/* What the kernel answers: minus errno when it fails. */
static inline long raw_call(long number, struct raw_args args)
{
	register long r10 __asm__("r10") = args.d;
	long ret;

	__asm__ volatile("syscall"
	                 : "=a"(ret)
	                 : "a"(number), "D"(args.a), "S"(args.b), "d"(args.c), "r"(r10)
	                 : "rcx", "r11", "memory");
	return ret;
}

static inline long raw_sleep(long us)
{
	const struct timespec moment = { us / 1000000, us % 1000000 * 1000 };

	return raw_call(SYS_nanosleep, (struct raw_args){ .a = (long)&moment });
}

/* The next byte of the standard input; -1 behind the last. */
static inline int raw_read_byte(void)
{
	unsigned char byte;

	return raw_call(SYS_read, (struct raw_args){ .b = (long)&byte, .c = 1 }) == 1 ? byte : -1;
}

static inline void raw_say(const char *text)
{
	size_t len = 0;

	while (text[len])
		len++;
	(void)raw_call(SYS_write, (struct raw_args){ .a = 1, .b = (long)text, .c = (long)len });
}

static inline void raw_say_number(unsigned long number)
{
	char text[24];
	char *at = text + sizeof(text) - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	raw_say(at);
}

#endif
