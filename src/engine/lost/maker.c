/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/maker.h"

#include <string.h>

#include "base/file.h"
#include "engine/ahead.h"

enum { WORDS = 64 };

/* Below it addresses look like numbers. */
static const ms_addr low_end = UINT64_C(1) << 32;

/* What a module is to a report. */
enum standing {
	UNNAMED, /* it has no file, or is everyone's */
	NAMED,   /* it can be a maker */
	LISTED,  /* it is in the report; and from here on, its number there */
};

struct ms_makers {
	struct ms_ahead ahead;
	const struct ms_abi *abi;
	const struct ms_regions *regions;
	struct ms_types *types;
	struct ms_arena *arena;
	struct ms_report *report;
	uint32_t *modules; /* of each, by its number: enum standing */
};

/* What was seen of a block. */
struct evidence {
	struct ms_maker sums;
	const struct ms_region *region; /* of its module; NULL: none yet */
	uint32_t n_classes;             /* virtual tables among its tables */
	bool begun;                     /* it begins with a table of functions */
	bool several;                   /* others point to other modules */
	bool low;
};

/* ---- modules ---- */

/* Whether programs have this library for others: what points to it shows nobody. */
static bool is_everyones(const char *path)
{
	static const char *const prefixes[] = {
		"libc.",      "libc-2.",     "ld-",         "libm.",       "libm-2.",
		"libpthread", "libdl",       "libstdc++.",  "libc++.",     "libc++abi.",
		"libgcc_s.",  "libjemalloc", "libtcmalloc", "libmimalloc", "libmalloc_debug.",
	};
	const char *name = ms_file_name(path);

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (ms_name_begins(name, prefixes[i]))
			return true;
	return false;
}

struct ms_makers *ms_makers_new(const struct ms_leak_list *list, const struct ms_regions *regions)
{
	struct ms_makers *m = ms_arena_alloc(list->arena, sizeof(*m));
	const struct ms_region *r;
	uint32_t most = 0;

	if (!m)
		return NULL;
	*m = (struct ms_makers){ .ahead.src = list->blocks->src,
		                 .abi = &list->blocks->src->abi,
		                 .regions = regions,
		                 .types = list->types,
		                 .arena = list->arena,
		                 .report = list->report };
	ms_vec_for_each (r, regions)
		most = r->module > most ? r->module : most;
	m->modules = ms_arena_alloc(list->arena, ((size_t)most + 1) * sizeof(*m->modules));
	if (!m->modules)
		return NULL;
	ms_vec_for_each (r, regions) {
		const struct ms_mapping *mapping = ms_region_mapping(m->ahead.src, r);

		if (r->kind == MS_REGION_GLOBALS && mapping->file && !is_everyones(mapping->name))
			m->modules[r->module] = NAMED;
	}
	return m;
}

/* The module's number in the report, from 1 on; 0 without memory. */
static uint32_t list_module(struct ms_makers *m, const struct ms_region *region)
{
	uint32_t *standing = &m->modules[region->module];
	struct ms_module_name *slot;

	if (*standing < LISTED) {
		slot = ms_vec_push(m->arena, &m->report->modules);
		if (!slot)
			return 0;
		ms_types_module(m->types, region->range.begin, slot->path);
		*standing = LISTED + (uint32_t)m->report->modules.n - 1;
	}
	return *standing - LISTED + 1;
}

/* ---- words ---- */

/* The region of code or constants that the word points to, in a module that can be a maker. */
static const struct ms_region *aim_of(const struct ms_makers *m, ms_addr at)
{
	const struct ms_region *region = ms_region_of(m->regions, at);

	if (!region || region->kind != MS_REGION_GLOBALS || !m->modules[region->module] ||
	    (ms_region_mapping(m->ahead.src, region)->prot & MS_PROT_WRITE))
		return NULL;
	return region;
}

/* How the word points to a table; MS_HOWS: it does not. */
static uint8_t table_at(const struct ms_makers *m, uint64_t word)
{
	uint32_t number = ms_types_of_word(m->types, word);

	return number == MS_TYPE_UNKNOWN ? MS_HOWS : ms_types_at(m->types, number)->how;
}

static void count(struct ms_makers *m, uint64_t word, const struct ms_region *region,
                  struct evidence *e)
{
	uint8_t how = MS_HOWS;

	e->low = e->low || region->range.begin < low_end;
	if (ms_region_mapping(m->ahead.src, region)->prot & MS_PROT_EXEC) {
		e->sums.code++;
		return;
	}
	how = table_at(m, word);
	e->sums.constants += how == MS_HOWS;
	e->sums.tables += how != MS_HOWS;
	e->n_classes += how == MS_HOW_VTABLE;
}

static void look(struct ms_makers *m, uint64_t word, bool first, struct evidence *e)
{
	const struct ms_region *region = aim_of(m, ms_abi_address(m->abi, word));

	if (!region)
		return;
	if (e->region && e->region->module != region->module) {
		e->several = true;
		return;
	}
	e->region = region;
	count(m, word, region, e);
	e->begun = e->begun || (first && e->sums.tables > e->n_classes);
}

static bool suffices(const struct evidence *e)
{
	uint32_t n = e->sums.code + e->sums.constants + e->sums.tables - e->n_classes;

	return e->region && (e->begun || !e->several) && n >= (e->low ? 2 : 1);
}

struct ms_maker ms_maker_of(struct ms_makers *m, const struct ms_entry *entry)
{
	const uint8_t bytes = m->abi->word_bytes;
	uint64_t n = entry->size / bytes < WORDS ? entry->size / bytes : WORDS;
	const unsigned char *words = ms_ahead_at(&m->ahead, entry->address, (size_t)n * bytes);
	struct evidence e = { 0 };

	for (uint64_t i = 0; words && i < n; i++)
		look(m, ms_abi_word(m->abi, words + i * bytes), !i, &e);
	if (suffices(&e))
		e.sums.module = list_module(m, e.region);
	return e.sums.module ? e.sums : (struct ms_maker){ 0 };
}
