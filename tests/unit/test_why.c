/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/holding/ways.h"
#include "golden/answer.h"
#include "random_heap.h"
#include "report/wire.h"

/* ---- what is written ---- */

static struct ms_arena arena;
static struct ms_report report;
static struct keeper keeper;

static void setup(void)
{
	ms_arena_init(&arena);
	sample_report(&arena, &report);
	sample_answer(&arena, &report);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(why, .init = setup, .fini = teardown);

static void write_as(const char *format, const struct ms_report *what)
{
	keeper_init(&keeper);
	cr_assert(ms_answer_writer_find(format)->write(what, &keeper.base));
}

Test(why, text_is_the_golden_one)
{
	write_as("text", &report);
	assert_golden(&keeper, "tests/golden/why.txt");
}

Test(why, json_is_the_golden_one)
{
	write_as("json", &report);
	assert_golden(&keeper, "tests/golden/why.json");
}

Test(why, there_is_no_other_format)
{
	cr_assert_null(ms_answer_writer_find("html"));
}

/* One block, and one way to it. */
Test(why, the_only_way_is_said_to_be_it)
{
	report.answer.subjects.n = 1;
	report.answer.subjects.at[0].n_chains = 1;
	report.answer.subjects.at[0].roots = 0;
	report.answer.subjects.at[0].more = 0;
	write_as("text", &report);
	cr_assert(strstr(keeper.bytes, "\n  this is the only way\n"), "%s", keeper.bytes);
	report.answer.subjects.at[0].more = 1;
	write_as("text", &report);
	cr_assert(strstr(keeper.bytes, "\n  there are other ways (--all)\n"), "%s", keeper.bytes);
}

/* There is no command line to ask more by. */
Test(why, from_inside_no_option_is_named)
{
	report.answer.subjects.n = 1;
	report.answer.subjects.at[0].n_chains = 1;
	report.answer.subjects.at[0].roots = 0;
	snprintf(report.scan.source, sizeof(report.scan.source), "self");
	write_as("text", &report);
	cr_assert(strstr(keeper.bytes, "\n  there are other ways\n"), "%s", keeper.bytes);
}

Test(why, what_only_the_asker_holds_is_said_with_what_else_points_to_it)
{
	struct ms_subject *subject = &report.answer.subjects.at[0];

	report.answer.subjects.n = 1;
	subject->n_chains = 1;
	subject->roots = 0;
	subject->by_asker = 1;
	write_as("text", &report);
	cr_assert(strstr(keeper.bytes, " steps from a root, only from the thread that asks\n"),
	          "%s", keeper.bytes);
	cr_assert(strstr(keeper.bytes, "\n  which may be no more than the address that was asked "
	                               "with\n"),
	          "%s", keeper.bytes);
	cr_assert(!strstr(keeper.bytes, " to it:\n"), "%s", keeper.bytes);
	subject->first_holder = 2;
	subject->n_holders = 1;
	subject->holders = 1;
	write_as("text", &report);
	cr_assert(strstr(keeper.bytes, "\n  1 unreachable block points to it:\n  <- 0x"), "%s",
	          keeper.bytes);
}

/* ---- on the wire ---- */

enum { WIRE_BYTES = 2 * 1024 * 1024 };

static struct wire {
	size_t len;
	size_t at;
	unsigned char bytes[WIRE_BYTES];
} wire;

static struct ms_report got;
static struct ms_error err;

static bool wire_put(void *ctx, const void *bytes, size_t len)
{
	(void)ctx;
	cr_assert_leq(len, sizeof(wire.bytes) - wire.len);
	memcpy(wire.bytes + wire.len, bytes, len);
	wire.len += len;
	return true;
}

static bool wire_get(void *ctx, void *bytes, size_t len)
{
	(void)ctx;
	if (len > wire.len - wire.at)
		return false;
	memcpy(bytes, wire.bytes + wire.at, len);
	wire.at += len;
	return true;
}

static void send(void)
{
	wire.len = 0;
	report.answer.subjects.n = MS_ANSWER_SUBJECTS;
	cr_assert(ms_wire_send(wire_put, NULL, &(struct ms_error){ .status = MS_OK }, &report));
}

static enum ms_status receive(void)
{
	wire.at = 0;
	return ms_wire_receive(wire_get, NULL, &arena, &got, &err);
}

#define assert_vector(name)                                                              \
	do {                                                                             \
		cr_assert_eq(got.answer.name.n, report.answer.name.n);                   \
		cr_assert_arr_eq(got.answer.name.at, report.answer.name.at,              \
		                 report.answer.name.n * sizeof(*report.answer.name.at)); \
	} while (0)

Test(why, an_answer_arrives)
{
	send();
	cr_assert_eq(receive(), MS_OK, "%s", err.text);
	assert_vector(subjects);
	assert_vector(chains);
	assert_vector(steps);
	cr_assert_eq(got.answer.facts.of_type, 12);
	cr_assert_eq(got.answer.facts.of_type_held, 7);
}

Test(why, more_subjects_than_are_looked_at_are_refused)
{
	send();
	wire.len = 0;
	report.answer.subjects.n = MS_ANSWER_SUBJECTS + 1;
	cr_assert(ms_wire_send(wire_put, NULL, &(struct ms_error){ .status = MS_OK }, &report));
	cr_assert_eq(receive(), MS_E_CORRUPT);
}

/* Refused, or taken and then fit for every writer. */
Test(why, any_one_wrong_byte_harms_nothing)
{
	size_t begin;

	send();
	/* From the subjects on: what is before them is tried in test_wire.c. */
	begin = (size_t)((unsigned char *)memmem(wire.bytes, wire.len, report.answer.subjects.at,
	                                         sizeof(struct ms_subject)) -
	                 wire.bytes);
	for (size_t i = begin; i < wire.len; i++) {
		unsigned char good = wire.bytes[i];

		wire.bytes[i] = 0xff;
		if (receive() == MS_OK) {
			write_as("text", &got);
			write_as("json", &got);
		}
		wire.bytes[i] = good;
		ms_arena_deinit(&arena);
		i += i % 7;
	}
}

static void assert_refused(void *field, size_t len)
{
	unsigned char good[16];

	memcpy(good, field, len);
	memset(field, 0xfe, len);
	send();
	cr_assert_eq(receive(), MS_E_CORRUPT);
	memcpy(field, good, len);
	send();
	cr_assert_eq(receive(), MS_OK);
}

#define assert_refuses(field) assert_refused(&(field), sizeof(field))

Test(why, what_is_out_of_range_is_refused)
{
	struct ms_subject *subject = report.answer.subjects.at;
	struct ms_answer_chain *chain = report.answer.chains.at;

	assert_refuses(subject->standing);
	assert_refuses(subject->reason);
	assert_refuses(subject->first_chain);
	assert_refuses(subject->n_chains);
	assert_refuses(subject->first_holder);
	assert_refuses(subject->n_holders);
	assert_refuses(subject->self.type);
	assert_refuses(subject->spot.kind);
	assert_refuses(subject->spot.pc);
	assert_refuses(chain->first);
	assert_refuses(chain->n);
	assert_refuses(chain->root.kind);
	assert_refuses(chain->root.pc);
	assert_refuses(report.answer.steps.at->type);
	assert_refuses(report.answer.steps.at->callback);
}

/* ---- every root that leads somewhere, in random heaps ---- */

static const struct ms_range root = { RH_ROOT, RH_ROOT + RH_ROOT_BYTES };

struct drawn {
	struct random_heap heap;
	struct ms_roots roots;
	struct ms_rows rows;
	struct ms_chains chains;
};

static void draw(struct drawn *d, uint64_t seed)
{
	static const struct ms_regions none;
	struct ms_walk_options like = { 0 };
	struct random_heap *h = &d->heap;

	random_heap_draw(h, seed, seed & 1);
	d->roots = (struct ms_roots){ .regions = &none, .src = &h->fake.base };
	cr_assert(ms_ranges_add(&h->fake.arena, &d->roots.ranges, root.begin, root.end));
	/* Not named: these roots have no mappings. */
	d->roots.unproved0 = 1;
	cr_assert(!ms_rows_gather(&h->blocks, &like, &h->fake.arena, &d->rows, &h->err));
	cr_assert(!ms_chains_walk(&d->rows, &d->roots, &h->fake.arena, &d->chains, &h->err));
}

/* How far each block is from @target, found by going over all rows until nothing changes. */
static void measure(const struct ms_rows *rows, uint32_t target, uint32_t *distance)
{
	bool changed = true;
	size_t n;

	memset(distance, 0xff, rows->n * sizeof(*distance));
	distance[target] = 0;
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < rows->n; i++)
			for (const uint32_t *row = ms_rows_of(rows, i, &n); n; row++, n--) {
				uint32_t to = distance[*row];

				if (to == UINT32_MAX || distance[i] <= to + 1)
					continue;
				distance[i] = to + 1;
				changed = true;
			}
	}
}

struct near {
	ms_addr at;
	uint32_t distance;
};

static int compare_near(const void *a, const void *b)
{
	const struct near *x = a;
	const struct near *y = b;

	return x->distance != y->distance
	               ? (x->distance > y->distance) - (x->distance < y->distance)
	               : (x->at > y->at) - (x->at < y->at);
}

/* The words of the root that lead there, the nearest first. */
static size_t list_roots(struct drawn *d, const uint32_t *distance, struct near *ret)
{
	size_t n = 0;
	uint64_t word;

	for (ms_addr at = root.begin; at < root.end; at += 8) {
		struct ms_numbered found;

		cr_assert(ms_source_word(&d->heap.fake.base, at, &word));
		word = ms_abi_address(&d->heap.fake.base.abi, word);
		if (ms_blocks_at(&d->heap.blocks, word, &found) &&
		    distance[found.number] != UINT32_MAX)
			ret[n++] = (struct near){ at, distance[found.number] };
	}
	qsort(ret, n, sizeof(*ret), compare_near);
	return n;
}

/* Each word of the chain points into the block of the next one. */
static void check_chain(struct drawn *d, const struct ms_chain *chain, ms_addr at)
{
	const struct ms_blocks *blocks = &d->heap.blocks;
	const struct ms_chain_step *step;

	ms_vec_for_each (step, &chain->steps) {
		struct ms_numbered found;
		uint64_t word;

		cr_assert(ms_source_word(&d->heap.fake.base, at, &word));
		word = ms_abi_address(&d->heap.fake.base.abi, word);
		cr_assert(ms_blocks_at(blocks, word, &found));
		cr_assert_eq(found.number, ms_block_number(blocks, step->block));
		at = found.begin + step->offset;
	}
}

static size_t compare_with_plain_search(struct drawn *d, uint32_t target)
{
	enum { MOST = 20 };
	uint32_t *distance = malloc(d->rows.n * sizeof(*distance));
	struct near *nearest = malloc(RH_ROOT_BYTES / 8 * sizeof(*nearest));
	struct ms_ways ways;
	size_t n;

	measure(&d->rows, target, distance);
	n = list_roots(d, distance, nearest);
	cr_assert(!ms_ways_find(&d->chains, ms_block_numbered(&d->heap.blocks, target), MOST, &ways,
	                        &d->heap.err));
	cr_assert_eq(ways.roots, n);
	cr_assert_eq(ways.nearest.n, n < MOST ? n : MOST);
	for (size_t i = 0; i < ways.nearest.n; i++) {
		cr_assert_eq(ways.nearest.at[i].root.at, nearest[i].at);
		cr_assert_eq(ways.nearest.at[i].steps.n, nearest[i].distance + 1);
		check_chain(d, &ways.nearest.at[i], nearest[i].at);
	}
	free(distance);
	free(nearest);
	return n;
}

TestSuite(ways);

Test(ways, are_those_of_a_plain_search, .timeout = 300)
{
	size_t led = 0;

	for (uint64_t seed = 21; seed < 25; seed++) {
		static struct drawn d;

		draw(&d, seed);
		for (uint32_t i = 0; i < 12; i++)
			led += compare_with_plain_search(&d, d.rows.n / 12 * i) > 1;
		ms_fake_deinit(&d.heap.fake);
	}
	cr_expect_gt(led, 4);
}
