/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/regions.h"

#include <stdint.h>

#include "base/page.h"
#include "inproc/annotate/table.h"

/*
 * A slot's state is FREE, BUSY or USED in the low bits, and above them a number that
 * grows with each change: so a slot that is seen as USED, read, and then taken by
 * compare-and-swap is still the one that was read. A thread that a fork() cut off while
 * its slot was BUSY costs the child this slot, nothing else.
 *
 * A region may lie over several mappings, some of them made later, and a reference to
 * its beginning reaches only the first. Therefore a region of more than one page has a
 * reference to each of its pages; past a gigabyte, to every second, every fourth ...
 */
enum { SLOTS = 4096, FREE = 0, BUSY = 1, USED = 2, STATES = 4 };

static const size_t PAGES_MAX = (size_t)1 << 18;

struct slot {
	uintptr_t begin; /* the reference itself */
	size_t size;
	uintptr_t *pages; /* NULL for a region within one page */
	size_t pages_bytes;
	uint64_t state;
};

/* Global because scans must find it without help. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): see above */
static struct slot *slots;

static struct slot *slots_made(void)
{
	struct slot *there = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
	struct slot *made;

	if (there)
		return there;
	made = ms_table_map(SLOTS * sizeof(struct slot));
	if (!made)
		return NULL;
	if (__atomic_compare_exchange_n(&slots, &there, made, false, __ATOMIC_ACQ_REL,
	                                __ATOMIC_ACQUIRE))
		return made;
	ms_table_unmap(made, SLOTS * sizeof(struct slot));
	return there;
}

/* Take a slot that was seen in @state for this thread alone. */
static bool take(struct slot *slot, uint64_t state)
{
	return __atomic_compare_exchange_n(&slot->state, &state, state / STATES * STATES + BUSY,
	                                   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void give_back(struct slot *slot, uint64_t state)
{
	uint64_t next = slot->state / STATES + 1;

	__atomic_store_n(&slot->state, next * STATES + state, __ATOMIC_RELEASE);
}

static uint64_t state_of(const struct slot *slot)
{
	return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

/* References to the second and all further pages; false without memory. */
static bool point_to_pages(struct slot *slot)
{
	uintptr_t first = slot->begin / MS_PAGE_BYTES + 1;
	uintptr_t end = (slot->begin + slot->size - 1) / MS_PAGE_BYTES + 1;
	size_t stride = 1;

	slot->pages = NULL;
	if (end <= first)
		return true;
	while ((end - first) / stride >= PAGES_MAX)
		stride *= 2;
	slot->pages_bytes = ((end - first) / stride + 1) * sizeof(*slot->pages);
	slot->pages = ms_table_map(slot->pages_bytes);
	if (!slot->pages)
		return false;
	for (uintptr_t page = first, i = 0; page < end; page += stride, i++)
		slot->pages[i] = page * MS_PAGE_BYTES;
	return true;
}

static void clear(struct slot *slot)
{
	__atomic_store_n(&slot->begin, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->size, 0, __ATOMIC_RELAXED);
	if (slot->pages)
		ms_table_unmap(slot->pages, slot->pages_bytes);
	slot->pages = NULL;
}

bool ms_regions_add(const void *p, size_t size)
{
	struct slot *slot = slots_made();
	struct slot *end = slot ? slot + SLOTS : NULL;

	for (; slot < end; slot++) {
		uint64_t state = state_of(slot);

		if (state % STATES != FREE || !take(slot, state))
			continue;
		__atomic_store_n(&slot->begin, (uintptr_t)p, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->size, size, __ATOMIC_RELAXED);
		if (point_to_pages(slot)) {
			give_back(slot, USED);
			return true;
		}
		clear(slot);
		give_back(slot, FREE);
		return false;
	}
	return false;
}

bool ms_regions_remove(const void *p, size_t size)
{
	struct slot *slot = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
	struct slot *end = slot ? slot + SLOTS : NULL;

	for (; slot < end; slot++) {
		uint64_t state = state_of(slot);

		if (state % STATES != USED ||
		    __atomic_load_n(&slot->begin, __ATOMIC_RELAXED) != (uintptr_t)p ||
		    __atomic_load_n(&slot->size, __ATOMIC_RELAXED) != size || !take(slot, state))
			continue;
		clear(slot);
		give_back(slot, FREE);
		return true;
	}
	return false;
}
