/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/mapping.h"

#include <string.h>

#include "base/elf/object.h"
#include "base/file.h"
#include "engine/modules.h"

/*
 * A program or library is recognised by its ELF header at the mapping of its
 * file's first bytes. Its loadable segments say how far its writable memory
 * goes: [.data .bss), the tail of which is anonymous. Whatever is mapped from
 * the same file inside that span belongs to it; RELRO and pages that were made
 * read-only later come along, because the source knows which pages changed.
 */

struct module {
	struct ms_range span; /* from its ELF header to the end of its last segment */
	ms_addr last_head;    /* where the file's first page is the last time */
	ms_addr data_end;     /* end of its last writable segment; 0 when it has none */
};

/* Pages of the kernel's, and memory of devices, whose reading may have effects. */
static bool is_unreadable_kind(const struct ms_mapping *m)
{
	return ms_is_kernels(m->name) || ms_is_device(m->name);
}

/* Where the walk over the mappings stands. */
struct classify {
	struct module module;           /* the one seen last */
	const struct ms_mapping *first; /* its ELF header's mapping; NULL before any */
	uint32_t n_modules;
};

/* Whether @m is a part of the module seen last when it lies before @end. */
static bool is_part(const struct classify *c, const struct ms_mapping *m, ms_addr end)
{
	return c->first && ms_mapping_same_file(m, c->first) && m->range.begin < end;
}

/* Fill @ret from the ELF header at @m; false when there is none, or it makes no sense. */
static bool read_module(struct ms_source *src, const struct ms_mapping *m, struct module *ret)
{
	const uint32_t page = src->abi.page_bytes;
	struct ms_object object;

	if (m->offset != 0 || !m->file ||
	    !ms_object_read(ms_source_reader(src), m->range.begin, page, &object) ||
	    object.word_bytes != src->abi.word_bytes)
		return false;
	object.span.end = ms_align_up(object.span.end, page);
	ret->span = m->range;
	if (ret->span.end < object.span.end)
		ret->span.end = object.span.end;
	ret->last_head = object.last_head;
	ret->data_end = ms_align_up(object.data_end, page);
	return true;
}

static enum ms_region_kind kind_by_itself(const struct ms_mapping *m)
{
	if (is_unreadable_kind(m))
		return MS_REGION_SKIP;
	if (!strcmp(m->name, "[heap]"))
		return MS_REGION_BRK;
	if (!strcmp(m->name, "[stack]"))
		return MS_REGION_STACK;
	return MS_REGION_MEMORY;
}

/* The part of an anonymous mapping that is a module's zero-filled data; empty when none is. */
static struct ms_range bss_part(const struct ms_mapping *m, const struct module *module)
{
	struct ms_range none = { m->range.begin, m->range.begin };
	enum ms_region_kind kind = kind_by_itself(m);

	if (m->file || m->shared || m->range.begin < module->span.begin ||
	    (kind != MS_REGION_MEMORY && kind != MS_REGION_BRK))
		return none;
	return ms_range_common(m->range, (struct ms_range){ m->range.begin, module->data_end });
}

static enum ms_region_kind kind_of(const struct classify *c, const struct ms_mapping *m)
{
	if (!m->shared && is_part(c, m, c->module.span.end))
		return MS_REGION_GLOBALS;
	return kind_by_itself(m);
}

/* Add the one or two regions of mapping @i; false when there is no memory. */
static bool add_regions(struct ms_source *src, const struct classify *c, uint32_t i,
                        struct ms_arena *arena, struct ms_regions *ret)
{
	const struct ms_mapping *m = &src->mappings.at[i];
	struct ms_range bss = bss_part(m, &c->module);
	struct ms_region *region;

	if (bss.end > bss.begin) {
		region = ms_vec_push(arena, ret);
		if (!region)
			return false;
		*region = (struct ms_region){ bss, i, c->n_modules, MS_REGION_GLOBALS };
	}
	if (bss.end == m->range.end)
		return true;
	region = ms_vec_push(arena, ret);
	if (!region)
		return false;
	*region = (struct ms_region){ { bss.end, m->range.end }, i, 0, kind_of(c, m) };
	if (region->kind == MS_REGION_GLOBALS)
		region->module = c->n_modules;
	return true;
}

enum ms_status ms_classify(struct ms_source *src, struct ms_arena *arena, struct ms_regions *ret,
                           struct ms_error *err)
{
	struct classify c = { 0 };

	for (uint32_t i = 0; i < src->mappings.n; i++) {
		const struct ms_mapping *m = &src->mappings.at[i];

		/* What is elsewhere is another copy, or the file as a program reads it. */
		if (!is_part(&c, m, c.module.last_head + 1) && read_module(src, m, &c.module)) {
			c.first = m;
			c.n_modules++;
		}
		if (!add_regions(src, &c, i, arena, ret))
			return ms_fail(err, MS_E_NOMEM, "no memory for the mappings");
	}
	return MS_OK;
}

const struct ms_region *ms_region_of(const struct ms_regions *regions, ms_addr addr)
{
	return ms_range_find(regions, addr);
}

bool ms_regions_cover(const struct ms_regions *regions, struct ms_range range)
{
	const struct ms_region *r = ms_region_of(regions, range.begin);

	while (r && r->range.end < range.end) {
		const struct ms_region *next = r + 1;

		if (next == regions->at + regions->n || next->range.begin != r->range.end)
			return false;
		r = next;
	}
	return r;
}

bool ms_region_is_writable(const struct ms_source *src, const struct ms_regions *regions,
                           ms_addr addr)
{
	const struct ms_region *region = ms_region_of(regions, addr);

	return region && region->kind != MS_REGION_SKIP &&
	       (ms_region_mapping(src, region)->prot & MS_PROT_WRITE);
}

static bool is_data(const struct ms_source *src, const struct ms_region *region)
{
	return region->kind == MS_REGION_GLOBALS &&
	       (ms_region_mapping(src, region)->prot & MS_PROT_WRITE);
}

bool ms_next_data(const struct ms_source *src, const struct ms_regions *regions, size_t *i,
                  struct ms_data *ret)
{
	const struct ms_region *end = regions->at + regions->n;
	const struct ms_region *next = regions->at + *i;

	while (next < end && !is_data(src, next))
		next++;
	if (next == end)
		return false;
	*ret = (struct ms_data){ next, next->range };
	while (++next < end && next->kind == MS_REGION_GLOBALS &&
	       next->module == ret->region->module && next->range.begin == ret->range.end)
		ret->range.end = next->range.end;
	*i = (size_t)(next - regions->at);
	return true;
}

ms_addr ms_module_begin(const struct ms_regions *regions, uint32_t module)
{
	const struct ms_region *region;

	ms_vec_for_each (region, regions)
		if (region->kind == MS_REGION_GLOBALS && region->module == module)
			return region->range.begin;
	return 0;
}

bool ms_is_interpreter(const struct ms_mapping *mapping)
{
	const char *name = ms_file_name(mapping->name);

	return mapping->file && ms_name_begins(name, "ld-") && !ms_name_begins(name, "ld-musl");
}

const struct ms_mapping *ms_mapped_file(const struct ms_source *src, const char *part)
{
	const struct ms_mapping *mapping;

	ms_vec_for_each (mapping, &src->mappings)
		if (mapping->file && strstr(ms_file_name(mapping->name), part))
			return mapping;
	return NULL;
}
