/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what is read of an agent's table: a drawn process (agentdrawn.h), some of whose
 * words are then written over, those of the table, of kept registers and stacks, and of the
 * unwind tables of its code.
 *
 *	fuzz: -max_len=200 -len_control=0
 *
 * The first byte of an input says whether the source can be viewed, the second how many blocks
 * there are; then come writes of four bytes each:
 *
 *	place   where: the table's head, its slots, a record, its stack, tables of unwinding
 *	word    which of its words; of the tables of unwinding, which two bytes
 *	how     set, add, flip bits, invert; to a number or an address
 *	value   which
 *
 * It must neither crash nor run on. Origins must be sorted, of live blocks, and samples; no two
 * stacks alike, and all their calls in code. What nobody wrote to must be told as it is drawn.
 */

#include <string.h>

#include "agentdrawn.h"
#include "decoded.h"
#include "target/inject/agent/table.h"
#include "writes.h"

enum { MAX_WRITES = 48, MOST_BLOCKS = 60, DEEPEST = 9 };

static struct agentdrawn a;

static bool is_sampled(unsigned block)
{
	return block % 3 != 2;
}

static unsigned depth_of(unsigned block)
{
	return 1 + block % DEEPEST;
}

static ms_addr slot_at(unsigned n)
{
	for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
		if (a.data->slots[i] && !n--)
			return a.at + offsetof(struct ms_agent_data, slots) + 8 * i;
	return a.at + offsetof(struct ms_agent_data, slots);
}

static ms_addr record_at(unsigned n)
{
	return a.at + offsetof(struct ms_agent_data, records) + (ms_addr)n * MS_AGENT_RECORD_BYTES;
}

static ms_addr address(uint8_t n)
{
	switch (n % 8) {
	case 0:
		return a.at;
	case 1:
		return slot_at(n / 8);
	case 2:
		return record_at(n / 8);
	case 3:
		return record_at(n / 8) + offsetof(struct ms_agent_record, stack);
	case 4:
		return record_at(n / 8) + offsetof(struct ms_agent_record, registers);
	case 5:
		return agentdrawn_code(n / 8);
	case 6:
		return a.tables + (n & 8 ? 0 : 20);
	}
	return a.n_blocks ? a.blocks[n / 8 % a.n_blocks].begin : 0;
}

static void apply(struct write w)
{
	bool tables = w.place % 8 == 6;
	ms_addr place = address(w.place) + w.word * (tables ? 1ull : 8ull);
	uint64_t value = w.value < 64 ? number(w.value) : address(w.value);

	write_word(&a.fake, place, w.how, tables ? w.value : value, ~value);
}

static void draw(unsigned blocks)
{
	ms_addr pcs[DEEPEST];

	for (unsigned i = 0; i < blocks; i++) {
		ms_addr block = agentdrawn_block(&a, 40 + 16 * (i % 11));

		for (unsigned k = 0; k < DEEPEST; k++)
			pcs[k] = agentdrawn_code((i % 7 + k) % AGENTDRAWN_FUNCTIONS);
		if (is_sampled(i))
			(void)agentdrawn_enter(&a, block, 40 + i % 11, pcs, depth_of(i));
	}
}

static void check_untouched(unsigned blocks)
{
	for (unsigned i = 0; i < blocks; i++)
		require(agentdrawn_calls(&a, a.blocks[i].begin) ==
		                (is_sampled(i) ? depth_of(i) : 0),
		        "what is untouched is told");
	require(!a.warnings.n, "and nothing is warned of");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned blocks;
	const char *wrong;

	if (size < 2)
		return -1;
	agentdrawn_init(&a);
	a.fake.no_view = data[0] & 1;
	blocks = data[1] % MOST_BLOCKS;
	draw(blocks);
	for (size_t i = 2; i + 4 <= size && i < 2 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	require(agentdrawn_decode(&a) == MS_OK, "the target's memory is never a failure");
	wrong = agentdrawn_check(&a);
	require(!wrong, wrong);
	if (size < 6)
		check_untouched(blocks);
	agentdrawn_deinit(&a);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	for (uint8_t place = 0; place < 8; place++) {
		uint8_t seed[] = {
			place, 30, place, 1, place, place, (uint8_t)(place + 8), 0, 1, 5
		};

		take(seed, 2);
		take(seed, sizeof(seed));
	}
}
