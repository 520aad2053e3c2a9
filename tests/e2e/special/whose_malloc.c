/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded: says so when a process uses malloc in a memory that it did not start
 * with, be it that it shares the memory or that it is a fork of it.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static void check(void)
{
	static const char text[] = "malloc of another process\n";
	static long owner;
	long self = syscall(SYS_getpid);

	if (!owner)
		owner = self;
	if (owner != self)
		(void)!write(2, text, strlen(text));
}

void *malloc(size_t size)
{
	check();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	check();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	check();
	return __libc_realloc(p, size);
}

void free(void *p)
{
	check();
	__libc_free(p);
}
