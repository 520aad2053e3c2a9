/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_PEEK_H
#define MS_ENGINE_LOADED_PEEK_H

/*
 * Reading single words of target memory here and there, at the cost of a read for
 * each piece: some pieces read last are kept. Structures that an allocator's lists
 * lead to lie close together as a rule. Not for several threads at once.
 */

#include <stddef.h>

#include "engine/source.h"

enum { MS_PEEK_BYTES = 4096, MS_PEEK_PIECES = 256 };

struct ms_peek_piece {
	bool kept;
	ms_addr addr;
	size_t len; /* bytes that can be read, from its begin on */
	uint8_t bytes[MS_PEEK_BYTES];
};

struct ms_peek {
	struct ms_source *src;
	struct ms_peek_piece *pieces;
	uint64_t n_reads; /* pieces that were read so far */
};

/* False without memory. */
ms_must_check bool ms_peek_init(struct ms_peek *peek, struct ms_source *src,
                                struct ms_arena *arena);

/* As ms_source_read(). */
size_t ms_peek_read(struct ms_peek *peek, ms_addr addr, void *buf, size_t len);

/* The same for what reads ELF. */
struct ms_reader ms_peek_reader(struct ms_peek *peek);

#endif
