/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoder of malloc_debug's registry: a drawn process (regdrawn.h), some of
 * whose words are then written over, with what is there already as a rule: addresses,
 * counts, sizes.
 *
 *	fuzz: -max_len=200 -len_control=0
 *
 * The first byte of an input chooses the flags and whether the source can be viewed, the
 * second how many blocks there are; then come writes of four bytes each:
 *
 *	place   where: the registry, its shards, a table, stacks, lists of freed blocks
 *	word    which of its words
 *	how     set, add, flip bits, invert; to a number or an address
 *	value   which
 *
 * It must neither crash nor run on. Blocks that are told must lie within those of the
 * allocator, with a size that they have; sums must be those of the blocks; origins must be
 * sorted, and have blocks and stacks. What nobody wrote to must be told as it is drawn.
 */

#include <stdio.h>
#include <string.h>

#include "regdrawn.h"
#include "writes.h"

enum { MAX_WRITES = 48, STACKS = 12 };

static struct regdrawn r;

static ms_addr address(uint8_t n)
{
	const struct malloc_debug_registry *t = r.registry;
	const struct ms_mappings *maps = &r.fake.base.mappings;
	ms_addr table = 0;

	switch (n % 8) {
	case 0:
		return r.at;
	case 1:
		return t->shards.at + n / 8 % REGDRAWN_SHARDS * (ms_addr)64;
	case 2:
		(void)ms_source_word(&r.fake.base, t->shards.at + n / 8 % REGDRAWN_SHARDS * 64ull,
		                     &table);
		return table;
	case 3:
		return maps->at[3].range.begin + n / 8 * 8;
	case 4:
		return maps->at[3].range.begin + 0x800;
	case 5:
		return n & 8 ? t->kept.at : t->deferred.at;
	case 6:
		return n / 8 % 2 ? maps->at[n / 16 % maps->n].range.begin
		                 : maps->at[n / 16 % maps->n].range.end - 16;
	}
	return r.n_blocks ? r.blocks[n / 8 % r.n_blocks].begin : 0;
}

static void apply(struct write w)
{
	ms_addr place = address(w.place) + w.word * UINT64_C(8);
	uint64_t value = w.value < 64 ? number(w.value) : address(w.value);

	write_word(&r.fake, place, w.how, value, ~value);
}

/* So that all of them fit, and some are freed. */
static void draw(unsigned blocks)
{
	uint64_t front = r.registry->flags & MALLOC_DEBUG_HEADERS ? 96 : 0;
	uint32_t first = 0;

	for (unsigned i = 0; i < STACKS; i++) {
		uint32_t id = regdrawn_stack(&r, 0x1000 * (i + 1), 1 + i);

		first = i ? first : id;
	}
	for (unsigned i = 0; i < blocks; i++) {
		ms_addr p = i % 9 == 8 ? regdrawn_single(&r, 5000 + i)
		                       : regdrawn_block(&r, 136 + 16 * (i % 11) + i % 4);

		if (i % 7 < 5)
			(void)regdrawn_enter(&r, p + front, 1 + i % 30, first + i % STACKS);
		else if (i % 7 == 5)
			r.kept[i / 7 % REGDRAWN_KEPT].inverted = ~(p + front);
		else
			r.deferred[i / 7 % REGDRAWN_DEFERRED] = ~(p + front);
	}
}

static void check_untouched(unsigned blocks)
{
	char text[80];
	unsigned entered = 0;

	for (unsigned i = 0; i < blocks; i++)
		entered += i % 7 < 5;
	(void)snprintf(text, sizeof(text), "registry 1: %u of %u ", entered, entered);
	require(regdrawn_says(&r.evidence, text), "what is untouched is believed");
	require(!r.warnings.n, "and nothing is warned of");
	require(r.origins.blocks.n == entered, "each has its origin");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned blocks;
	const char *wrong;

	if (size < 2)
		return -1;
	regdrawn_init(&r);
	r.registry->flags = data[0] & 7;
	r.registry->least_offset = 64;
	r.fake.no_view = data[0] & 8;
	blocks = data[1] % 100;
	draw(blocks);
	for (size_t i = 2; i + 4 <= size && i < 2 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	require(regdrawn_decode(&r) == MS_OK, "the target's memory is never a failure");
	wrong = regdrawn_check(&r);
	require(!wrong, wrong);
	if (size < 6)
		check_untouched(blocks);
	regdrawn_deinit(&r);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	for (uint8_t flags = 0; flags < 16; flags++) {
		uint8_t seed[] = { flags, 30, flags, 1, flags, flags, 2, 0, 1, 5 };

		take(seed, 2);
		take(seed, sizeof(seed));
	}
}
