/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_MODULES_H
#define MS_ENGINE_MODULES_H

/* Which mappings are of one program or library. */

#include "engine/source.h"

static inline bool ms_mapping_same_file(const struct ms_mapping *a, const struct ms_mapping *b)
{
	return a->inode && a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor;
}

/*
 * The mapping with which the run of mappings of @map's file begins, @map being one of
 * @maps: where its ELF header is, when it has one. @map itself when it shows no file.
 *
 * Loaders put the segments of a file in the order of their offsets; what is no file
 * may stand between them (holes, bss), another file may not.
 */
static inline const struct ms_mapping *ms_module_first(const struct ms_mappings *maps,
                                                       const struct ms_mapping *map)
{
	const struct ms_mapping *first = map;

	for (const struct ms_mapping *m = map; map->inode && m > maps->at;) {
		m--;
		if (!m->inode)
			continue;
		if (!ms_mapping_same_file(m, map) || m->offset > first->offset)
			break;
		first = m;
	}
	return first;
}

#endif
