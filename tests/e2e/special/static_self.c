/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be linked statically that searches itself and calls no
 * function of the C library's malloc but malloc and free. With OWN_MALLOC these are its
 * own, which no search understands.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memunreachable/annotate.h"
#include "memunreachable/memunreachable.h"

#ifdef OWN_MALLOC
static char pool[1 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t size)
{
	used += (size + 31) / 16 * 16;
	return pool + used - (size + 15) / 16 * 16;
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size);
}

void *realloc(void *p, size_t size)
{
	void *grown = malloc(size);

	return p ? memcpy(grown, p, size) : grown;
}
#endif

/* Kept inverted, they are no references. */
static volatile uintptr_t hidden[3];
static void *volatile kept;

__attribute__((noinline)) static void make(void)
{
	for (int i = 0; i < 3; i++)
		hidden[i] = ~(uintptr_t)malloc(100 + 50 * (size_t)i);
	kept = malloc(1000);
	memunreachable_ignore((void *)~hidden[2]);
	memunreachable_disable();
	hidden[1] = ~(uintptr_t)malloc(500);
	memunreachable_enable();
}

__attribute__((noinline)) static void forget(void)
{
	char dead[1 << 16];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

int main(void)
{
	struct UnreachableMemoryInfo info;
	bool found;

	memset(&info, 0, sizeof(info));
	make();
	kept = reallocarray(kept, 2, 700);
	forget();
	found = GetUnreachableMemory(&info, 100);
	printf("%d %zu", found, info.num_leaks);
	for (size_t i = 0; i < info.num_listed; i++)
		printf(" %zu", info.leaks[i].size);
	printf("\n");
	return 0;
}
