/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agentdrawn.h"
#include "decoded.h"
#include "sanitized.h"
#include "target/inject/agent/table.h"

/* What an agent keeps of blocks, told from its memory, true and false. */

static struct agentdrawn a;

static void init(void)
{
	agentdrawn_init(&a);
}

static void deinit(void)
{
	agentdrawn_deinit(&a);
}

TestSuite(agent_reading, .init = init, .fini = deinit, .timeout = 20);

static void decode(void)
{
	const char *wrong;

	for (int no_view = 0; no_view < 2; no_view++) {
		a.fake.no_view = no_view;
		cr_assert_eq(agentdrawn_decode(&a), MS_OK);
		wrong = agentdrawn_check(&a);
		cr_expect_null(wrong, "%s", wrong);
	}
}

/* A block that was sampled in function @f, called by 7. */
static ms_addr sample(unsigned f, uint64_t usable, uint64_t size)
{
	ms_addr block = agentdrawn_block(&a, usable);

	(void)agentdrawn_enter(&a, block, size,
	                       (ms_addr[]){ agentdrawn_code(f), agentdrawn_code(7) }, 2);
	return block;
}

static struct ms_agent_record *record_of(ms_addr block)
{
	for (size_t i = 0; i < MS_AGENT_RECORDS; i++)
		if (a.data->records[i].block == block)
			return &a.data->records[i];
	abort();
}

Test(agent_reading, samples_have_their_stacks)
{
	ms_addr p[4];

	p[0] = sample(1, 40, 33);
	p[1] = agentdrawn_block(&a, 56);
	p[2] = sample(2, 4000, 4000);
	p[3] = sample(1, 24, 0);
	a.data->n_dropped = 5;
	decode();
	cr_expect_eq(a.origins.blocks.n, 3);
	cr_expect_eq(a.origins.stacks.n, 2);
	cr_expect_eq(agentdrawn_pc(&a, p[0]), agentdrawn_code(1));
	cr_expect_eq(agentdrawn_pc(&a, p[1]), 0);
	cr_expect_eq(agentdrawn_pc(&a, p[2]), agentdrawn_code(2));
	cr_expect_eq(agentdrawn_calls(&a, p[2]), 2);
	cr_expect_eq(a.origins.blocks.at[0].asked, 33);
	cr_expect_eq(a.origins.blocks.at[2].asked, 1, "none counts as one");
	cr_expect_eq(a.origins.sampling.on, 1);
	cr_expect_eq(a.origins.sampling.interval, 4096);
	cr_expect_eq(a.origins.sampling.samples, 3);
	cr_expect_eq(a.origins.sampling.live, 3);
	cr_expect_eq(a.origins.sampling.dropped, 5);
	cr_expect(notes_say(&a.evidence, "3 of 3 sampled entries are live blocks, 2 stacks; 5 "));
	cr_expect_eq(a.heaps.at[0].n_evidence, 1);
	cr_expect_eq(a.warnings.n, 0);
}

Test(agent_reading, samples_are_whole_when_the_agent_says_so_and_none_is_lost)
{
	ms_addr block = sample(1, 40, 33);

	decode();
	cr_expect_not(a.origins.sampling.whole);
	a.data->whole = 1;
	decode();
	cr_expect(a.origins.sampling.whole);
	a.data->whole = 2;
	decode();
	cr_expect_not(a.origins.sampling.whole, "whatever that means");
	a.data->whole = 1;
	a.data->n_dropped = 1;
	decode();
	cr_expect_not(a.origins.sampling.whole, "one had no room");
	a.data->n_dropped = 0;
	record_of(block)->registers[0] = 0;
	decode();
	cr_expect_not(a.origins.sampling.whole, "one has no stack");
}

Test(agent_reading, its_memory_is_nobody_elses)
{
	ms_addr end = a.at + sizeof(*a.data);

	decode();
	cr_assert_eq(a.decoding.owned.n, 1);
	cr_expect_eq(a.decoding.owned.at[0].begin, a.at - MS_AGENT_TEXT_BYTES);
	cr_expect_eq(a.decoding.owned.at[0].end, ms_align_up(end, 4096));
	a.text[0] = 'M';
	decode();
	cr_expect_eq(a.decoding.owned.at[0].begin, a.at, "code of somebody else's");
}

Test(agent_reading, memory_that_came_behind_is_not_its_own)
{
	struct ms_mapping *data = &a.fake.base.mappings.at[a.fake.base.mappings.n - 1];
	ms_addr block = sample(1, 40, 40);

	data->range.end += 4096; /* nobody reads it */
	decode();
	cr_expect_eq(agentdrawn_pc(&a, block), agentdrawn_code(1));
	cr_expect_eq(a.decoding.owned.at[0].end, data->range.end - 4096);
}

/* The kernel says so of memory in which brk() would begin. */
Test(agent_reading, memory_that_is_called_the_heap_is_its_own_too)
{
	struct ms_mappings *maps = &a.fake.base.mappings;
	ms_addr block = sample(1, 40, 40);

	for (size_t i = 1; i <= 2; i++) {
		maps->at[maps->n - i].name = "[heap]";
		decode();
		cr_expect_eq(agentdrawn_pc(&a, block), agentdrawn_code(1));
		cr_expect_eq(a.decoding.owned.at[0].begin, a.at - MS_AGENT_TEXT_BYTES);
	}
}

/* Memory that is something else. */
static void expect_nothing(const char *what)
{
	decode();
	cr_expect_eq(a.decoding.owned.n, 0, "%s", what);
	cr_expect_eq(a.origins.blocks.n, 0, "%s", what);
	cr_expect_eq(a.origins.sampling.on, 0, "%s", what);
	cr_expect_eq(a.warnings.n + a.evidence.n, 0, "%s", what);
}

Test(agent_reading, only_its_own_mapping_is_believed)
{
	struct ms_mapping *data = &a.fake.base.mappings.at[a.fake.base.mappings.n - 1];
	struct ms_mapping was = *data;

	(void)sample(1, 40, 40);
	data->file = true;
	expect_nothing("a file");
	*data = was;
	data->shared = true;
	expect_nothing("shared memory");
	*data = was;
	data->name = "[stack]";
	expect_nothing("a stack");
	*data = was;
	data->prot = MS_PROT_READ;
	expect_nothing("constants");
	*data = was;
	data->range.end -= 4096;
	expect_nothing("shorter");
	*data = was;
	a.data->magic[8]++;
	expect_nothing("another magic");
}

Test(agent_reading, what_an_agent_knew_that_was_taken_out_is_of_the_past)
{
	(void)sample(1, 40, 40);
	a.data->magic[0] = '\0';
	decode();
	cr_expect_eq(a.decoding.owned.n, 1);
	cr_expect_eq(a.origins.blocks.n, 0);
	cr_expect_eq(a.origins.sampling.on, 0);
	cr_expect_eq(a.warnings.n + a.evidence.n, 0);
}

static void expect_problem(const char *what)
{
	decode();
	cr_expect_eq(a.origins.blocks.n, 0);
	cr_expect_eq(a.origins.sampling.on, 0);
	cr_expect_eq(a.warnings.n, 1);
	cr_expect(notes_say(&a.warnings, what), "%s", what);
}

Test(agent_reading, a_table_that_makes_no_sense_is_not_used)
{
	(void)sample(1, 40, 40);
	a.data->interval = (UINT64_C(1) << 32) + 1;
	expect_problem("its distance between samples makes no sense");
	a.data->interval = UINT64_C(1) << 32;
	decode();
	cr_expect_eq(a.origins.blocks.n, 1);
	a.data->n_used = MS_AGENT_RECORDS + 1;
	expect_problem("it has more records than it has room for");
	a.data->n_used = 1;
	a.data->n_modules = MS_AGENT_MODULES + 1;
	expect_problem("it has more libraries than it has room for");
}

static void lie_size(struct ms_agent_record *record)
{
	record->size = 41;
}

static void lie_block(struct ms_agent_record *record)
{
	record->block += 16;
}

static void lie_length(struct ms_agent_record *record)
{
	record->n_stack = MS_AGENT_STACK + 1;
}

static void lie_slot(struct ms_agent_record *record)
{
	(void)record;
	for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
		if (a.data->slots[i])
			a.data->slots[i] += 1u << MS_AGENT_NUMBER_BITS; /* within the block */
}

static void lie_number(struct ms_agent_record *record)
{
	(void)record;
	for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
		a.data->slots[i] += a.data->slots[i] != 0; /* never used */
}

static void lie_used(struct ms_agent_record *record)
{
	(void)record;
	a.data->n_used = 0;
}

Test(agent_reading, entries_that_contradict_the_heap_are_left_out)
{
	static void (*const lies[])(struct ms_agent_record * record) = {
		lie_size, lie_block, lie_length, lie_slot, lie_number, lie_used,
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		ms_addr block;

		deinit();
		init();
		block = sample(1, 40, 40);
		decode();
		cr_expect_eq(a.origins.blocks.n, 1, "%zu", i);
		lies[i](record_of(block));
		decode();
		cr_expect_eq(a.origins.blocks.n, 0, "%zu", i);
		cr_expect_eq(a.origins.sampling.live, 0, "%zu", i);
	}
}

Test(agent_reading, a_block_has_one_entry)
{
	ms_addr block = sample(1, 40, 40);

	for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
		a.data->slots[i] = ms_agent_slot_of(block, 0);
	decode();
	cr_expect_eq(a.origins.blocks.n, 1);
	cr_expect_eq(a.origins.sampling.samples, 1);
}

Test(agent_reading, a_stack_without_a_call_is_told_of)
{
	ms_addr block = sample(1, 40, 40);

	record_of(block)->registers[0] = 0x1234;
	decode();
	cr_expect_eq(a.origins.blocks.n, 0);
	cr_expect_eq(a.origins.sampling.live, 1);
	cr_expect(notes_say(&a.warnings, "1 kept stacks of allocations are invalid"));
}

Test(agent_reading, a_stack_ends_where_its_bytes_do)
{
	ms_addr block = sample(1, 40, 40);

	record_of(block)->n_stack = 15;
	decode();
	cr_expect_eq(agentdrawn_calls(&a, block), 1);
}

/* Each frame has two words, and the table room for so many of them. */
Test(agent_reading, of_deep_stacks_the_innermost_calls_are_told)
{
	ms_addr block = agentdrawn_block(&a, 40);
	ms_addr pcs[240];

	for (unsigned i = 0; i < 240; i++)
		pcs[i] = agentdrawn_code(i % 7);
	(void)agentdrawn_enter(&a, block, 40, pcs, 240);
	decode();
	cr_expect_eq(agentdrawn_calls(&a, block), 240);
}

/* Of each of so many addresses a row has to be found. */
Test(agent_reading, tables_that_take_too_long_are_given_up)
{
	ms_addr blocks[20];

	if (SANITIZED)
		cr_skip_test("it takes too long");
	for (unsigned i = 0; i < 20; i++) {
		ms_addr pcs[100];

		for (unsigned k = 0; k < 100; k++)
			pcs[k] = agentdrawn_code(0) + i * 100 + k;
		blocks[i] = agentdrawn_block(&a, 40);
		(void)agentdrawn_enter(&a, blocks[i], 40, pcs, 100);
	}
	decode();
	cr_expect_eq(agentdrawn_calls(&a, blocks[19]), 100);
	cr_expect_eq(a.warnings.n, 0);
	agentdrawn_lengthen_tables(&a);
	cr_assert_eq(agentdrawn_decode(&a), MS_OK);
	cr_expect_null(agentdrawn_check(&a));
	cr_expect_eq(agentdrawn_calls(&a, blocks[0]), 100);
	cr_expect_eq(agentdrawn_calls(&a, blocks[19]), 1);
	cr_expect(notes_say(&a.warnings, "the limit of work for unwinding was reached after "));
}

/*
 * Where each frame's row lies on pages that were not read before, a few bytes of tables cost
 * reads. Each stack is another, and none has an address of the others.
 */
Test(agent_reading, the_work_of_all_stacks_together_has_a_limit)
{
	enum { STACKS = 250, CALLS = 240, MOST_READS = 150000 };
	unsigned k = 0;

	if (SANITIZED)
		cr_skip_test("it takes too long");
	agentdrawn_add_liar(&a);
	for (unsigned i = 0; i < STACKS; i++) {
		ms_addr pcs[CALLS];
		ms_addr block = agentdrawn_block(&a, 40);

		for (unsigned c = 0; c < CALLS; c++, k++)
			pcs[c] = agentdrawn_liar_code(k);
		(void)agentdrawn_enter(&a, block, 40, pcs, CALLS);
		agentdrawn_link_frames(record_of(block));
	}
	a.fake.no_view = true;
	a.fake.reads = 0;
	cr_assert_eq(agentdrawn_decode(&a), MS_OK);
	cr_expect_null(agentdrawn_check(&a));
	cr_expect_lt(a.fake.reads, MOST_READS, "%zu reads", (size_t)a.fake.reads);
	cr_expect_eq(a.origins.blocks.n, STACKS, "each has its first call");
	cr_expect(notes_say(&a.warnings, "of the others only the innermost call is known"));
}

/* Blocks that a loop allocates have the same bytes on the stack. */
Test(agent_reading, stacks_of_the_same_bytes_are_unwound_once)
{
	size_t reads[2];

	for (unsigned n = 0; n < 2; n++) {
		for (unsigned i = 0; i < 100; i++)
			(void)sample(5, 40, 40);
		a.fake.no_view = true;
		a.fake.reads = 0;
		cr_assert_eq(agentdrawn_decode(&a), MS_OK);
		reads[n] = a.fake.reads;
	}
	cr_expect_eq(a.origins.blocks.n, 200);
	cr_expect_eq(a.origins.stacks.n, 1);
	cr_expect_eq(reads[1] - reads[0], 100, "a record each");
}

/* ---- libraries that were unloaded ---- */

/* A block that function @f of it made, called by 7. */
static ms_addr sample_former(unsigned f)
{
	ms_addr block = agentdrawn_block(&a, 40);

	(void)agentdrawn_enter(&a, block, 40,
	                       (ms_addr[]){ agentdrawn_former_code(f), agentdrawn_code(7) }, 2);
	return block;
}

static ms_addr last_pc(ms_addr block)
{
	ms_addr first = agentdrawn_pc(&a, block);
	size_t i = 0;

	while (a.origins.pcs.at[i] != first)
		i++;
	return a.origins.pcs.at[i + agentdrawn_calls(&a, block) - 1];
}

Test(agent_reading, stacks_go_on_behind_a_library_that_was_unloaded)
{
	ms_addr p = sample_former(3);
	const struct ms_code *code;

	(void)agentdrawn_unload(&a);
	decode();
	cr_assert_eq(agentdrawn_calls(&a, p), 2);
	cr_expect_eq(last_pc(p), agentdrawn_code(7));
	code = ms_range_find(&a.origins.unloaded, agentdrawn_pc(&a, p));
	cr_assert(code);
	cr_expect_str_eq(code->name, "/lib/former.so");
	cr_expect_eq(agentdrawn_pc(&a, p) - code->moved, agentdrawn_former_code(3));
	cr_expect_eq(a.warnings.n, 0);
}

Test(agent_reading, without_its_table_its_own_call_alone_is_known)
{
	ms_addr p = sample_former(3);

	agentdrawn_unload(&a)->table_bytes = 0;
	decode();
	cr_assert_eq(agentdrawn_calls(&a, p), 1);
	cr_expect(ms_range_find(&a.origins.unloaded, agentdrawn_pc(&a, p)));
}

Test(agent_reading, a_stack_of_later_is_not_in_it)
{
	ms_addr p = sample_former(3);

	(void)agentdrawn_unload(&a);
	record_of(p)->n_unloads = 1;
	decode();
	cr_expect_eq(agentdrawn_calls(&a, p), 0);
}

Test(agent_reading, equal_bytes_may_be_stacks_of_two_libraries)
{
	ms_addr p[2] = { sample_former(3), sample_former(3) };

	(void)agentdrawn_unload(&a);
	*agentdrawn_unload(&a)->path = 'x';
	a.data->modules[1].first_unload = 1;
	record_of(p[1])->n_unloads = 1;
	decode();
	cr_expect_eq(agentdrawn_calls(&a, p[0]), 2);
	cr_expect_eq(agentdrawn_calls(&a, p[1]), 2);
	cr_expect_neq(agentdrawn_pc(&a, p[0]), agentdrawn_pc(&a, p[1]));
}

Test(agent_reading, a_table_elsewhere_than_among_the_tables_is_not_read)
{
	static const struct {
		uint32_t at;
		uint32_t bytes;
		uint64_t table;
	} cases[] = {
		{ MS_AGENT_TABLES - 8, 9, 0x1000 },
		{ UINT32_MAX, 2, 0x1000 },
		{ 0, UINT32_MAX, 0x1000 },
		{ 0, MS_AGENT_TABLES, UINT64_MAX - 8 },
	};
	ms_addr p = sample_former(3);
	struct ms_agent_module *module = agentdrawn_unload(&a);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		module->table_at = cases[i].at;
		module->table_bytes = cases[i].bytes;
		module->table = cases[i].table;
		decode();
		cr_expect_eq(agentdrawn_calls(&a, p), 1, "%zu", i);
	}
}

Test(agent_reading, a_path_without_an_end_ends)
{
	ms_addr p = sample_former(3);
	struct ms_agent_module *module = agentdrawn_unload(&a);

	memset(module->path, 'x', sizeof(module->path));
	module->build_id_len = UINT64_MAX;
	decode();
	cr_expect_eq(agentdrawn_calls(&a, p), 2);
	cr_expect_eq(strlen(a.origins.unloaded.at[0].name), sizeof(module->path));
	cr_expect_eq(a.origins.unloaded.at[0].build_id_len, 0);
}

Test(agent_reading, what_a_preloaded_library_knows_comes_first)
{
	ms_addr block = sample(1, 40, 40);

	a.preloaded = true;
	cr_assert_eq(agentdrawn_decode(&a), MS_OK);
	cr_expect_eq(a.origins.blocks.n, 1);
	cr_expect_eq(agentdrawn_calls(&a, block), 0);
	cr_expect_eq(a.decoding.owned.n, 1);
}
