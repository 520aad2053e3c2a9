/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "alloc/registry/registry.h"

/* The library's data is a page or two; a file that claims to be it may have more. */
enum { SEARCHED_BYTES = 16 * MS_WINDOW_BYTES };

enum {
	MOST_SHARDS = 1 << 16,
	MOST_LISTED = 1 << 27,
	MOST_STACKS = 1 << 24,
	MOST_ENTRY_BYTES = 4096,
	MOST_MODULES = 1 << 16,
};

static bool is_library_data(const struct ms_registry *r, const struct ms_region *region)
{
	static const char name[] = "libmalloc_debug.so";
	const struct ms_mapping *m = ms_region_mapping(r->d->src, region);
	const char *slash = strrchr(m->name, '/');

	return region->kind == MS_REGION_GLOBALS && (m->prot & MS_PROT_WRITE) && slash &&
	       strncmp(slash + 1, name, sizeof(name) - 1) == 0;
}

/* Where in the @n bytes at @bytes the magic stands, or @n. */
static size_t find_magic(const uint8_t *bytes, size_t n)
{
	static const uint64_t magic[2] = { MALLOC_DEBUG_MAGIC_1, MALLOC_DEBUG_MAGIC_2 };

	for (size_t i = 0; i + sizeof(magic) <= n; i += sizeof(uint64_t))
		if (memcmp(bytes + i, magic, sizeof(magic)) == 0)
			return i;
	return n;
}

/* The address of the registry in @range, or 0. */
static ms_addr search(struct ms_registry *r, struct ms_range range)
{
	ms_addr end =
		range.begin + SEARCHED_BYTES < range.end ? range.begin + SEARCHED_BYTES : range.end;

	/* Pieces overlap by less than the magic is long. */
	for (ms_addr at = range.begin; at < end; at += MS_WINDOW_BYTES - sizeof(r->told.magic[0])) {
		size_t want =
			end - at < MS_WINDOW_BYTES ? (size_t)(end - at) : (size_t)MS_WINDOW_BYTES;
		size_t n = ms_source_read(r->d->src, at, r->buffer, want);
		size_t found = find_magic(r->buffer, n);

		if (found < n)
			return at + found;
		if (n < want)
			return 0;
	}
	return 0;
}

bool ms_registry_is_mapped(const struct ms_registry *r, const struct malloc_debug_list *list)
{
	const struct ms_mapping *m = ms_range_find(&r->d->src->mappings, list->at);
	uint64_t bytes = (uint64_t)list->n * list->bytes;

	return !bytes || (m && m->range.end - list->at >= bytes);
}

static bool is_list(const struct ms_registry *r, const struct malloc_debug_list *list,
                    uint32_t most, uint32_t least_bytes)
{
	return list->n <= most &&
	       (!list->n || (list->bytes >= least_bytes && list->bytes <= MOST_ENTRY_BYTES)) &&
	       ms_registry_is_mapped(r, list);
}

/* What is wrong with what the registry says of itself, or NULL. */
static const char *judge(const struct ms_registry *r)
{
	const struct malloc_debug_registry *t = &r->told;

	if (t->version != MALLOC_DEBUG_REGISTRY_VERSION)
		return "it has a layout of another version";
	if (t->bytes < offsetof(struct malloc_debug_registry, modules))
		return "it is too short";
	if (!is_list(r, &t->shards, MOST_SHARDS, sizeof(struct malloc_debug_shard)) ||
	    t->slot_bytes < sizeof(struct malloc_debug_slot) || t->slot_bytes > MOST_ENTRY_BYTES)
		return "its table of live blocks makes no sense";
	if (!is_list(r, &t->kept, MOST_LISTED, sizeof(struct malloc_debug_freed)) ||
	    !is_list(r, &t->deferred, MOST_LISTED, sizeof(uint64_t)))
		return "its lists of freed blocks make no sense";
	if (!is_list(r, &t->stack_pages, MOST_STACKS, sizeof(uint64_t)) || !t->stacks_a_page ||
	    t->stack_pages.n > MOST_STACKS / t->stacks_a_page)
		return "its stacks make no sense";
	if (!is_list(r, &t->modules, MOST_MODULES, sizeof(struct malloc_debug_module)))
		return "its list of libraries makes no sense";
	return is_list(r, &t->records, UINT32_MAX, 1) ? NULL : "its records make no sense";
}

/* An older library has less to tell. */
static void clear_untold(struct malloc_debug_registry *told)
{
	if (told->bytes < sizeof(*told))
		told->modules = (struct malloc_debug_list){ 0 };
}

void ms_registry_find(struct ms_registry *r)
{
	const struct ms_region *region;
	size_t n;

	ms_vec_for_each (region, r->d->regions) {
		if (is_library_data(r, region))
			r->at = search(r, region->range);
		if (r->at)
			break;
	}
	if (!r->at)
		return;
	if (r->d->src->abi.big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {
		r->problem = "its numbers have another order of bytes than memscan's own";
		return;
	}
	n = ms_source_read(r->d->src, r->at, &r->told, sizeof(r->told));
	if (n < offsetof(struct malloc_debug_registry, modules)) {
		r->problem = "it could not be read";
		return;
	}
	clear_untold(&r->told);
	r->problem = judge(r);
}
