/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "golden/retained.h"
#include "report/wire.h"

/* What holds memory, written and on the wire. */

static struct ms_arena arena;
static struct ms_report report;
static struct keeper keeper;

static void setup(void)
{
	ms_arena_init(&arena);
	sample_report(&arena, &report);
	sample_retained(&arena, &report);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(retained_report, .init = setup, .fini = teardown);

static void write_as(const char *format, const struct ms_report *what)
{
	keeper_init(&keeper);
	cr_assert(ms_retained_writer_find(format)->write(what, &keeper.base));
}

Test(retained_report, text_is_the_golden_one)
{
	write_as("text", &report);
	assert_golden(&keeper, "tests/golden/retained.txt");
}

Test(retained_report, json_is_the_golden_one)
{
	write_as("json", &report);
	assert_golden(&keeper, "tests/golden/retained.json");
}

Test(retained_report, there_is_no_other_format)
{
	cr_assert_null(ms_retained_writer_find("html"));
}

Test(retained_report, of_nothing_is_written)
{
	report.retained = (struct ms_retained){ 0 };
	write_as("text", &report);
	cr_assert(strstr(keeper.bytes, "0 bytes in 0 blocks are reachable"), "%s", keeper.bytes);
	write_as("json", &report);
	cr_assert(strstr(keeper.bytes, "\"by_root\":[]"), "%s", keeper.bytes);
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
	cr_assert(ms_wire_send(wire_put, NULL, &(struct ms_error){ .status = MS_OK }, &report));
}

static enum ms_status receive(void)
{
	wire.at = 0;
	return ms_wire_receive(wire_get, NULL, &arena, &got, &err);
}

#define assert_vector(name)                                                                  \
	do {                                                                                 \
		cr_assert_eq(got.retained.name.n, report.retained.name.n);                   \
		cr_assert_arr_eq(got.retained.name.at, report.retained.name.at,              \
		                 report.retained.name.n * sizeof(*report.retained.name.at)); \
	} while (0)

Test(retained_report, arrives)
{
	send();
	cr_assert_eq(receive(), MS_OK, "%s", err.text);
	assert_vector(roots);
	assert_vector(shared);
	assert_vector(types);
	assert_vector(blocks);
	assert_vector(steps);
	cr_assert_eq(got.retained.facts.by_root.bytes, 80000);
	cr_assert_eq(got.retained.facts.n_types, 5);
}

/* Refused, or taken and then fit for every writer. */
Test(retained_report, any_one_wrong_byte_harms_nothing)
{
	size_t begin;

	send();
	begin = (size_t)((unsigned char *)memmem(wire.bytes, wire.len, report.retained.roots.at,
	                                         sizeof(struct ms_retained_root)) -
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

Test(retained_report, what_is_out_of_range_is_refused)
{
	struct ms_retained *retained = &report.retained;

	assert_refuses(retained->roots.at->spot.kind);
	assert_refuses(retained->roots.at->spot.pc);
	assert_refuses(retained->roots.at->below.first);
	assert_refuses(retained->roots.at->below.n);
	assert_refuses(retained->shared.at->chain.first);
	assert_refuses(retained->shared.at->chain.n);
	assert_refuses(retained->blocks.at->chain.first);
	assert_refuses(retained->blocks.at->chain.n);
	assert_refuses(retained->types.at->type);
	assert_refuses(retained->steps.at->block.type);
	retained->blocks.at->chain.n = 0;
	send();
	cr_assert_eq(receive(), MS_E_CORRUPT, "a block without itself");
}

Test(retained_report, more_entries_than_a_list_has_are_refused)
{
	cr_assert(ms_vec_reserve(&arena, &report.retained.types, MS_RETAINED_ENTRIES + 1));
	report.retained.types.n = MS_RETAINED_ENTRIES + 1;
	send();
	cr_assert_eq(receive(), MS_E_CORRUPT);
}
