/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/freed.h"

#include <pthread.h>
#include <sys/mman.h>

/* A ring; pointers inverted, as what is freed must not look referenced. 0: empty. */
static struct {
	pthread_mutex_t lock;
	struct malloc_debug_freed *block;
	size_t max;
	size_t first;
	size_t n;
} ring; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

bool ms_freed_init(size_t max)
{
	void *p = mmap(NULL, max * sizeof(*ring.block), PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	ring.block = p;
	ring.max = max;
	return true;
}

static struct malloc_debug_freed *nth(size_t i)
{
	return &ring.block[(ring.first + i) % ring.max];
}

static struct ms_freed plain(const struct malloc_debug_freed *block)
{
	return (struct ms_freed){ (uintptr_t)~block->inverted, (size_t)block->usable,
		                  block->stack };
}

/* It is out of the ring before it is freed: a reader meanwhile takes no other block for it. */
static void take_first(struct ms_freed *ret)
{
	*ret = plain(nth(0));
	__atomic_store_n(&nth(0)->inverted, 0, __ATOMIC_RELEASE);
	ring.first = (ring.first + 1) % ring.max;
	ring.n--;
}

bool ms_freed_push(struct ms_freed block, struct ms_freed *oldest)
{
	struct malloc_debug_freed *last;
	bool full;

	(void)pthread_mutex_lock(&ring.lock);
	full = ring.n == ring.max;
	if (full)
		take_first(oldest);
	last = nth(ring.n++);
	last->usable = block.usable;
	last->stack = block.trace;
	__atomic_store_n(&last->inverted, ~(uint64_t)block.p, __ATOMIC_RELEASE);
	(void)pthread_mutex_unlock(&ring.lock);
	return full;
}

bool ms_freed_pop(struct ms_freed *ret)
{
	bool any;

	(void)pthread_mutex_lock(&ring.lock);
	any = ring.n > 0;
	if (any)
		take_first(ret);
	(void)pthread_mutex_unlock(&ring.lock);
	return any;
}

/* From the newest: an address may have been freed before, and is then there twice. */
bool ms_freed_find(const void *p, struct ms_freed *ret)
{
	bool found = false;

	(void)pthread_mutex_lock(&ring.lock);
	for (size_t i = ring.n; i-- > 0 && !found;) {
		found = nth(i)->inverted == ~(uint64_t)(uintptr_t)p;
		if (found)
			*ret = plain(nth(i));
	}
	(void)pthread_mutex_unlock(&ring.lock);
	return found;
}

struct malloc_debug_list ms_freed_kept(void)
{
	return (struct malloc_debug_list){ (uintptr_t)ring.block, (uint32_t)ring.max,
		                           sizeof(*ring.block) };
}
