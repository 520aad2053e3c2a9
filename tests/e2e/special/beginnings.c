/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions like those of malloc, as a library: their beginnings are what counts, as each compiler
 * makes them (tests/unit/test_place.c). Blocks come from a pool, one behind the other.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { POOL = 1 << 16, HEADER = 16 };

static unsigned char pool[POOL] __attribute__((aligned(4096)));
static size_t used;
static size_t n_free;
/* Like errno in the C library itself, which no call leads to. */
static __thread int own_errno __attribute__((tls_model("initial-exec")));
static void *(*volatile hook)(size_t size);

void begin_again(void)
{
	used = n_free = 0;
	memset(pool, 0, sizeof(pool));
}

/* What blocks are known by: not their address, for the library may lie anywhere. */
long place_of(const void *block)
{
	return block ? (const unsigned char *)block - pool : -1;
}

__attribute__((noinline)) static void *take(size_t alignment, size_t size)
{
	size_t begin = (used + HEADER + alignment - 1) / alignment * alignment;

	if (alignment > POOL || size > POOL || begin + size > POOL)
		return NULL;
	memcpy(pool + begin - sizeof(size), &size, sizeof(size));
	used = begin + size;
	return pool + begin;
}

void *a_malloc(size_t size)
{
	void *(*with)(size_t) = hook;

	if (__builtin_expect(with != NULL, 0))
		return with(size);
	return take(16, size ? size : 1);
}

void a_free(void *block)
{
	int saved = own_errno;

	if (!block)
		return;
	n_free++;
	memset(block, (int)n_free, 8);
	own_errno = saved;
}

void *a_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		own_errno = ENOMEM;
		return NULL;
	}
	return take(16, bytes);
}

void *a_realloc(void *block, size_t size)
{
	size_t had = 0;
	void *moved;

	if (!block)
		return a_malloc(size);
	memcpy(&had, (unsigned char *)block - sizeof(had), sizeof(had));
	moved = take(16, size);
	if (moved)
		memcpy(moved, block, had < size ? had : size);
	a_free(block);
	return moved;
}

void *a_memalign(size_t alignment, size_t size)
{
	return take(alignment < 16 ? 16 : alignment, size);
}

int a_posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *block;

	if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || !alignment)
		return EINVAL;
	block = take(alignment, size);
	if (!block)
		return ENOMEM;
	*ret = block;
	return 0;
}
