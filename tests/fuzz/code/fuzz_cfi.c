/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the unwinder of libmalloc_debug, which reads the tables of whatever code runs
 * (shim/frames/cfi.h).
 *
 *	fuzz: -max_len=2048
 *
 * The first three bytes of an input say where the table is and which code is asked for;
 * the rest is a module's bytes. It must neither crash nor run on, nor read any other byte;
 * a rule must be one that the walk can follow.
 */

#include <string.h>

#include "shim/frames/cfi.h"

#include "module.h"

enum { WORD = 8, CHOSEN = 3, FARTHEST = 1 << 17 };

static void check(struct ms_cfi_rule rule)
{
	if (rule.kind == MS_CFI_OTHER || rule.kind == MS_CFI_END)
		return;
	require(rule.kind == MS_CFI_RSP || rule.kind == MS_CFI_RBP, "a rule is of a kind");
	require(rule.cfa > -FARTHEST && rule.cfa < FARTHEST && rule.cfa % WORD == 0,
	        "a frame is near");
	require(rule.rbp > -FARTHEST && rule.rbp < FARTHEST && rule.rbp % WORD == 0,
	        "what it saved is near");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_cfi_rule rule;
	struct ms_range module;
	size_t header;
	uint8_t *bytes;

	if (size < CHOSEN)
		return -1;
	header = data[0] + 256u * data[1];
	size -= CHOSEN;
	bytes = malloc(size + 1);
	require(bytes, "there is memory");
	memcpy(bytes, data + CHOSEN, size);
	module = (struct ms_range){ (uintptr_t)bytes, (uintptr_t)bytes + size };
	rule = ms_cfi_find(module, (uintptr_t)bytes + header, (uintptr_t)bytes + CODE + data[2]);
	check(rule);
	if (header == offsetof(struct drawn_module, header) && is_drawn(bytes, size))
		require(rule.kind == (data[2] <= 0x20  ? MS_CFI_RSP
		                      : data[2] < 0x40 ? MS_CFI_RBP
		                                       : MS_CFI_OTHER),
		        "what it has is found");
	free(bytes);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	const size_t header = offsetof(struct drawn_module, header);
	struct {
		uint8_t chosen[CHOSEN];
		uint8_t bytes[sizeof(struct drawn_module)];
	} seed = { { header % 256, header / 256, 0 }, { 0 } };
	struct drawn_module m;

	draw_module(&m);
	for (uint8_t at = 0; at < 0x60; at++) {
		seed.chosen[2] = at;
		memcpy(seed.bytes, &m, sizeof(m));
		take(&seed, sizeof(seed));
	}
	/* Far away, by an expression, and not usual. */
	for (uint8_t i = 0; i < 3; i++) {
		const uint8_t bodies[3][8] = { { 0, 0x41, 0x0e, 0x80, 0x80, 0x80, 0x01, 0 },
			                       { 0, 0x41, 0x0f, 2, 0x77, 8, 0x0a, 0x0b },
			                       { 0, 0x41, 0x07, 16, 0x10, 6, 1, 0 } };

		memcpy(m.entries[0].rest, bodies[i], sizeof(bodies[i]));
		seed.chosen[2] = 4;
		memcpy(seed.bytes, &m, sizeof(m));
		take(&seed, sizeof(seed));
	}
	/* An entry that goes on behind the module. */
	draw_module(&m);
	m.entries[1].len = 0x1000;
	memset(m.entries[1].rest, 0, sizeof(m.entries[1].rest));
	seed.chosen[2] = 0x24;
	memcpy(seed.bytes, &m, sizeof(m));
	take(&seed, CHOSEN + offsetof(struct drawn_module, end));
}
