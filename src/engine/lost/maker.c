/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/maker.h"

#include <string.h>

#include "base/elf/object.h"
#include "base/file.h"

/* Below it addresses look like numbers. */
static const ms_addr low_end = UINT64_C(1) << 32;

/* What a module is to a report. */
enum standing {
	UNNAMED, /* it has no file, or is everyone's */
	NAMED,   /* it can be a maker */
	LISTED,  /* it is in the report; and from here on, its number there */
};

/* Whether a module calls malloc or the like. */
enum allocating { UNASKED, ALLOCATES, NEVER_ALLOCATES };

struct ms_makers {
	struct ms_source *src;
	const struct ms_regions *regions;
	struct ms_types *types;
	struct ms_arena *arena;
	struct ms_report *report;
	uint32_t *modules;   /* of each, by its number: enum standing */
	uint8_t *allocating; /* likewise: enum allocating */
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
	*m = (struct ms_makers){ .src = list->blocks->src,
		                 .regions = regions,
		                 .types = list->types,
		                 .arena = list->arena,
		                 .report = list->report };
	ms_vec_for_each (r, regions)
		most = r->module > most ? r->module : most;
	m->modules = ms_arena_alloc(list->arena, ((size_t)most + 1) * sizeof(*m->modules));
	m->allocating = ms_arena_alloc(list->arena, (size_t)most + 1);
	if (!m->modules || !m->allocating)
		return NULL;
	ms_vec_for_each (r, regions) {
		const struct ms_mapping *mapping = ms_region_mapping(m->src, r);

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

static const char *const givers[] = {
	"malloc",
	"calloc",
	"realloc",
	"reallocarray",
	"aligned_alloc",
	"posix_memalign",
	"memalign",
	"strdup",
	"strndup",
	"_Znwm",
	"_Znam", /* operator new and new[], of 64 bits and of 32 */
	"_Znwj",
	"_Znaj",
	"_ZnwmSt11align_val_t",
	"_ZnwmRKSt9nothrow_t",
};

/* A static program contains malloc, and does not import it. */
static enum allocating ask(const struct ms_makers *m, uint32_t module)
{
	const struct ms_reader from = ms_source_reader(m->src);
	ms_addr begin = ms_module_begin(m->regions, module);
	struct ms_object object;
	struct ms_dynamic dynamic;

	if (!begin || !ms_object_read(from, begin, m->src->abi.page_bytes, &object))
		return NEVER_ALLOCATES;
	dynamic = ms_dynamic_read(from, &object);
	if (!ms_dynamic_is_shared(&dynamic))
		return ALLOCATES;
	for (size_t i = 0; i < sizeof(givers) / sizeof(givers[0]); i++)
		if (ms_dynamic_imports(from, &dynamic, givers[i]) ||
		    ms_dynamic_function(from, &dynamic, givers[i]))
			return ALLOCATES;
	return NEVER_ALLOCATES;
}

static bool allocates(struct ms_makers *m, uint32_t module)
{
	if (m->allocating[module] == UNASKED)
		m->allocating[module] = (uint8_t)ask(m, module);
	return m->allocating[module] == ALLOCATES;
}

/* ---- words ---- */

/* How the word points to a table; MS_HOWS: it does not. */
static uint8_t table_at(const struct ms_makers *m, uint64_t word)
{
	uint32_t number = ms_types_of_word(m->types, word);

	return number == MS_TYPE_UNKNOWN ? MS_HOWS : ms_types_at(m->types, number)->how;
}

static void count(struct ms_makers *m, const struct ms_aim *aim, struct evidence *e)
{
	uint8_t how = MS_HOWS;

	e->low = e->low || aim->region->range.begin < low_end;
	if (ms_region_mapping(m->src, aim->region)->prot & MS_PROT_EXEC) {
		e->sums.code++;
		return;
	}
	how = table_at(m, aim->word);
	e->sums.constants += how == MS_HOWS;
	e->sums.tables += how != MS_HOWS;
	e->n_classes += how == MS_HOW_VTABLE;
}

static void look(struct ms_makers *m, const struct ms_aim *aim, struct evidence *e)
{
	if (!m->modules[aim->region->module])
		return;
	if (e->region && e->region->module != aim->region->module) {
		e->several = true;
		return;
	}
	e->region = aim->region;
	count(m, aim, e);
	e->begun = e->begun || (!aim->at && e->sums.tables > e->n_classes);
}

static bool suffices(const struct evidence *e)
{
	uint32_t n = e->sums.code + e->sums.constants + e->sums.tables - e->n_classes;

	return e->region && (e->begun || !e->several) && n >= (e->low ? 2 : 1);
}

/* By the words of @least standing. */
static struct evidence weigh(struct ms_makers *m, const struct ms_aims *aims,
                             enum ms_aim_standing least)
{
	struct evidence e = { 0 };

	for (size_t i = 0; i < aims->n; i++)
		if (aims->at[i].standing >= least)
			look(m, &aims->at[i], &e);
	return e;
}

void ms_maker_of(struct ms_makers *m, const struct ms_aims *aims, struct ms_leak *ret)
{
	struct evidence e = weigh(m, aims, MS_AIM_OWN);
	bool proved = suffices(&e) && allocates(m, e.region->module);

	if (!proved)
		e = weigh(m, aims, MS_AIM_SHARED);
	if (suffices(&e))
		e.sums.module = list_module(m, e.region);
	if (!e.sums.module)
		return;
	ret->maker = e.sums;
	ret->unproved = !proved;
}
