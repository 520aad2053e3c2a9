/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target/inject/gap.h"
#include "target/inject/reserve.h"
#include "target/proc.h"

static struct ms_reserve wanted;
static struct ms_error err;

static void setup(void)
{
	wanted = (struct ms_reserve){ getpid(), 100, ms_gap_bytes(), 512 << 10 };
	err = (struct ms_error){ 0 };
}

TestSuite(reserve, .init = setup);

static uint64_t used(const char *key)
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(getpid(), "status", status, sizeof(status));
	return ms_proc_field(status, key, 10) << 10;
}

static void allow(enum __rlimit_resource resource, uint64_t bytes)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(resource, &limit), 0);
	limit.rlim_cur = bytes;
	cr_assert_eq(setrlimit(resource, &limit), 0);
}

Test(reserve, is_there_without_a_limit)
{
	cr_expect_eq(ms_reserve_check(&wanted, &err), MS_OK, "%s", err.text);
}

Test(reserve, is_at_most_a_quarter_of_what_is_left)
{
	static const struct {
		uint64_t limit, use, bytes;
		bool fits;
	} cases[] = {
		{ UINT64_MAX, 0, 1 << 20, true }, { 400, 0, 100, true },
		{ 399, 0, 100, false },           { 1400, 1000, 100, true },
		{ 1399, 1000, 100, false },       { 1000, 1000, 1, false },
		{ 1000, 2000, 1, false },         { 0, 0, 1, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(ms_reserve_fits(cases[i].limit, cases[i].use, cases[i].bytes),
		             cases[i].fits, "%zu", i);
}

/* With room for the agent twice, and for five times as much. */
static void check_limit(enum __rlimit_resource resource, const char *key, const char *name)
{
	allow(resource, used(key) + 2 * wanted.bytes);
	cr_expect_eq(ms_reserve_check(&wanted, &err), MS_E_DENIED);
	cr_expect(strstr(err.text, name) && strstr(err.advice, "prlimit"), "%s: %s", err.text,
	          err.advice);
	allow(resource, used(key) + 5 * wanted.bytes);
	cr_expect_eq(ms_reserve_check(&wanted, &err), MS_OK, "%s", err.text);
}

Test(reserve, of_addresses_is_left)
{
	check_limit(RLIMIT_AS, "VmSize", "RLIMIT_AS");
}

Test(reserve, of_data_is_left)
{
	check_limit(RLIMIT_DATA, "VmData", "RLIMIT_DATA");
}

Test(reserve, of_mappings_is_left)
{
	char text[32] = "";

	(void)ms_proc_read_path("/proc/sys/vm/max_map_count", text, sizeof(text));
	cr_assert_eq(sscanf(text, "%zu", &wanted.n_maps), 1);
	wanted.n_maps -= 7;
	cr_expect_eq(ms_reserve_check(&wanted, &err), MS_E_DENIED);
	cr_expect(strstr(err.advice, "vm.max_map_count"), "%s", err.advice);
	wanted.n_maps -= 1;
	cr_expect_eq(ms_reserve_check(&wanted, &err), MS_OK, "%s", err.text);
}
