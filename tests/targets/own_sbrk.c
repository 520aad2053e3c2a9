/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * own_sbrk: malloc gets its memory from the program, not from brk. Until glibc 2.33, by
 * __morecore: memory of mmap, grown and given back as sbrk would; now and then it is not
 * what follows the last. Later, this is an ordinary heap.
 */
#include "truth.h"

#include <malloc.h>
#include <sys/mman.h>

enum { LIVE = 400, LEAKS = 100, FREED = 300 };

#define AREA ((size_t)64 << 20)
#define HOLE ((ptrdiff_t)3 << 12)

static char *area, *top;
static void *kept[LIVE];

#if __GLIBC__ == 2 && __GLIBC_MINOR__ < 34
static void *more(ptrdiff_t change)
{
	static int calls;
	char *before;

	if (area == NULL) {
		top = area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
		                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (area == MAP_FAILED)
			_exit(97);
	}
	/* as if somebody else had taken some */
	if (change > 0 && ++calls % 5 == 0)
		top += HOLE;
	before = top;
	if (change > 0 && before + change > area + AREA)
		return NULL;
	top += change;
	if (change < 0)
		memset(top, 0, (size_t)-change);
	return before;
}

static void divert(void)
{
	__morecore = more;
}
#else
static void divert(void)
{
}
#endif

static size_t size_of(int i)
{
	return 24 + (size_t)(i * 7919) % 20000;
}

NOINLINE static void make(void)
{
	static void *volatile freed[FREED];

	for (int i = 0; i < LIVE; i++) {
		kept[i] = fresh(size_of(i));
		if (i < FREED)
			freed[i] = fresh(size_of(i + 1));
		if (i % (LIVE / LEAKS) == 0)
			leak(size_of(i + 2));
	}
	for (int i = 0; i < FREED; i++) {
		free(freed[i]);
		freed[i] = NULL;
	}
	for (int i = 0; i < LIVE; i++)
		tell("live", kept[i]);
}

int main(void)
{
	divert();
	make();
	ready();
}
