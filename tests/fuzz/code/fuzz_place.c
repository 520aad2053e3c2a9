/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what chooses where a jump is put into a function (target/inject/place.h).
 *
 *	fuzz: -max_len=64
 *
 * An input is a function's code. No byte behind it may be read; and what was moved must
 * consist of as many instructions, each of which leads to, or means, the same place.
 */

#include <string.h>

#include "target/inject/place.h"

#include "fuzz.h"

enum { ENTRY = 0x400000, ELSEWHERE = 0x500000 };

static void check_moved(const struct ms_place *place, const struct ms_moved *moved)
{
	for (unsigned i = 0; i < place->n_insns; i++) {
		uint64_t from = place->entry + place->at[i], to = ELSEWHERE + moved->at[i];
		const uint8_t *old_bytes = place->bytes + place->at[i];
		const uint8_t *new_bytes = moved->bytes + moved->at[i];
		struct ms_insn old, new;

		require(ms_insn_read(old_bytes, MS_INSN_MAX, &old), "the old is understood");
		require(ms_insn_read(new_bytes, moved->len - moved->at[i], &new), "and the new");
		require(old.kind == new.kind, "they are of one kind");
		require(moved->at[i] + new.length == moved->at[i + 1], "the next is behind it");
		require(!old.relative_at == !new.relative_at, "both depend on where they are");
		require(!old.relative_at || ms_insn_aim(&old, old_bytes, from) ==
		                                    ms_insn_aim(&new, new_bytes, to),
		        "both aim at one place");
		require(ms_place_moved_pc(place, moved, ELSEWHERE, from) ==
		                (from >= place->window ? to : 0),
		        "a thread goes on there");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *code = malloc(size + 1);
	struct ms_place place;
	struct ms_moved moved;

	require(code, "there is memory");
	/* At the end of what was allocated, so that one byte more is seen. */
	memcpy(code + 1, data, size);
	if (ms_place_choose(code + 1, size, ENTRY, 2, &place) == MS_PLACE_FOUND) {
		require(place.end - place.window >= MS_JUMP, "the jump has room");
		require(place.end - place.entry <= size, "the place is in the function");
		require(ms_jump_write(place.window, ELSEWHERE, (uint8_t[MS_JUMP]){ 0 }),
		        "it is near");
		if (ms_place_move(&place, ELSEWHERE, &moved))
			check_moved(&place, &moved);
	}
	free(code);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	static const uint8_t seeds[][16] = {
		{ 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0x48, 0x8d, 0x04, 0x37, 0xc3 },
		{ 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54, 0x55, 0x53, 0x50, 0xc3 },
		{ 0x48, 0x85, 0xff, 0x74, 0x40, 0x48, 0x8b, 0x05, 1, 2, 3, 0, 0xc3 },
		{ 0xe9, 0, 1, 0, 0 },
		{ 0x48, 0x81, 0xec, 0x88, 1, 0, 0, 0x0f, 0x84, 1, 2, 0, 0 },
		{ 0xb8, 1, 0, 0, 0, 0xc4, 0xe2, 0x70, 0xf3, 0xcb, 0xc3 },
	};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
		take(seeds[i], sizeof(seeds[i]));
}
