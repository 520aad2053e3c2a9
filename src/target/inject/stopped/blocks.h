/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_BLOCKS_H
#define MS_TARGET_BLOCKS_H

/*
 * What the control blocks of all threads say, read once while these stand: with thousands of them
 * each further question by thread would be as many calls.
 */

#include "target/collection.h"
#include "target/inject/control.h"

struct ms_control_block {
	uint64_t words[MS_CONTROL_BYTES / 8];
	uint64_t stack[2]; /* what the C library says of the stack: its begin and size */
	bool has_words;    /* they could be read */
	bool has_stack;
};

struct ms_control_blocks {
	const struct ms_control *control; /* borrowed */
	struct ms_control_block *at;      /* one for each of a collection's threads */
	uint32_t max;
};

/* Before the stop. MS_E_NOMEM. */
ms_must_check enum ms_status ms_control_blocks_init(struct ms_control_blocks *blocks,
                                                    const struct ms_control *control,
                                                    uint32_t max_threads, struct ms_arena *arena,
                                                    struct ms_error *err);

void ms_control_blocks_read(struct ms_control_blocks *blocks, const struct ms_collection *frozen);

#endif
