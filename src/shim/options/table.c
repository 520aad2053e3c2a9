/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/options/table.h"

#include <stdio.h>
#include <string.h>

enum { GUARD_ALIGN = 16, GUARD_MAX = 16384, FRAMES = 16, FRAMES_MAX = 256 };

static void front_guard(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->front_guard = (n + GUARD_ALIGN - 1) & ~(size_t)(GUARD_ALIGN - 1);
}

static void rear_guard(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->rear_guard = n;
}

static void guard(struct ms_opts *options, size_t n, const char *path)
{
	front_guard(options, n, path);
	rear_guard(options, n, path);
}

static void frames(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->frames = n;
}

static void sample(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->sample = n;
	if (!options->frames)
		options->frames = FRAMES;
}

static void only_size(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->min_size = n;
	options->max_size = n;
}

static void min_size(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->min_size = n;
}

static void max_size(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->max_size = n;
}

static void fill_on_alloc(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->fill_on_alloc = n;
}

static void fill_on_free(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->fill_on_free = n;
}

static void fill(struct ms_opts *options, size_t n, const char *path)
{
	fill_on_alloc(options, n, path);
	fill_on_free(options, n, path);
}

static void expand(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->expand = n;
}

/* Its bytes are compared with the fill, so there must be one. */
static void free_track(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->free_track = n;
	if (!options->fill_on_free)
		options->fill_on_free = SIZE_MAX;
	if (!options->free_frames_set)
		options->free_frames = FRAMES;
}

static void free_frames(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->free_frames = n;
	options->free_frames_set = true;
}

static void records(struct ms_opts *options, size_t n, const char *path)
{
	(void)path;
	options->records = n;
}

static void record_file(struct ms_opts *options, size_t n, const char *path)
{
	(void)n;
	(void)snprintf(options->record_file, sizeof(options->record_file), "%s", path);
}

static void dump_prefix(struct ms_opts *options, size_t n, const char *path)
{
	(void)n;
	(void)snprintf(options->dump_prefix, sizeof(options->dump_prefix), "%s", path);
}

#define SWITCH(name_, alias_, sets_)                                                           \
	{                                                                                      \
		.name = (name_), .alias = (alias_), .takes = MS_TAKES_NOTHING, .sets = (sets_) \
	}
#define NUMBER(name_, bare_, min_, max_, sets_, apply_)                                    \
	{                                                                                  \
		.name = (name_), .takes = MS_TAKES_NUMBER, .bare = (bare_), .min = (min_), \
		.max = (max_), .sets = (sets_), .apply = (apply_)                          \
	}
#define ALL LONG_MAX /* what strtol() can read; of no effect as a limit */

static const struct ms_opt_row ROWS[] = {
	NUMBER("guard", 32, 1, GUARD_MAX, MS_OPT_HEADER | MS_OPT_TRACK, guard),
	NUMBER("front_guard", 32, 1, GUARD_MAX, MS_OPT_FRONT_GUARD | MS_OPT_TRACK, front_guard),
	NUMBER("rear_guard", 32, 1, GUARD_MAX, MS_OPT_REAR_GUARD | MS_OPT_TRACK, rear_guard),
	{ .name = "backtrace",
	  .alias = "bt",
	  .takes = MS_TAKES_NUMBER,
	  .bare = FRAMES,
	  .min = 1,
	  .max = FRAMES_MAX,
	  .sets = MS_OPT_BACKTRACE | MS_OPT_TRACK | MS_OPT_CAPTURE,
	  .apply = frames },
	{ .name = "backtrace_enable_on_signal",
	  .alias = "bt_en_on_sig",
	  .takes = MS_TAKES_NUMBER,
	  .bare = FRAMES,
	  .min = 1,
	  .max = FRAMES_MAX,
	  .sets = MS_OPT_BACKTRACE | MS_OPT_TRACK | MS_OPT_BACKTRACE_ON_SIGNAL,
	  .apply = frames },
	SWITCH("backtrace_dump_on_exit", "bt_dmp_on_ex", MS_OPT_DUMP_ON_EXIT),
	{ .name = "backtrace_dump_prefix",
	  .alias = "bt_dmp_pre",
	  .takes = MS_TAKES_PATH,
	  .path = "/tmp/backtrace_heap",
	  .apply = dump_prefix },
	{ .name = "backtrace_size",
	  .alias = "bt_sz",
	  .takes = MS_NEEDS_NUMBER,
	  .min = 1,
	  .max = ALL,
	  .apply = only_size },
	{ .name = "backtrace_min_size",
	  .alias = "bt_min_sz",
	  .takes = MS_NEEDS_NUMBER,
	  .min = 1,
	  .max = ALL,
	  .apply = min_size },
	{ .name = "backtrace_max_size",
	  .alias = "bt_max_sz",
	  .takes = MS_NEEDS_NUMBER,
	  .min = 1,
	  .max = ALL,
	  .apply = max_size },
	SWITCH("backtrace_full", "bt_full", MS_OPT_BACKTRACE_FULL),
	/* Not one of Android's. */
	NUMBER("backtrace_sample", 524288, 1, ALL, MS_OPT_BACKTRACE | MS_OPT_CAPTURE, sample),
	NUMBER("fill", SIZE_MAX, 1, ALL, MS_OPT_FILL_ON_ALLOC | MS_OPT_FILL_ON_FREE, fill),
	NUMBER("fill_on_alloc", SIZE_MAX, 1, ALL, MS_OPT_FILL_ON_ALLOC, fill_on_alloc),
	NUMBER("fill_on_free", SIZE_MAX, 1, ALL, MS_OPT_FILL_ON_FREE, fill_on_free),
	NUMBER("expand_alloc", 16, 1, GUARD_MAX, MS_OPT_EXPAND, expand),
	NUMBER("free_track", 100, 1, 16384, MS_OPT_FREE_TRACK | MS_OPT_FILL_ON_FREE | MS_OPT_TRACK,
	       free_track),
	NUMBER("free_track_backtrace_num_frames", FRAMES, 0, FRAMES_MAX, 0, free_frames),
	SWITCH("leak_track", NULL, MS_OPT_LEAK_TRACK | MS_OPT_TRACK),
	NUMBER("record_allocs", 8000000, 1, 50000000, MS_OPT_RECORD, records),
	{ .name = "record_allocs_file",
	  .takes = MS_TAKES_PATH,
	  .path = "/tmp/record_allocs.txt",
	  .apply = record_file },
	SWITCH("record_allocs_on_exit", NULL, MS_OPT_RECORD_ON_EXIT),
	SWITCH("verify_pointers", NULL, MS_OPT_TRACK),
	SWITCH("abort_on_error", NULL, MS_OPT_ABORT_ON_ERROR),
	SWITCH("verbose", NULL, MS_OPT_VERBOSE),
	SWITCH("check_unreachable_on_signal", NULL, MS_OPT_UNREACHABLE_ON_SIGNAL),
	SWITCH("log_allocator_stats_on_signal", NULL, MS_OPT_STATS_ON_SIGNAL),
	SWITCH("log_allocator_stats_on_exit", NULL, MS_OPT_STATS_ON_EXIT),
};

static bool is_named(const char *own, const char *name, size_t len)
{
	return own && strlen(own) == len && memcmp(own, name, len) == 0;
}

const struct ms_opt_row *ms_opt_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
		if (is_named(ROWS[i].name, name, len) || is_named(ROWS[i].alias, name, len))
			return &ROWS[i];
	}
	return NULL;
}
