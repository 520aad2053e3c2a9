/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/decode.h"
#include "fake.h"

/* Two toy decoders and a toy annotator, which write down what they are asked, and see. */
enum { FIRST = 0x100000, SECOND = 0x200000, BYTES = 0x1000, RW = MS_PROT_READ | MS_PROT_WRITE };

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_blocks blocks;
static struct ms_heaps heaps;
static struct ms_notes evidence;
static struct ms_notes warnings;
static struct ms_decoding decoding;
static struct ms_error err;
static char calls[64];
static char others[64]; /* the memory that each saw others have */
static uint32_t groups[2];
static bool here[2];
static int state;

static void call(const char *what)
{
	strcat(strcat(calls, what), " ");
}

static enum ms_status claim(struct ms_decoding *d, struct ms_claim *ret, int which)
{
	uint32_t *module = ms_vec_push(d->arena, &ret->modules);

	if (!here[which])
		return MS_OK;
	*module = 77;
	ret->state = &state;
	ret->unused = which == 1;
	groups[which] = ms_blocks_new_group(d->blocks);
	return ms_ranges_add(d->arena, &ret->memory, which ? SECOND : FIRST,
	                     (which ? SECOND : FIRST) + BYTES)
	               ? MS_OK
	               : MS_E_NOMEM;
}

/* The blocks of the second come first, so that only sorting puts them in order. */
static enum ms_status put(struct ms_decoding *d, const struct ms_claim *c, int which)
{
	ms_addr begin = which ? FIRST + BYTES : SECOND + BYTES;
	const struct ms_range *r;
	uint32_t extent;

	ms_vec_for_each (r, &c->others)
		sprintf(strchr(others, 0), "%d:%llx ", which, (unsigned long long)r->begin);
	if (ms_blocks_open(d->blocks, (struct ms_range){ begin, begin + 32 }, 4, &extent) ||
	    ms_blocks_put(d->blocks, extent, begin, 24))
		return MS_E_NOMEM;
	d->blocks->extents.at[extent].group = groups[which];
	return MS_OK;
}

static enum ms_status add_heap(struct ms_decoding *d)
{
	struct ms_heap *heap = ms_vec_push(d->arena, d->heaps);

	return heap ? MS_OK : MS_E_NOMEM;
}

static enum ms_status claim_a(struct ms_decoding *d, struct ms_claim *ret)
{
	call("claim-a");
	return claim(d, ret, 0);
}

static enum ms_status claim_b(struct ms_decoding *d, struct ms_claim *ret)
{
	call("claim-b");
	return claim(d, ret, 1);
}

static enum ms_status read_a(struct ms_decoding *d, const struct ms_claim *c)
{
	call("read-a");
	return put(d, c, 0);
}

static enum ms_status read_b(struct ms_decoding *d, const struct ms_claim *c)
{
	call("read-b");
	return put(d, c, 1);
}

static enum ms_status settle_a(struct ms_decoding *d, const struct ms_claim *c)
{
	call("settle-a");
	cr_expect_eq(c->state, &state);
	/* Only where they are sorted is one found. */
	cr_expect(ms_blocks_begins(d->blocks, SECOND + BYTES));
	ms_blocks_drop_group(d->blocks, groups[0]);
	return add_heap(d);
}

static enum ms_status settle_b(struct ms_decoding *d, const struct ms_claim *c)
{
	(void)c;
	call("settle-b");
	return add_heap(d);
}

static enum ms_status annotate(struct ms_decoding *d)
{
	(void)d;
	call("annotate");
	return MS_OK;
}

static const struct ms_decoder a = { "a", "a's malloc", claim_a, read_a, settle_a };
static const struct ms_decoder b = { "b", "b's", claim_b, read_b, settle_b };
static const struct ms_decoder *const decoders[] = { &a, &b, NULL };
static const struct ms_annotator toy = { "toy", annotate };
static const struct ms_annotator *const annotators[] = { &toy, NULL };

static enum ms_status decode(bool a_here, bool b_here)
{
	memset(&blocks, 0, sizeof(blocks));
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	memset(&heaps, 0, sizeof(heaps));
	calls[0] = others[0] = '\0';
	here[0] = a_here;
	here[1] = b_here;
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .regions = &regions,
		                         .arena = &fake.arena,
		                         .decoders = decoders,
		                         .blocks = &blocks,
		                         .heaps = &heaps,
		                         .evidence = &evidence,
		                         .warnings = &warnings };
	return ms_decode(&decoding, annotators, &err);
}

Test(decode, all_claim_before_any_reads_and_all_read_before_any_settles)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(true, true), MS_OK);
	cr_expect_str_eq(calls, "claim-a claim-b read-a read-b settle-a settle-b annotate ");
	cr_expect_str_eq(others, "0:200000 1:100000 ");
	cr_expect_not(decoding.unused, "one of both was called");
	ms_fake_deinit(&fake);
}

Test(decode, groups_of_two_decoders_are_not_mixed_up)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(true, true), MS_OK);
	cr_assert(!ms_blocks_seal(&blocks));
	cr_expect_eq(blocks.n, 1);
	cr_expect(ms_blocks_begins(&blocks, FIRST + BYTES), "the second's is still there");
	ms_fake_deinit(&fake);
}

Test(decode, a_decoder_that_claims_nothing_is_not_asked_again)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(false, true), MS_OK);
	cr_expect_str_eq(calls, "claim-a claim-b read-b settle-b annotate ");
	cr_expect(decoding.unused);
	cr_expect_str_empty(others);
	ms_fake_deinit(&fake);
}

/* A claim has module 77; beside it there is memory of another module, and of none. */
static const struct {
	ms_addr at;
	enum ms_in_malloc in_malloc;
	enum ms_in_malloc want;
} threads[] = {
	{ FIRST, MS_MALLOC_WORKS, MS_MALLOC_WORKS },
	{ FIRST, MS_MALLOC_WAITS, MS_MALLOC_WAITS },
	{ FIRST, MS_MALLOC_OUT, MS_MALLOC_OUT },
	{ FIRST + BYTES, MS_MALLOC_WORKS, MS_MALLOC_OUT },
	{ FIRST + BYTES, MS_MALLOC_WAITS, MS_MALLOC_OUT },
	{ SECOND, MS_MALLOC_WORKS, MS_MALLOC_WORKS },
	{ 0, MS_MALLOC_WORKS, MS_MALLOC_WORKS },
	{ 0, MS_MALLOC_OUT, MS_MALLOC_OUT },
};

static struct ms_region modules[] = {
	{ { FIRST, FIRST + BYTES }, 0, 77, MS_REGION_GLOBALS },
	{ { FIRST + BYTES, FIRST + 2 * BYTES }, 0, 78, MS_REGION_GLOBALS },
	{ { SECOND, SECOND + BYTES }, 0, 77, MS_REGION_MEMORY },
};
static uint32_t own[] = { 77, 78 };

static enum ms_in_malloc ask(size_t n_own, struct ms_thread thread, const struct ms_range *code,
                             size_t n_code)
{
	struct ms_source src = { .malloc_code = code, .n_malloc_code = n_code };
	struct ms_regions all = { .at = modules, .n = 3 };
	struct ms_decoding d = { .src = &src, .regions = &all };
	struct ms_claim c = { .modules = { .at = own, .n = n_own } };

	return ms_claim_in_malloc(&d, &c, &thread);
}

Test(decode, a_thread_is_in_the_allocator_whose_code_it_is_at)
{
	static const struct ms_thread elsewhere = { .in_malloc = MS_MALLOC_WORKS,
		                                    .malloc_at = FIRST + BYTES };

	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		struct ms_thread t = { .in_malloc = (uint8_t)threads[i].in_malloc,
			               .malloc_at = threads[i].at };

		cr_expect_eq(ask(1, t, NULL, 0), threads[i].want, "%zu", i);
	}
	/* One that cannot say where it is may be there. */
	cr_expect_eq(ask(0, elsewhere, NULL, 0), MS_MALLOC_WORKS);
	cr_expect_eq(ask(2, elsewhere, NULL, 0), MS_MALLOC_WORKS);
}

Test(decode, whoever_runs_may_be_in_an_allocator_whose_code_is_not_known)
{
	static const struct ms_range first = { FIRST + 16, FIRST + 32 };
	static const struct ms_range second = { FIRST + BYTES, FIRST + BYTES + 32 };
	static const struct ms_range memory = { SECOND, SECOND + 32 };
	static const struct ms_range both[] = { { FIRST, FIRST + 1 },
		                                { FIRST + BYTES, FIRST + BYTES + 1 } };
	static const struct ms_thread runs = { .runs = true };
	static const struct ms_thread waits = { .may_wait = true };
	static const struct ms_thread sleeps = { .runs = false };

	cr_expect_eq(ask(1, runs, &first, 1), MS_MALLOC_OUT);
	cr_expect_eq(ask(1, runs, NULL, 0), MS_MALLOC_OUT, "nobody looked");
	cr_expect_eq(ask(1, runs, &second, 1), MS_MALLOC_WORKS, "another's is known");
	cr_expect_eq(ask(1, waits, &first, 1), MS_MALLOC_OUT);
	cr_expect_eq(ask(1, waits, &second, 1), MS_MALLOC_WAITS);
	cr_expect_eq(ask(1, sleeps, &second, 1), MS_MALLOC_OUT);
	cr_expect_eq(ask(1, runs, &memory, 1), MS_MALLOC_WORKS, "that is no module's");
	cr_expect_eq(ask(2, runs, &first, 1), MS_MALLOC_WORKS, "one copy of two");
	cr_expect_eq(ask(2, runs, both, 2), MS_MALLOC_OUT);
}

/* An allocator that is linked in: found by state that its decoder finds as well. */
static enum ms_in_malloc ask_linked(size_t n_linked, struct ms_range known, struct ms_range code)
{
	struct ms_mapping maps[] = { { .range = { FIRST, FIRST + BYTES } } };
	struct ms_source src = { .mappings = { .at = maps, .n = 1 },
		                 .malloc_code = &code,
		                 .n_malloc_code = 1,
		                 .n_linked_code = n_linked,
		                 .anchors = { 1, { known } } };
	struct ms_regions all = { .at = modules, .n = 3 };
	struct ms_decoding d = { .src = &src, .regions = &all };
	struct ms_claim c = { .modules = { .at = own, .n = 1 },
		              .anchors = { 1, { { FIRST + 64, FIRST + 72 } } } };
	static const struct ms_thread runs = { .runs = true };

	return ms_claim_in_malloc(&d, &c, &runs);
}

Test(decode, the_code_of_an_allocator_that_is_linked_in_is_known_by_its_own_state)
{
	static const struct ms_range mine = { FIRST + 64, FIRST + 72 };
	static const struct ms_range another = { FIRST + 64, FIRST + 80 };
	static const struct ms_range part = { FIRST + 16, FIRST + 32 };
	static const struct ms_range all = { FIRST, FIRST + BYTES };
	static const struct ms_thread runs = { .runs = true };
	struct ms_source src = { .malloc_code = &part, .n_malloc_code = 1, .n_linked_code = 1 };
	struct ms_regions three = { .at = modules, .n = 3 };
	struct ms_decoding d = { .src = &src, .regions = &three };
	struct ms_claim c = { .modules = { .at = own, .n = 1 } };

	cr_expect_eq(ask_linked(1, mine, part), MS_MALLOC_OUT);
	cr_expect_eq(ask_linked(1, another, part), MS_MALLOC_WORKS, "another state's");
	cr_expect_eq(ask_linked(0, another, part), MS_MALLOC_WORKS, "the C library's, beside it");
	cr_expect_eq(ask_linked(0, another, all), MS_MALLOC_OUT, "it is all that the module has");
	cr_expect_eq(ms_claim_in_malloc(&d, &c, &runs), MS_MALLOC_WORKS, "not the C library's");
}

Test(decode, where_nothing_is_claimed_all_that_is_read_is_listed)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(false, false), MS_E_UNSUPPORTED);
	cr_expect_str_eq(calls, "claim-a claim-b ");
	cr_expect_str_eq(err.text, "no allocator that memscan reads was found in the process");
	cr_expect_str_eq(
		err.advice,
		"memscan reads the heap of a's malloc, b's in the versions that README lists; "
		"for another one use its own profiler");
	(void)ms_fake_map(&fake, 0x300000, BYTES, RW, "[anon:scudo:primary]");
	cr_assert_eq(decode(false, false), MS_E_UNSUPPORTED);
	cr_expect_str_eq(err.text, "no allocator that memscan reads was found in the process; it "
	                           "has scudo");
	ms_fake_deinit(&fake);
}

Test(decode, a_process_that_loads_its_program_is_asked_again)
{
	static const char *const without[] = { "/lib64/ld-linux-x86-64.so.2", "/lib/ld-2.31.so" };
	static const char *const with[] = { "/lib/libc.so.6", "/lib/libc-2.31.so",
		                            "/lib/ld-musl-x86_64.so.1" };

	for (size_t i = 0; i < 2; i++) {
		ms_fake_init(&fake);
		(void)ms_fake_map(&fake, 0x300000, BYTES, MS_PROT_READ, without[i]);
		cr_expect_eq(decode(false, false), MS_E_BUSY, "%s", without[i]);
		cr_expect_str_eq(err.text,
		                 "the process loads its program: it has no C library yet");
		ms_fake_deinit(&fake);
	}
	for (size_t i = 0; i < 3; i++) {
		ms_fake_init(&fake);
		(void)ms_fake_map(&fake, 0x300000, BYTES, MS_PROT_READ, without[0]);
		(void)ms_fake_map(&fake, 0x400000, BYTES, MS_PROT_READ, with[i]);
		cr_expect_eq(decode(false, false), MS_E_UNSUPPORTED, "%s", with[i]);
		ms_fake_deinit(&fake);
	}
}

Test(decode, an_allocator_that_no_decoder_claims_is_named)
{
	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, 0x300000, BYTES, MS_PROT_READ, "/usr/lib/libhoard.so");
	for (int used = 0; used < 2; used++) {
		cr_assert_eq(decode(used, !used), MS_OK);
		cr_expect_eq(decoding.unused, !used);
		cr_expect_str_eq(decoding.rival.name, "libhoard.so");
		cr_expect_not(decoding.rival.serves);
	}
	ms_fake_deinit(&fake);
}
