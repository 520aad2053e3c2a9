/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/peek.h"

#include <assert.h>
#include <string.h>

bool ms_peek_init(struct ms_peek *peek, struct ms_source *src, struct ms_arena *arena)
{
	peek->src = src;
	peek->pieces = ms_arena_resize(arena, NULL, MS_PEEK_PIECES * sizeof(*peek->pieces));
	return peek->pieces;
}

static_assert(MS_PEEK_PIECES == 1 << 8, "as many as there are slots");

/* Mappings begin at round addresses; their first pieces shall not share a slot. */
static size_t slot_of(ms_addr piece)
{
	return (size_t)(piece / MS_PEEK_BYTES * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

/* The bytes of the piece at @addr, and how many there are from its begin on. */
static const uint8_t *piece_at(struct ms_peek *peek, ms_addr addr, size_t *ret_len)
{
	const uint8_t *view = ms_source_view(peek->src, addr, MS_PEEK_BYTES);
	struct ms_peek_piece *piece = &peek->pieces[slot_of(addr)];

	*ret_len = MS_PEEK_BYTES;
	if (view)
		return view;
	if (!piece->kept || piece->addr != addr) {
		peek->n_reads++;
		piece->kept = true;
		piece->addr = addr;
		piece->len = ms_source_read(peek->src, addr, piece->bytes, MS_PEEK_BYTES);
	}
	*ret_len = piece->len;
	return piece->bytes;
}

size_t ms_peek_read(struct ms_peek *peek, ms_addr addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ms_addr piece = ms_align_down(addr + done, MS_PEEK_BYTES);
		size_t from = (size_t)(addr + done - piece);
		size_t there;
		const uint8_t *bytes = piece_at(peek, piece, &there);
		size_t n;

		if (there <= from)
			break;
		n = there - from < len - done ? there - from : len - done;
		memcpy((char *)buf + done, bytes + from, n);
		done += n;
	}
	return done;
}

static size_t read_peek(void *ctx, ms_addr addr, void *buf, size_t len)
{
	return ms_peek_read(ctx, addr, buf, len);
}

struct ms_reader ms_peek_reader(struct ms_peek *peek)
{
	return (struct ms_reader){ read_peek, peek };
}
