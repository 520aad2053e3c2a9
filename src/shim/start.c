/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "shim/block.h"
#include "shim/frames/frames.h"
#include "shim/frames/unwinder.h"
#include "shim/gate.h"
#include "shim/hooks/hooks.h"
#include "shim/next.h"
#include "shim/out/heapdump.h"
#include "shim/out/listing.h"
#include "shim/out/record.h"
#include "shim/out/reports.h"
#include "shim/out/say.h"
#include "shim/out/stats.h"
#include "shim/registry.h"
#include "shim/shim.h"
#include "shim/track/freed.h"
#include "shim/triggers.h"

/* Bytes to a sample, from which on threads seldom have one at once. */
enum { SELDOM = 65536 };

#define CONFIG_FILE "/etc/malloc_debug.conf"

struct ms_shim ms_shim; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

int __cxa_atexit(void (*function)(void *), void *argument, void *dso);

/* ---- the end ---- */

/* The C library frees these after us. */
static bool is_stream_buffer(uintptr_t p)
{
	return p == (uintptr_t)stdin->_IO_buf_base || p == (uintptr_t)stdout->_IO_buf_base ||
	       p == (uintptr_t)stderr->_IO_buf_base;
}

static void tell_leaks(void)
{
	struct ms_arena arena = { 0 };
	struct ms_live_blocks blocks = { 0 };
	struct ms_places places;
	size_t n = 0;

	if (ms_listing_blocks(&arena, &blocks)) {
		for (size_t i = 0; i < blocks.n; i++) {
			if (!is_stream_buffer(blocks.at[i].p))
				blocks.at[n++] = blocks.at[i];
		}
	}
	ms_places_init(&places);
	for (size_t i = 0; i < n; i++)
		ms_report_leak(&places, &blocks.at[i], i + 1, n);
	ms_places_deinit(&places);
	ms_arena_deinit(&arena);
}

/* Nobody comes in any more, so nothing changes while it is told. */
static void finish(void *unused)
{
	char path[MS_OPT_PATH + 16];

	(void)unused;
	if (ms_gate_exclude())
		return;         /* a signal handler that came inside of the shim calls exit() */
	if (!ms_gate_is_ours()) /* as between malloc_disable() and malloc_enable() */
		ms_gate_close();
	if (ms_shim_has(MS_OPT_FREE_TRACK))
		ms_block_flush_freed();
	if (ms_shim_has(MS_OPT_LEAK_TRACK))
		tell_leaks();
	if (ms_shim_has(MS_OPT_RECORD) && ms_shim_has(MS_OPT_RECORD_ON_EXIT)) {
		(void)snprintf(path, sizeof(path), "%s.%d", ms_shim.options.record_file, getpid());
		ms_record_write(path);
	}
	if (ms_shim_has(MS_OPT_BACKTRACE) && ms_shim_has(MS_OPT_DUMP_ON_EXIT))
		ms_heapdump_write(".exit.txt");
	if (ms_shim_has(MS_OPT_STATS_ON_EXIT))
		ms_stats_log();
}

/* ---- the start ---- */

/* What is chosen: the options, or an empty string, and whether there are hooks otherwise. */
struct choice {
	const char *options;
	bool hooks;
	char configured[MS_OPT_PATH];
};

/* Only a file that was named must be there. */
static bool read_config(struct ms_arena *arena, struct ms_bytes *ret)
{
	const char *path = secure_getenv("MALLOC_DEBUG_CONFIG");
	bool named = path && path[0];
	struct ms_error err;

	if (ms_file_read(named ? path : CONFIG_FILE, arena, ret, &err) == MS_OK)
		return true;
	if (named)
		ms_say("MALLOC_DEBUG_CONFIG: %s", err.text);
	return false;
}

/*
 * The environment comes before the configuration file; but a user who starts a program of more
 * rights than his own has no say in which files it writes.
 */
static void choose(struct choice *ret)
{
	const char *options = secure_getenv("LIBC_DEBUG_MALLOC_OPTIONS");
	const char *hooks = secure_getenv("LIBC_HOOKS_ENABLE");
	struct ms_arena arena = { 0 };
	struct ms_bytes text = { 0 };

	*ret = (struct choice){ .hooks = hooks && hooks[0] && hooks[0] != '0' };
	ret->options = options ? options : "";
	if (ret->options[0])
		return;
	ret->options = ret->configured;
	if (read_config(&arena, &text)) {
		if (!ms_config_options(text.at, text.n, ms_shim.program, ret->configured,
		                       sizeof(ret->configured)))
			ret->configured[0] = '\0';
		ret->hooks = ret->hooks || ms_config_hooks(text.at, text.n);
	}
	ms_arena_deinit(&arena);
}

static bool parse(const char *text)
{
	char error[MS_OPT_ERROR];

	ms_opt_init(&ms_shim.options);
	if (ms_opt_parse(&ms_shim.options, text, error))
		return true;
	ms_say("%s: %s", ms_shim.program, error);
	ms_say("For malloc debug option descriptions go to:");
	ms_say("  https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/"
	       "README.md");
	return false;
}

/* Only what asks for backtraces fails without the unwinder. */
static bool prepare_frames(void)
{
	uint64_t pc[1];

	if (!ms_frames_init()) {
		if (!ms_shim_has(MS_OPT_BACKTRACE))
			return true;
		ms_say("Unable to load %s: %s", ms_unwinder_name, dlerror());
		return false;
	}
	/* now, and not first inside of a signal handler or a forked child */
	(void)ms_frames_take(pc, 1);
	return true;
}

static void before_fork(void)
{
	ms_gate_close();
}

static bool prepare(const char *text)
{
	if (dlsym(RTLD_DEFAULT, "__asan_init")) {
		ms_say("malloc debug cannot be enabled alongside ASAN");
		return false;
	}
	if (!parse(text) || !prepare_frames())
		return false;
	if (ms_shim_has(MS_OPT_FREE_TRACK) && !ms_freed_init(ms_shim.options.free_track)) {
		ms_say("Unable to make room for %zu freed blocks: %s", ms_shim.options.free_track,
		       strerror(errno));
		return false;
	}
	if (ms_shim_has(MS_OPT_RECORD) && !ms_record_init(ms_shim.options.records))
		return false;
	return ms_gate_init() && ms_triggers_init() &&
	       pthread_atfork(before_fork, ms_gate_open, ms_gate_reset) == 0 &&
	       __cxa_atexit(finish, NULL, NULL) == 0;
}

/* libmemunreachable behind us ignores blocks by where the program's bytes begin in them. */
struct behind {
	void (*started)(void);
};

/* Before our start: what dlsym() keeps of a failure is no block of the program's. */
static struct behind find_behind(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "memunreachable_malloc_started");
	struct behind behind = { NULL };

	memcpy(&behind.started, &symbol, sizeof(symbol));
	return behind;
}

static void start(void)
{
	struct behind behind;
	struct choice choice;

	(void)snprintf(ms_shim.program, sizeof(ms_shim.program), "%s",
	               program_invocation_short_name);
	choose(&choice);
	if (!choice.options[0]) {
		if (choice.hooks)
			ms_hooks_init();
		ms_shim.phase = choice.hooks ? MS_SHIM_HOOKS : MS_SHIM_OFF;
		return;
	}
	ms_say_init();
	if (!prepare(choice.options)) {
		ms_say_libc("%s: failed to enable malloc debug", ms_shim.program);
		ms_shim.phase = MS_SHIM_OFF;
		return;
	}
	if (ms_shim_has(MS_OPT_VERBOSE))
		ms_say("%s: malloc debug enabled", ms_shim.program);
	ms_shim.light = !ms_shim_has(MS_OPT_HEADER | MS_OPT_TRACK | MS_OPT_FILL_ON_ALLOC |
	                             MS_OPT_FILL_ON_FREE | MS_OPT_EXPAND | MS_OPT_RECORD) &&
	                ms_shim_has(MS_OPT_BACKTRACE);
	if (ms_shim.light)
		ms_live_filter(ms_shim.options.sample >= SELDOM);
	ms_shim.capturing = ms_shim_has(MS_OPT_CAPTURE);
	if (ms_shim_tracks() || ms_shim_has(MS_OPT_RECORD))
		ms_registry_publish();
	behind = find_behind();
	ms_shim.phase = MS_SHIM_ON;
	if (behind.started)
		behind.started();
}

/* Of no DSO's own: so the handler of the end is the last to run. */
__attribute__((constructor)) static void start_once(void)
{
	if (!ms_next_ready())
		return;
	start();
	if (!ms_early_any() && ms_shim.phase == MS_SHIM_OFF)
		ms_shim.usual = MS_SHIM_PAST;
	if (!ms_early_any() && ms_shim.phase == MS_SHIM_ON && ms_shim.light)
		ms_shim.usual = MS_SHIM_LIGHT;
	if (!ms_triggers_pending())
		ms_shim.way = ms_shim.usual;
}
