/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OPTIONS_OPTIONS_H
#define MS_SHIM_OPTIONS_OPTIONS_H

/*
 * What LIBC_DEBUG_MALLOC_OPTIONS asks for.
 *
 * The string is names, each with "= VALUE" or without, between spaces; a value runs to the
 * next space. Later settings overwrite earlier ones; the first error ends the parsing.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is on. Several options may set one bit, and one option several. */
enum ms_opt_bit {
	MS_OPT_FRONT_GUARD = 1 << 0,
	MS_OPT_REAR_GUARD = 1 << 1,
	MS_OPT_BACKTRACE = 1 << 2,
	MS_OPT_FILL_ON_ALLOC = 1 << 3,
	MS_OPT_FILL_ON_FREE = 1 << 4,
	MS_OPT_EXPAND = 1 << 5,
	MS_OPT_FREE_TRACK = 1 << 6,
	MS_OPT_TRACK = 1 << 7, /* every live block is in the table */
	MS_OPT_LEAK_TRACK = 1 << 8,
	MS_OPT_RECORD = 1 << 9,
	MS_OPT_BACKTRACE_FULL = 1 << 10,
	MS_OPT_ABORT_ON_ERROR = 1 << 11,
	MS_OPT_VERBOSE = 1 << 12,
	MS_OPT_UNREACHABLE_ON_SIGNAL = 1 << 13,
	MS_OPT_BACKTRACE_ON_SIGNAL = 1 << 14,
	MS_OPT_DUMP_ON_EXIT = 1 << 15,
	MS_OPT_STATS_ON_SIGNAL = 1 << 16,
	MS_OPT_STATS_ON_EXIT = 1 << 17,
	MS_OPT_RECORD_ON_EXIT = 1 << 18,
	MS_OPT_CAPTURE = 1 << 19, /* backtraces from the start */

	/* a header stands in front of every block */
	MS_OPT_HEADER = MS_OPT_FRONT_GUARD | MS_OPT_REAR_GUARD,
};

enum { MS_OPT_PATH = 1024, MS_OPT_ERROR = 1400 };

struct ms_opts {
	uint32_t on;
	size_t front_guard; /* bytes, a multiple of 16 */
	size_t rear_guard;
	size_t frames;
	size_t min_size; /* of blocks that get a backtrace */
	size_t max_size;
	size_t sample; /* bytes per backtrace; 0: one for every block */
	size_t fill_on_alloc;
	size_t fill_on_free;
	size_t expand;
	size_t free_track;
	size_t free_frames;
	size_t records;
	bool free_frames_set; /* by its option: 0 then means none */
	char dump_prefix[MS_OPT_PATH];
	char record_file[MS_OPT_PATH];
};

/* Nothing on. */
void ms_opt_init(struct ms_opts *options);

/*
 * Apply @text to initialised @options. False with the reason in @error, MS_OPT_ERROR bytes;
 * @options are then of no use.
 */
bool ms_opt_parse(struct ms_opts *options, const char *text, char *error);

/*
 * What the configuration @text, a file's @len bytes of lines PROPERTY=VALUE, says for
 * @program, to @ret of @size bytes: libc.debug.malloc.options, or else libc.debug.malloc, a
 * level of old, in today's options; if libc.debug.malloc.program is a part of @program.
 *
 * False when it says nothing for this program, or more than @size bytes.
 */
bool ms_config_options(const char *text, size_t len, const char *program, char *ret, size_t size);

/*
 * Whether it enables Malloc Hooks, for any program: by libc.debug.hooks.enable, with a value
 * that does not begin with 0.
 */
bool ms_config_hooks(const char *text, size_t len);

#endif
