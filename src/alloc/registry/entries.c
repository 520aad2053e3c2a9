/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/registry/registry.h"

/*
 * Entries come in no order, so each is put straight to its block's number: sorting them
 * takes longer, and memory for all of them. What that costs is waiting for memory, so
 * some are looked up at once.
 */
enum { AT_ONCE = 64 };

/* The block of an entry. */
struct found {
	bool any;
	struct ms_numbered block;
	uint64_t front; /* bytes from its beginning to the user's first */
};

typedef void (*take_entry)(struct ms_registry *r, const uint8_t *entry, const struct found *found);

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* The block whose user's first byte is @p. */
static struct found find_block(const struct ms_registry *r, ms_addr p)
{
	bool headers = r->told.flags & MALLOC_DEBUG_HEADERS;
	struct found found = { .any = false };

	if (!ms_blocks_at(r->d->blocks, p, &found.block))
		return found;
	__builtin_prefetch(&r->stack[found.block.number], 1);
	__builtin_prefetch(&r->less[found.block.number], 1);
	found.front = p - found.block.begin;
	found.any = headers ? found.front >= r->told.least_offset &&
	                              found.front % MS_TRIM_UNIT == 0 &&
	                              found.front / MS_TRIM_UNIT <= UINT32_MAX
	                    : !found.front;
	return found;
}

/* A stack's number, as far as there may be one of it. */
static uint32_t stack_of(const struct ms_registry *r, uint32_t id)
{
	uint64_t n = (uint64_t)r->told.stack_pages.n * r->told.stacks_a_page;

	if (id < MALLOC_DEBUG_FIRST_STACK || id - MALLOC_DEBUG_FIRST_STACK >= n)
		return MS_ENTRY_STACKLESS;
	return id;
}

/*
 * Whether the block still is the one that was entered: where there are headers, it has one that
 * says so. Asked where the allocator was called directly, too.
 */
static bool is_current(struct ms_registry *r, const struct found *found, uint64_t size)
{
	ms_addr begin = found->block.begin;
	struct malloc_debug_header header;
	uint64_t at;

	if (!(r->told.flags & MALLOC_DEBUG_BYPASSED) || !(r->told.flags & MALLOC_DEBUG_HEADERS) ||
	    r->d->src->abi.word_bytes != sizeof(header.orig))
		return true;
	at = begin + found->front - (r->told.least_offset - MALLOC_DEBUG_HEADER_BEFORE);
	return ms_peek_read(&r->peek, at, &header, sizeof(header)) == sizeof(header) &&
	       header.tag == MALLOC_DEBUG_TAG_LIVE && header.orig == begin && header.size >= size;
}

static void take_slot(struct ms_registry *r, const uint8_t *entry, const struct found *found)
{
	uint64_t number = found->block.number;
	struct malloc_debug_slot slot;
	uint64_t room;

	memcpy(&slot, entry, sizeof(slot));
	r->n_entries++;
	if (!found->any)
		return;
	room = found->block.usable - found->front;
	if (!slot.size || slot.size > room || room - slot.size >= MS_TRIM_IN_USE)
		return;
	if (!is_current(r, found, slot.size)) {
		r->n_stale++;
		return;
	}
	if (r->stack[number] != MS_ENTRY_MISSING) {
		r->n_entries--; /* there a second time, for it was being moved */
		return;
	}
	r->n_believed++;
	r->stack[number] = stack_of(r, slot.stack);
	r->less[number] = (uint32_t)(room - slot.size);
	if (!(r->told.flags & MALLOC_DEBUG_USABLE_NOTED) ||
	    (slot.flags & MALLOC_DEBUG_USABLE_ASKED))
		r->less[number] |= MS_TRIM_IN_USE;
	if (r->front)
		r->front[number] = (uint32_t)(found->front / MS_TRIM_UNIT);
}

/* Freed by the program, whatever the table still says. */
static void take_freed(struct ms_registry *r, const uint8_t *entry, const struct found *found)
{
	(void)entry;
	if (!found->any || r->less[found->block.number] == MS_TRIM_FREE)
		return;
	r->less[found->block.number] = MS_TRIM_FREE;
	r->n_freed++;
	r->freed_bytes += found->block.usable;
}

/* Take the entries that are not empty of @n, AT_ONCE at most, @bytes_each apart. */
static void take_some(struct ms_registry *r, const uint8_t *bytes, size_t n, size_t bytes_each,
                      take_entry take)
{
	const uint8_t *entry[AT_ONCE];
	struct found found[AT_ONCE];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t inverted = word_at(bytes + i * bytes_each);

		if (!inverted)
			continue;
		entry[used++] = bytes + i * bytes_each;
		ms_blocks_fetch(r->d->blocks, ~inverted);
	}
	for (size_t i = 0; i < used; i++)
		found[i] = find_block(r, ~word_at(entry[i]));
	for (size_t i = 0; i < used; i++)
		take(r, entry[i], &found[i]);
}

/* Take entries [@first, @end) of @list; false when they cannot be read. */
static bool read_run(struct ms_registry *r, const struct malloc_debug_list *list, uint64_t first,
                     uint64_t end, take_entry take)
{
	uint64_t most = MS_WINDOW_BYTES / list->bytes;

	for (; first < end; first += most) {
		uint64_t n = end - first < most ? end - first : most;
		size_t len = (size_t)(n * list->bytes);
		ms_addr at = list->at + first * list->bytes;
		const uint8_t *bytes = ms_source_view(r->d->src, at, len);

		if (!bytes && ms_source_read(r->d->src, at, r->buffer, len) != len)
			return false;
		if (!bytes)
			bytes = r->buffer;
		for (uint64_t i = 0; i < n; i += AT_ONCE)
			take_some(r, bytes + i * list->bytes, n - i < AT_ONCE ? n - i : AT_ONCE,
			          list->bytes, take);
	}
	return true;
}

/* Only where something was ever written: tables are large and may be nearly empty. */
static bool read_list(struct ms_registry *r, const struct malloc_debug_list *list, take_entry take)
{
	struct ms_range rest = { list->at, list->at + (uint64_t)list->n * list->bytes };
	struct ms_range run;

	while (rest.begin < rest.end && ms_source_present(r->d->src, rest, &run)) {
		uint64_t first = (run.begin - list->at) / list->bytes;
		uint64_t end = (run.end - list->at + list->bytes - 1) / list->bytes;

		if (!read_run(r, list, first, end < list->n ? end : list->n, take))
			return false;
		rest.begin = list->at + end * list->bytes;
	}
	return true;
}

static uint64_t mapped_bytes(const struct ms_source *src)
{
	const struct ms_mapping *m;
	uint64_t bytes = 0;

	ms_vec_for_each (m, &src->mappings)
		bytes += ms_range_len(m->range);
	return bytes;
}

/* What is wrong with the table at @at, or NULL. */
static const char *read_table(struct ms_registry *r, ms_addr at)
{
	struct malloc_debug_list slots = { at + sizeof(struct malloc_debug_table), 0,
		                           r->told.slot_bytes };
	struct malloc_debug_table head;

	if (ms_peek_read(&r->peek, at, &head, sizeof(head)) != sizeof(head))
		return "a table of live blocks is not mapped";
	if (head.n_slots > UINT32_MAX)
		return "a table of live blocks makes no sense";
	slots.n = (uint32_t)head.n_slots;
	if (!ms_registry_is_mapped(r, &slots))
		return "a table of live blocks is longer than its mapping";
	r->table_bytes += head.n_slots * slots.bytes;
	if (r->table_bytes > r->mapped_bytes)
		return "its tables of live blocks overlap";
	if (!ms_ranges_add(r->d->arena, &r->memory, at, slots.at + head.n_slots * slots.bytes))
		return "there is no memory to read it";
	return read_list(r, &slots, take_slot) ? NULL : "a table of live blocks could not be read";
}

static const char *read_tables(struct ms_registry *r)
{
	const struct malloc_debug_list *shards = &r->told.shards;
	const char *problem = NULL;

	/* Once: both mappings and shards may be many. */
	r->mapped_bytes = mapped_bytes(r->d->src);
	for (uint32_t i = 0; i < shards->n && !problem; i++) {
		struct malloc_debug_shard shard;
		ms_addr at = shards->at + (uint64_t)i * shards->bytes;

		if (ms_peek_read(&r->peek, at, &shard, sizeof(shard)) != sizeof(shard))
			return "its shards could not be read";
		if (shard.table)
			problem = read_table(r, shard.table);
	}
	return problem;
}

static bool make_arrays(struct ms_registry *r)
{
	size_t bytes = (size_t)(r->n_blocks + 1) * sizeof(uint32_t);

	r->less = ms_arena_resize(r->d->arena, NULL, bytes);
	r->stack = ms_arena_resize(r->d->arena, NULL, bytes);
	if (r->told.flags & MALLOC_DEBUG_HEADERS)
		r->front = ms_arena_resize(r->d->arena, NULL, bytes);
	return r->less && r->stack && (r->front || !(r->told.flags & MALLOC_DEBUG_HEADERS));
}

static bool add_memory(struct ms_registry *r, const struct malloc_debug_list *list)
{
	return ms_ranges_add(r->d->arena, &r->memory, list->at,
	                     list->at + (uint64_t)list->n * list->bytes);
}

bool ms_registry_read_entries(struct ms_registry *r)
{
	if (!make_arrays(r))
		return false;
	r->problem = read_tables(r);
	if (!r->problem && (!read_list(r, &r->told.kept, take_freed) ||
	                    !read_list(r, &r->told.deferred, take_freed)))
		r->problem = "its lists of freed blocks could not be read";
	return r->problem || (add_memory(r, &r->told.kept) && add_memory(r, &r->told.records));
}
