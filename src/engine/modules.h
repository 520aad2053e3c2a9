/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_MODULES_H
#define MS_ENGINE_MODULES_H

/* Which mappings are of one program or library. */

#include <string.h>

#include "base/page.h"
#include "engine/report.h"
#include "engine/source.h"

/* By inode, or where a source has none, by name. */
static inline bool ms_mapping_same_file(const struct ms_mapping *a, const struct ms_mapping *b)
{
	if (!a->file || !b->file)
		return false;
	if (!a->inode && !b->inode)
		return !strcmp(a->name, b->name);
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* A mapping of a file as the next one of the same file is compared with it. */
struct ms_segment {
	uint64_t offset; /* in the file */
	uint64_t bytes;
	uint8_t prot;
};

/*
 * Whether @next goes on with the run of its file's mappings that ends with @before.
 *
 * Loaders put the segments of a file in the order of their offsets. lld does not begin each at
 * a page of the file: a page that is of several is mapped for each, and in a file of less than a
 * page all begin at 0. The data is last; behind it a second copy of the file may be, and in
 * front of it all the file once more, as a program reads it.
 */
static inline bool ms_segment_goes_on(struct ms_segment before, struct ms_segment next)
{
	if (before.offset == next.offset)
		return before.bytes <= MS_LARGEST_PAGE_BYTES &&
		       (!(before.prot & MS_PROT_WRITE) || next.prot & MS_PROT_WRITE);
	return before.offset < next.offset;
}

static inline struct ms_segment ms_segment_of(const struct ms_mapping *map)
{
	return (struct ms_segment){ map->offset, ms_range_len(map->range), map->prot };
}

/*
 * The mapping with which the run of mappings of @map's file begins, @map being one of
 * @maps: where its ELF header is, when it has one. @map itself when it shows no file.
 * What is no file may stand in a run (holes, bss), another file may not.
 */
static inline const struct ms_mapping *ms_module_first(const struct ms_mappings *maps,
                                                       const struct ms_mapping *map)
{
	const struct ms_mapping *first = map;

	for (const struct ms_mapping *m = map; map->file && m > maps->at;) {
		m--;
		if (!m->file)
			continue;
		if (!ms_mapping_same_file(m, map) ||
		    !ms_segment_goes_on(ms_segment_of(m), ms_segment_of(first)))
			break;
		first = m;
	}
	return first;
}

/* ---- the same of what a report carries, where holes between a file's mappings are left out ----
 */

static inline void ms_code_init(struct ms_code *ret, const struct ms_mapping *map)
{
	*ret = (struct ms_code){ .range = map->range,
		                 .offset = map->offset,
		                 .inode = map->inode,
		                 .dev_major = map->dev_major,
		                 .dev_minor = map->dev_minor,
		                 .prot = map->prot };
	(void)strncpy(ret->name, map->name, sizeof(ret->name) - 1);
}

static inline bool ms_code_same_file(const struct ms_code *a, const struct ms_code *b)
{
	return a->inode && a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor;
}

static inline struct ms_segment ms_segment_of_code(const struct ms_code *code)
{
	return (struct ms_segment){ code->offset, ms_range_len(code->range), code->prot };
}

static inline const struct ms_code *ms_code_first(const struct ms_codes *all,
                                                  const struct ms_code *code)
{
	while (code > all->at && ms_code_same_file(code - 1, code) &&
	       ms_segment_goes_on(ms_segment_of_code(code - 1), ms_segment_of_code(code)))
		code--;
	return code;
}

#endif
