/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_MAPPING_H
#define MS_ENGINE_MAPPING_H

/*
 * Step 3: what each mapping is for, by the maps and by the ELF program
 * headers in memory, not by names alone.
 *
 * A region is a mapping or a part of one. A program's or library's zero-filled
 * data often shares its mapping with what was mapped behind it; only the program
 * header says where the data ends.
 */

#include "base/range.h"
#include "base/status.h"
#include "engine/source.h"

enum ms_region_kind {
	MS_REGION_SKIP,    /* kernel pages, devices: nothing to read */
	MS_REGION_GLOBALS, /* of a program or library: data, bss, RELRO, and all else of its file */
	MS_REGION_BRK,     /* grown by brk: the program break's mapping */
	MS_REGION_STACK,   /* the main thread's */
	MS_REGION_MEMORY,  /* anonymous, shared, memfd, private file: a node of the graph */
};

struct ms_region {
	struct ms_range range;
	uint32_t mapping; /* index in the source's mappings */
	uint32_t module;  /* of GLOBALS: equal for all regions of one program or library */
	enum ms_region_kind kind;
};

struct ms_regions MS_VEC(struct ms_region);

/* Classify every mapping of @src. Regions come in address order, without overlap. */
ms_must_check enum ms_status ms_classify(struct ms_source *src, struct ms_arena *arena,
                                         struct ms_regions *ret, struct ms_error *err);

/* The region that has @addr, or NULL. */
const struct ms_region *ms_region_of(const struct ms_regions *regions, ms_addr addr);

/* True when memory is mapped from @range's begin to its end without a hole. */
bool ms_regions_cover(const struct ms_regions *regions, struct ms_range range);

/* Whether @addr is in memory that the program can write to, and that is no device. */
bool ms_region_is_writable(const struct ms_source *src, const struct ms_regions *regions,
                           ms_addr addr);

/* Writable data of a program or library, joined over the regions that it spreads over. */
struct ms_data {
	const struct ms_region *region; /* the first */
	struct ms_range range;
};

/* The next data from region *@i on, which is moved behind it; false when there is none. */
bool ms_next_data(const struct ms_source *src, const struct ms_regions *regions, size_t *i,
                  struct ms_data *ret);

/* Where @module begins, with its ELF header; 0: it is not there. */
ms_addr ms_module_begin(const struct ms_regions *regions, uint32_t module);

/* Whether it is of a program's interpreter that is not the C library, too, as musl's is. */
bool ms_is_interpreter(const struct ms_mapping *mapping);

/* The mapped file whose name has @part in its last component; NULL: none is. */
const struct ms_mapping *ms_mapped_file(const struct ms_source *src, const char *part);

static inline const struct ms_mapping *ms_region_mapping(const struct ms_source *src,
                                                         const struct ms_region *region)
{
	return &src->mappings.at[region->mapping];
}

#endif
