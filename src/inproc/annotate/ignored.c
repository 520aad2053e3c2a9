/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/ignored.h"

#include <assert.h>
#include <stdint.h>

#include "inproc/annotate/table.h"

/*
 * Tables of buckets. A bucket is a cache line of eight addresses; which bucket is decided
 * by a hash of the address's granule of 128 bytes, so that a block's few granules lead
 * to every entry that points into the block. An entry that finds its bucket full goes to
 * the same granule's bucket of the next table, four times as large:
 *
 *	tables[0]  |64 buckets|
 *	tables[1]  |256 buckets . . . . |
 *	tables[2]  |1024 buckets . . . . . . . . . . . . . . . . . . . |
 *
 * Nothing is ever moved, no search goes on to a neighbouring bucket, and a slot taken out
 * is simply zero again. So every change is one compare-and-swap of one slot or one table's
 * address, and each state between two of them is a good one: readers need no lock; a
 * handler may interrupt a thread anywhere in here and call the same; and the child of a
 * fork() begins with whatever state the other threads had reached.
 */
enum {
	SLOTS = 8,
	GRANULE_BITS = 7,
	FIRST_BITS = 6,
	GROWTH_BITS = 2, /* the last of ten tables has a gigabyte of addresses */
	PAGE_BITS = 12,
	WORD_BITS = 64,
	PAGES_BITS = 15,
};

struct ms_ignored_bucket {
	uintptr_t at[SLOTS]; /* 0: free */
};

static_assert(sizeof(struct ms_ignored_bucket) == 64, "one cache line");
static_assert(MS_IGNORED_PAGE_WORDS * WORD_BITS == 1 << PAGES_BITS, "pages[]");

/* Fibonacci hashing to @bits: neighbours come to be far apart. */
static size_t hash(uintptr_t key, unsigned bits)
{
	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (WORD_BITS - bits));
}

static unsigned bits_of(unsigned table)
{
	return FIRST_BITS + table * GROWTH_BITS;
}

static size_t buckets_of(unsigned table)
{
	return (size_t)1 << bits_of(table);
}

static size_t bucket_of(uintptr_t granule, unsigned table)
{
	return hash(granule, bits_of(table));
}

static struct ms_ignored_bucket *table_at(const struct ms_ignored *set, unsigned table)
{
	return __atomic_load_n(&set->tables[table], __ATOMIC_ACQUIRE);
}

/* The table, made if need be; NULL without memory. */
static struct ms_ignored_bucket *table_made(struct ms_ignored *set, unsigned table)
{
	size_t bytes = buckets_of(table) * sizeof(struct ms_ignored_bucket);
	struct ms_ignored_bucket *there = table_at(set, table);
	struct ms_ignored_bucket *made;

	if (there)
		return there;
	made = ms_table_map(bytes);
	if (!made)
		return NULL;
	if (__atomic_compare_exchange_n(&set->tables[table], &there, made, false, __ATOMIC_ACQ_REL,
	                                __ATOMIC_ACQUIRE))
		return made;
	ms_table_unmap(made, bytes); /* another thread, or a handler, was faster */
	return there;
}

/* Put @p in the bucket, where it may be already; false when the bucket is full. */
static bool fill_slot(struct ms_ignored *set, struct ms_ignored_bucket *bucket, uintptr_t p)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (__atomic_load_n(&bucket->at[i], __ATOMIC_ACQUIRE) == p)
			return true;
	for (unsigned i = 0; i < SLOTS; i++) {
		uintptr_t none = 0;

		if (__atomic_load_n(&bucket->at[i], __ATOMIC_RELAXED) != 0)
			continue;
		/* counted first: a thread that sees the entry must see that there is one */
		__atomic_fetch_add(&set->count, 1, __ATOMIC_SEQ_CST);
		if (__atomic_compare_exchange_n(&bucket->at[i], &none, p, false, __ATOMIC_SEQ_CST,
		                                __ATOMIC_RELAXED))
			return true;
		__atomic_fetch_sub(&set->count, 1, __ATOMIC_SEQ_CST);
	}
	return false;
}

/* Before the entry itself: a thread that knows of the entry finds the bit set. */
static void mark_page(struct ms_ignored *set, uintptr_t p)
{
	size_t bit = hash(p >> PAGE_BITS, PAGES_BITS);

	__atomic_fetch_or(&set->pages[bit / WORD_BITS], UINT64_C(1) << bit % WORD_BITS,
	                  __ATOMIC_SEQ_CST);
}

/* False when no entry points to the bytes; what is no longer there may still look so. */
static bool may_have(const struct ms_ignored *set, uintptr_t begin, size_t size)
{
	uintptr_t first = begin >> PAGE_BITS;
	uintptr_t last = (begin + size - 1) >> PAGE_BITS;

	if (last - first >= 1 << PAGES_BITS)
		return true;
	for (uintptr_t page = first; page <= last; page++) {
		size_t bit = hash(page, PAGES_BITS);

		if (__atomic_load_n(&set->pages[bit / WORD_BITS], __ATOMIC_RELAXED) >>
		            bit % WORD_BITS &
		    1)
			return true;
	}
	return false;
}

bool ms_ignored_add(struct ms_ignored *set, const void *p)
{
	uintptr_t address = (uintptr_t)p;

	mark_page(set, address);
	for (unsigned i = 0; i < MS_IGNORED_TABLES; i++) {
		struct ms_ignored_bucket *table = table_made(set, i);

		if (!table)
			return false;
		if (fill_slot(set, &table[bucket_of(address >> GRANULE_BITS, i)], address))
			return true;
	}
	return false;
}

/* An address that stands twice, put in by two threads at once, is taken out twice. */
static bool empty_slots(struct ms_ignored *set, struct ms_ignored_bucket *bucket, uintptr_t begin,
                        size_t size)
{
	bool found = false;

	for (unsigned i = 0; i < SLOTS; i++) {
		uintptr_t p = __atomic_load_n(&bucket->at[i], __ATOMIC_ACQUIRE);

		if (p == 0 || p - begin >= size)
			continue;
		if (!__atomic_compare_exchange_n(&bucket->at[i], &p, 0, false, __ATOMIC_SEQ_CST,
		                                 __ATOMIC_RELAXED))
			continue;
		__atomic_fetch_sub(&set->count, 1, __ATOMIC_SEQ_CST);
		found = true;
	}
	return found;
}

static bool remove_from(struct ms_ignored *set, unsigned index, uintptr_t begin, size_t size)
{
	struct ms_ignored_bucket *table = table_at(set, index);
	uintptr_t first = begin >> GRANULE_BITS;
	uintptr_t last = (begin + size - 1) >> GRANULE_BITS;
	size_t n_buckets = buckets_of(index);
	bool found = false;

	if (last - first >= n_buckets) {
		for (size_t i = 0; i < n_buckets; i++)
			found |= empty_slots(set, &table[i], begin, size);
		return found;
	}
	for (uintptr_t granule = first; granule <= last; granule++)
		found |= empty_slots(set, &table[bucket_of(granule, index)], begin, size);
	return found;
}

bool ms_ignored_remove(struct ms_ignored *set, const void *begin, size_t size)
{
	bool found = false;

	if (!may_have(set, (uintptr_t)begin, size))
		return false;
	for (unsigned i = 0; i < MS_IGNORED_TABLES && table_at(set, i); i++)
		found |= remove_from(set, i, (uintptr_t)begin, size);
	return found;
}
