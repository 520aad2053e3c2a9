/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "shim/options/options.h"

static struct ms_opts parsed(const char *text)
{
	char error[MS_OPT_ERROR] = "";
	struct ms_opts options;

	ms_opt_init(&options);
	cr_assert(ms_opt_parse(&options, text, error), "%s: %s", text, error);
	return options;
}

Test(shim_options, starts_with_nothing_on)
{
	struct ms_opts options = parsed(" \t\n ");

	cr_expect_eq(options.on, 0);
	cr_expect_eq(options.min_size, 0);
	cr_expect_eq(options.max_size, SIZE_MAX);
	cr_expect_str_eq(options.dump_prefix, "/tmp/backtrace_heap");
	cr_expect_str_eq(options.record_file, "/tmp/record_allocs.txt");
}

enum {
	HEADER = MS_OPT_FRONT_GUARD | MS_OPT_REAR_GUARD,
	BACKTRACE = MS_OPT_BACKTRACE | MS_OPT_TRACK,
	FILL = MS_OPT_FILL_ON_ALLOC | MS_OPT_FILL_ON_FREE,
	FREE_TRACK = MS_OPT_FREE_TRACK | MS_OPT_FILL_ON_FREE | MS_OPT_TRACK,
};

Test(shim_options, know_what_each_implies)
{
	static const struct {
		const char *text;
		uint32_t on;
	} rows[] = {
		{ "guard", HEADER | MS_OPT_TRACK },
		{ "front_guard", MS_OPT_FRONT_GUARD | MS_OPT_TRACK },
		{ "rear_guard", MS_OPT_REAR_GUARD | MS_OPT_TRACK },
		{ "backtrace", BACKTRACE | MS_OPT_CAPTURE },
		{ "bt", BACKTRACE | MS_OPT_CAPTURE },
		{ "backtrace_enable_on_signal", BACKTRACE | MS_OPT_BACKTRACE_ON_SIGNAL },
		{ "bt_en_on_sig", BACKTRACE | MS_OPT_BACKTRACE_ON_SIGNAL },
		{ "bt_en_on_sig bt", BACKTRACE | MS_OPT_BACKTRACE_ON_SIGNAL | MS_OPT_CAPTURE },
		{ "backtrace_dump_on_exit", MS_OPT_DUMP_ON_EXIT },
		{ "bt_dmp_on_ex", MS_OPT_DUMP_ON_EXIT },
		{ "backtrace_dump_prefix=/x", 0 },
		{ "backtrace_size=1", 0 },
		{ "backtrace_full", MS_OPT_BACKTRACE_FULL },
		{ "bt_full", MS_OPT_BACKTRACE_FULL },
		{ "backtrace_sample", MS_OPT_BACKTRACE | MS_OPT_CAPTURE },
		{ "fill", FILL },
		{ "fill_on_alloc", MS_OPT_FILL_ON_ALLOC },
		{ "fill_on_free", MS_OPT_FILL_ON_FREE },
		{ "expand_alloc", MS_OPT_EXPAND },
		{ "free_track", FREE_TRACK },
		{ "free_track_backtrace_num_frames", 0 },
		{ "leak_track", MS_OPT_LEAK_TRACK | MS_OPT_TRACK },
		{ "record_allocs", MS_OPT_RECORD },
		{ "record_allocs_file=/x", 0 },
		{ "record_allocs_on_exit", MS_OPT_RECORD_ON_EXIT },
		{ "verify_pointers", MS_OPT_TRACK },
		{ "abort_on_error", MS_OPT_ABORT_ON_ERROR },
		{ "verbose", MS_OPT_VERBOSE },
		{ "check_unreachable_on_signal", MS_OPT_UNREACHABLE_ON_SIGNAL },
		{ "log_allocator_stats_on_signal", MS_OPT_STATS_ON_SIGNAL },
		{ "log_allocator_stats_on_exit", MS_OPT_STATS_ON_EXIT },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		cr_expect_eq(parsed(rows[i].text).on, rows[i].on, "%s", rows[i].text);
}

Test(shim_options, have_values)
{
	static const struct {
		const char *text;
		size_t at;
		size_t value;
	} rows[] = {
#define FIELD(name) offsetof(struct ms_opts, name)
		{ "guard", FIELD(front_guard), 32 },
		{ "guard", FIELD(rear_guard), 32 },
		{ "guard=33", FIELD(front_guard), 48 },
		{ "guard=33", FIELD(rear_guard), 33 },
		{ "guard=", FIELD(rear_guard), 32 },
		{ "front_guard=1", FIELD(front_guard), 16 },
		{ "rear_guard = 16384", FIELD(rear_guard), 16384 },
		{ "rear_guard =\t7\tverbose", FIELD(rear_guard), 7 },
		{ "rear_guard\n=\v7\f\rverbose", FIELD(rear_guard), 7 },
		{ "rear_guard=+7", FIELD(rear_guard), 7 },
		{ "rear_guard=7 guard=9", FIELD(rear_guard), 9 },
		{ "backtrace", FIELD(frames), 16 },
		{ "bt=256", FIELD(frames), 256 },
		{ "backtrace=5 bt_en_on_sig", FIELD(frames), 16 },
		{ "backtrace_sample", FIELD(frames), 16 },
		{ "bt=7 backtrace_sample=9", FIELD(frames), 7 },
		{ "backtrace_sample", FIELD(sample), 524288 },
		{ "backtrace_sample=9", FIELD(sample), 9 },
		{ "backtrace_size=9", FIELD(min_size), 9 },
		{ "bt_sz=9", FIELD(max_size), 9 },
		{ "backtrace_min_size=9", FIELD(min_size), 9 },
		{ "bt_min_sz=9", FIELD(max_size), SIZE_MAX },
		{ "backtrace_max_size=9", FIELD(max_size), 9 },
		{ "bt_max_sz=9", FIELD(min_size), 0 },
		{ "fill", FIELD(fill_on_alloc), SIZE_MAX },
		{ "fill=8", FIELD(fill_on_free), 8 },
		{ "fill_on_alloc=8", FIELD(fill_on_free), 0 },
		{ "fill_on_free=8", FIELD(fill_on_free), 8 },
		{ "expand_alloc", FIELD(expand), 16 },
		{ "expand_alloc=16384", FIELD(expand), 16384 },
		{ "free_track", FIELD(free_track), 100 },
		{ "free_track", FIELD(fill_on_free), SIZE_MAX },
		{ "fill_on_free=4 free_track=9", FIELD(fill_on_free), 4 },
		{ "free_track", FIELD(free_frames), 16 },
		{ "free_track free_track_backtrace_num_frames=0", FIELD(free_frames), 0 },
		/* Android takes the first 0 for unset, and makes it 16. */
		{ "free_track_backtrace_num_frames=0 free_track", FIELD(free_frames), 0 },
		{ "free_track_backtrace_num_frames", FIELD(free_frames), 16 },
		{ "record_allocs", FIELD(records), 8000000 },
		{ "record_allocs=50000000", FIELD(records), 50000000 },
#undef FIELD
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ms_opts options = parsed(rows[i].text);
		size_t value;

		memcpy(&value, (const char *)&options + rows[i].at, sizeof(value));
		cr_expect_eq(value, rows[i].value, "%s: %zu", rows[i].text, value);
	}
}

/* The names that take a number; 0 is no limit. */
static const struct number {
	const char *name;
	size_t min;
	size_t max;
} NUMBERS[] = {
	{ "guard", 1, 16384 },
	{ "front_guard", 1, 16384 },
	{ "rear_guard", 1, 16384 },
	{ "backtrace", 1, 256 },
	{ "bt", 1, 256 },
	{ "backtrace_enable_on_signal", 1, 256 },
	{ "bt_en_on_sig", 1, 256 },
	{ "backtrace_size", 1, LONG_MAX },
	{ "bt_sz", 1, LONG_MAX },
	{ "backtrace_min_size", 1, LONG_MAX },
	{ "bt_min_sz", 1, LONG_MAX },
	{ "backtrace_max_size", 1, LONG_MAX },
	{ "bt_max_sz", 1, LONG_MAX },
	{ "backtrace_sample", 1, LONG_MAX },
	{ "fill", 1, LONG_MAX },
	{ "fill_on_alloc", 1, LONG_MAX },
	{ "fill_on_free", 1, LONG_MAX },
	{ "expand_alloc", 1, 16384 },
	{ "free_track", 1, 16384 },
	{ "free_track_backtrace_num_frames", 0, 256 },
	{ "record_allocs", 1, 50000000 },
};

static void expect_refused(const char *text, const char *error)
{
	char found[MS_OPT_ERROR] = "";
	struct ms_opts options;

	ms_opt_init(&options);
	cr_expect_not(ms_opt_parse(&options, text, found), "%s", text);
	cr_expect_str_eq(found, error, "%s: %s", text, found);
}

Test(shim_options, have_limits)
{
	char text[MS_OPT_ERROR];
	char error[MS_OPT_ERROR];

	for (size_t i = 0; i < sizeof(NUMBERS) / sizeof(*NUMBERS); i++) {
		const struct number *row = &NUMBERS[i];

		(void)snprintf(text, sizeof(text), "%s=%zu %s=%zu", row->name, row->min, row->name,
		               row->max);
		(void)parsed(text);
		(void)snprintf(text, sizeof(text), "%s=%zd", row->name, (ssize_t)row->min - 1);
		(void)snprintf(error, sizeof(error),
		               row->min ? "bad value for option '%s', value must be >= %zu: 0"
		                        : "bad value for option '%s', value cannot be negative: -1",
		               row->name, row->min);
		expect_refused(text, error);
		(void)snprintf(text, sizeof(text), "%s=%zu", row->name, row->max + 1);
		(void)snprintf(error, sizeof(error),
		               row->max < LONG_MAX
		                       ? "bad value for option '%s', value must be <= %zu: %zu"
		                       : "bad value for option '%s': Numerical result out of range",
		               row->name, row->max, row->max + 1);
		expect_refused(text, error);
	}
}

Test(shim_options, take_no_value_where_there_is_none)
{
	static const char *const names[] = {
		"backtrace_dump_on_exit",
		"bt_dmp_on_ex",
		"backtrace_full",
		"bt_full",
		"leak_track",
		"record_allocs_on_exit",
		"verify_pointers",
		"abort_on_error",
		"verbose",
		"check_unreachable_on_signal",
		"log_allocator_stats_on_signal",
		"log_allocator_stats_on_exit",
	};
	char text[MS_OPT_ERROR];
	char error[MS_OPT_ERROR];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(text, sizeof(text), "%s= %s", names[i], names[i]);
		(void)snprintf(error, sizeof(error),
		               "value set for option '%s' which does not take a value", names[i]);
		expect_refused(text, error); /* the second is the first one's value */
		(void)snprintf(text, sizeof(text), "%s %s=", names[i], names[i]);
		(void)parsed(text);
	}
}

/* No others have an alias. */
Test(shim_options, have_no_more_names)
{
	static const char *const names[] = { "Guard",       "bt_sample", "bt_sz_",  "fg",
		                             "leak_track_", "ft",        "abort",   "backtrac",
		                             "backtraces",  "--guard",   "guard,2", "bt_signal" };
	char error[MS_OPT_ERROR];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(error, sizeof(error), "unknown option %s", names[i]);
		expect_refused(names[i], error);
	}
}

Test(shim_options, have_paths_with_equals_signs)
{
	struct ms_opts options = parsed("bt_dmp_pre = /a=b record_allocs_file=/c");

	cr_expect_str_eq(options.dump_prefix, "/a=b");
	cr_expect_str_eq(options.record_file, "/c");
	options = parsed("backtrace_dump_prefix=/a backtrace_dump_prefix");
	cr_expect_str_eq(options.dump_prefix, "/tmp/backtrace_heap");
}

Test(shim_options, say_what_is_wrong)
{
	static const struct {
		const char *text;
		const char *error;
	} rows[] = {
		{ "nothing", "unknown option nothing" },
		{ "=5", "unknown option " },
		{ "verbose guard=x unknown", "bad value for option 'guard'" },
		{ "backtrace_size", "bad value for option 'backtrace_size'" },
		{ "bt_sz=", "bad value for option 'bt_sz'" },
		{ "bt=99999999999999999999",
		  "bad value for option 'bt': Numerical result out of range" },
		{ "guard=0x10", "bad value for option 'guard', non space found after option: x10" },
		{ "guard=1=2", "bad value for option 'guard', non space found after option: =2" },
		{ "guard=--1", "bad value for option 'guard'" },
		{ "guard = = 1", "bad value for option 'guard'" },
		{ "guard= verbose", "bad value for option 'guard'" },
		{ "= =", "unknown option " },
		{ "guard=5x7", "bad value for option 'guard', non space found after option: x7" },
		{ "guard=-1", "bad value for option 'guard', value cannot be negative: -1" },
		{ "guard=0", "bad value for option 'guard', value must be >= 1: 0" },
		{ "guard=16385", "bad value for option 'guard', value must be <= 16384: 16385" },
		{ "bt=257", "bad value for option 'bt', value must be <= 256: 257" },
		{ "backtrace_enable_on_signal=257",
		  "bad value for option 'backtrace_enable_on_signal', value must be <= 256: 257" },
		{ "expand_alloc=16385",
		  "bad value for option 'expand_alloc', value must be <= 16384: 16385" },
		{ "free_track=16385",
		  "bad value for option 'free_track', value must be <= 16384: 16385" },
		{ "free_track_backtrace_num_frames=257",
		  "bad value for option 'free_track_backtrace_num_frames', "
		  "value must be <= 256: 257" },
		{ "record_allocs=50000001",
		  "bad value for option 'record_allocs', value must be <= 50000000: 50000001" },
		{ "fill=0", "bad value for option 'fill', value must be >= 1: 0" },
		{ "verbose=1", "value set for option 'verbose' which does not take a value" },
		{ "bt_full = yes", "value set for option 'bt_full' which does not take a value" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char error[MS_OPT_ERROR] = "";
		struct ms_opts options;

		ms_opt_init(&options);
		cr_expect_not(ms_opt_parse(&options, rows[i].text, error), "%s", rows[i].text);
		cr_expect_str_eq(error, rows[i].error, "%s: %s", rows[i].text, error);
	}
}

Test(shim_options, cut_what_is_too_long)
{
	static char text[2 * MS_OPT_PATH];
	struct ms_opts options;

	memset(text, 'a', sizeof(text) - 1);
	memcpy(text, "bt_dmp_pre=", 11);
	options = parsed(text);
	cr_expect_eq(strlen(options.dump_prefix), MS_OPT_PATH - 1);
}

Test(shim_config, says_what_is_for_the_program)
{
	static const struct {
		const char *text;
		const char *options; /* NULL: nothing */
	} rows[] = {
		{ "libc.debug.malloc.options=guard fill\n", "guard fill" },
		{ "# libc.debug.malloc.options=a\n libc.debug.malloc.options = b \r\n", "b" },
		{ "libc.debug.malloc.options=a\nlibc.debug.malloc.options=b", "b" },
		{ "libc.debug.malloc.options=a=1 b=2\nlibc.debug.malloc.program=rog", "a=1 b=2" },
		{ "libc.debug.malloc.options=a\nlibc.debug.malloc.program=other\n", NULL },
		{ "libc.debug.malloc.options=\n", NULL },
		{ "libc.debug.malloc=1\n", "backtrace=32" },
		{ "libc.debug.malloc=5\n", "fill" },
		{ "libc.debug.malloc=10\n", "fill guard free_track leak_track backtrace" },
		{ "libc.debug.malloc=20\n", NULL },
		{ "libc.debug.malloc=1\nlibc.debug.malloc.options=guard\n", "guard" },
		{ "libc.debug.malloc.options=0123456789012345678901234567890123456789012345678"
		  "9012345678901234\n",
		  NULL },
		{ "no property\n=\n", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char options[64] = "";
		bool found = ms_config_options(rows[i].text, strlen(rows[i].text), "program",
		                               options, sizeof(options));

		cr_expect_eq(found, rows[i].options != NULL, "%s", rows[i].text);
		cr_expect_str_eq(options, rows[i].options ? rows[i].options : "", "%s",
		                 rows[i].text);
	}
}

Test(shim_config, enables_hooks_for_any_program)
{
	static const struct {
		const char *text;
		bool hooks;
	} rows[] = {
		{ "libc.debug.hooks.enable=1\n", true },
		{ " libc.debug.hooks.enable = yes", true },
		{ "libc.debug.hooks.enable=1\nlibc.debug.malloc.program=other\n", true },
		{ "libc.debug.hooks.enable=0\n", false },
		{ "libc.debug.hooks.enable=01\n", false },
		{ "libc.debug.hooks.enable=\n", false },
		{ "libc.debug.hooks=1\n", false },
		{ "", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		cr_expect_eq(ms_config_hooks(rows[i].text, strlen(rows[i].text)), rows[i].hooks,
		             "%s", rows[i].text);
}
