/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_BESIDE_H
#define MS_TARGET_BESIDE_H

/* Memory that a clone does not have as the target has it, copied. */

#include "target/hold/mirror.h"
#include "target/hold/pages.h"

struct ms_beside {
	struct ms_mappings maps;     /* by address */
	struct ms_wanted_list pages; /* resident ones of these */
	struct ms_mirrors mirrors;
	struct ms_ranges lost; /* of the pages, those that could not be read */
	uint64_t bytes;        /* copied */
	bool in_clone;         /* too many to copy: all are left to the clone */
};

/*
 * Look up the resident pages of @tid in beside->maps and make room for them; up to
 * @max_bytes, beyond which they are left in the clone. Called again, it keeps the room
 * made, as long as nothing was copied.
 */
ms_must_check enum ms_status ms_beside_choose(struct ms_beside *beside, pid_t tid,
                                              uint64_t max_bytes, struct ms_arena *arena,
                                              struct ms_error *err);

/* Copy the pages chosen. */
ms_must_check enum ms_status ms_beside_copy(struct ms_beside *beside, pid_t tid,
                                            struct ms_arena *arena, struct ms_error *err);

/* Read what was copied, up to the first page that could not be; false where nothing was. */
bool ms_beside_read(struct ms_beside *beside, struct ms_range part, char *buf, size_t *ret);

/* Add @map, to be sorted by ms_beside_sort(). False without memory, as the next. */
bool ms_beside_add(struct ms_beside *beside, const struct ms_mapping *map, struct ms_arena *arena);
bool ms_beside_sort(struct ms_beside *beside, struct ms_arena *arena);

void ms_beside_close(struct ms_beside *beside);

#endif
