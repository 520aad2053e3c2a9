/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/links.h"

#include <elf.h>
#include <string.h>

#include "engine/loaded/object.h"

enum {
	MAX_LINKS = 1 << 14,
	MAX_CHAIN = 1 << 12, /* symbols with one hash */
	MAX_IMPORTS = 1 << 16,
	MAX_NAME = 32,
};

/* As <link.h> has them, with addresses in place of pointers. */
struct debug {
	int32_t version;
	int32_t padding;
	ms_addr map;
};

struct link_map {
	ms_addr bias;
	ms_addr name;
	ms_addr dynamic;
	ms_addr next;
};

/* Of a table for GNU's hash, in front of bloom filter, buckets and chains. */
struct gnu_hash {
	uint32_t n_buckets;
	uint32_t first; /* symbol that is in the table; those before are wanted from others */
	uint32_t n_bloom;
	uint32_t shift;
};

static bool read_all(struct ms_peek *peek, ms_addr addr, void *buf, size_t len)
{
	return ms_peek_read(peek, addr, buf, len) == len;
}

/* ---- the list ---- */

/* The first entry of the loader's list, when the object at @begin is the program; or 0. */
static ms_addr first_of(struct ms_peek *peek, ms_addr begin)
{
	struct ms_object object;
	struct link_map map;
	struct debug debug;
	ms_addr at;

	if (!ms_object_read(peek, begin, &object) || !object.dynamic)
		return 0;
	at = ms_dynamic_read(peek, object.dynamic).debug;
	if (!at || !read_all(peek, at, &debug, sizeof(debug)) || debug.version < 1 ||
	    !read_all(peek, debug.map, &map, sizeof(map)) || map.dynamic != object.dynamic)
		return 0;
	return debug.map;
}

void ms_link_open(struct ms_peek *peek, struct ms_link *link)
{
	struct ms_dynamic dynamic = ms_dynamic_read(peek, link->dynamic);

	link->symbols = ms_dynamic_placed(link->bias, dynamic.symbols);
	link->strings = ms_dynamic_placed(link->bias, dynamic.strings);
	link->gnu_hash = ms_dynamic_placed(link->bias, dynamic.gnu_hash);
}

bool ms_links_read(struct ms_peek *peek, const struct ms_regions *regions, struct ms_arena *arena,
                   struct ms_links *ret)
{
	const struct ms_region *region;
	struct link_map map;
	ms_addr at = 0;

	ms_vec_for_each (region, regions) {
		const struct ms_mapping *m = ms_region_mapping(peek->src, region);

		if (region->kind == MS_REGION_GLOBALS && m->file && !m->offset)
			at = first_of(peek, region->range.begin);
		if (at)
			break;
	}
	while (at && ret->n < MAX_LINKS && read_all(peek, at, &map, sizeof(map))) {
		struct ms_link *link = ms_vec_push(arena, ret);

		if (!link)
			return false;
		*link = (struct ms_link){ .bias = map.bias, .dynamic = map.dynamic };
		at = map.next;
	}
	return true;
}

/* ---- symbols ---- */

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Symbol @index of @link, if it is called @name. */
static bool is_called(struct ms_peek *peek, const struct ms_link *link, uint32_t index,
                      const char *name, Elf64_Sym *ret)
{
	char text[MAX_NAME];
	size_t len = strlen(name) + 1;

	return len <= sizeof(text) &&
	       read_all(peek, link->symbols + index * sizeof(*ret), ret, sizeof(*ret)) &&
	       read_all(peek, link->strings + ret->st_name, text, len) && !memcmp(text, name, len);
}

static bool is_function(const Elf64_Sym *symbol)
{
	unsigned char type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
	       (type == STT_FUNC || type == STT_NOTYPE) &&
	       ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
}

static bool read_hash(struct ms_peek *peek, const struct ms_link *link, struct gnu_hash *ret)
{
	return link->gnu_hash && link->symbols && link->strings &&
	       read_all(peek, link->gnu_hash, ret, sizeof(*ret)) && ret->n_buckets;
}

ms_addr ms_link_function(struct ms_peek *peek, const struct ms_link *link, const char *name)
{
	uint32_t wanted = hash_of(name);
	struct gnu_hash table;
	Elf64_Sym symbol;
	ms_addr buckets;
	ms_addr chains;
	uint32_t index;
	uint32_t hash;

	if (!read_hash(peek, link, &table))
		return 0;
	buckets = link->gnu_hash + sizeof(table) + (ms_addr)table.n_bloom * sizeof(uint64_t);
	chains = buckets + (ms_addr)table.n_buckets * sizeof(uint32_t);
	if (!read_all(peek, buckets + (ms_addr)(wanted % table.n_buckets) * sizeof(index), &index,
	              sizeof(index)) ||
	    index < table.first)
		return 0;
	for (uint32_t end = index + MAX_CHAIN; index < end; index++) {
		if (!read_all(peek, chains + (ms_addr)(index - table.first) * sizeof(hash), &hash,
		              sizeof(hash)))
			return 0;
		if ((hash | 1) == (wanted | 1) && is_called(peek, link, index, name, &symbol) &&
		    is_function(&symbol))
			return link->bias + symbol.st_value;
		if (hash & 1)
			return 0;
	}
	return 0;
}

bool ms_link_imports(struct ms_peek *peek, const struct ms_link *link, const char *name)
{
	struct gnu_hash table;
	Elf64_Sym symbol;

	if (!read_hash(peek, link, &table))
		return false;
	for (uint32_t i = 1; i < table.first && i < MAX_IMPORTS; i++)
		if (is_called(peek, link, i, name, &symbol) && symbol.st_shndx == SHN_UNDEF)
			return true;
	return false;
}
