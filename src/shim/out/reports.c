/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/reports.h"

#include <inttypes.h>
#include <stdlib.h>

#include "shim/frames/frames.h"
#include "shim/guard/guard.h"
#include "shim/out/say.h"
#include "shim/pointer.h"
#include "shim/shim.h"
#include "shim/track/trace.h"

#define P(p) ((uintptr_t)(p))

static void begin(void)
{
	ms_say(MS_SAY_DIVIDER);
}

static void end(void)
{
	ms_say(MS_SAY_DIVIDER);
	if (ms_shim_has(MS_OPT_ABORT_ON_ERROR))
		abort();
}

static void say_frames(const char *title, const uint64_t *pc, size_t n)
{
	struct ms_places places;

	ms_places_init(&places);
	ms_frames_say(&places, title, pc, n, ms_shim_has(MS_OPT_BACKTRACE_FULL));
	ms_places_deinit(&places);
}

static void say_trace(const char *title, uint32_t id)
{
	const struct ms_trace *trace = ms_trace_find(id);

	if (trace)
		say_frames(title, trace->pc, trace->n);
}

static void say_here(void)
{
	uint64_t pc[MS_FRAMES_MAX];
	size_t n = ms_frames_take(pc, MS_FRAMES_MAX);

	say_frames("Backtrace at time of failure:", pc, n);
	if (!n)
		ms_say("  Backtrace failed to get any frames.");
}

/* Say what is wrong with @p by its tag; false when it has the one of a live block. */
static bool say_tag(const void *p, const char *function, bool known)
{
	uint32_t tag = 0;

	if (!ms_shim_has(MS_OPT_HEADER))
		return false;
	(void)ms_guard_probe_tag(&ms_shim.options, p, &tag);
	if (tag == MS_TAG_LIVE && !known)
		return false;
	if (tag == MS_TAG_FREED)
		ms_say("+++ ALLOCATION 0x%" PRIxPTR " USED AFTER FREE (%s)", P(p), function);
	else
		ms_say("+++ ALLOCATION 0x%" PRIxPTR " HAS INVALID TAG %" PRIx32 " (%s)", P(p), tag,
		       function);
	return true;
}

void ms_report_pointer(const void *p, const char *function, bool known)
{
	struct ms_freed freed;

	begin();
	if (!say_tag(p, function, known))
		ms_say("+++ ALLOCATION 0x%" PRIxPTR " UNKNOWN POINTER (%s)", P(p), function);
	if (ms_shim_has(MS_OPT_FREE_TRACK) && ms_freed_find(p, &freed))
		say_trace("Backtrace of original free:", freed.trace);
	say_here();
	end();
}

/* Indices count from @p, the user's first byte. */
static void say_bytes(const void *p, const void *from, size_t n, uint8_t expected)
{
	const uint8_t *bytes = from;

	for (size_t i = 0; i < n; i++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): freed->p is no null */
		if (bytes[i] != expected)
			ms_say("  allocation[%td] = 0x%02x (expected 0x%02x)",
			       &bytes[i] - (const uint8_t *)p, bytes[i], expected);
	}
}

static void check_guard(const void *p, const void *guard, size_t n, uint8_t expected)
{
	if (ms_guard_differs(guard, expected, n) == n)
		return;
	begin();
	ms_say("+++ ALLOCATION 0x%" PRIxPTR " SIZE %zu HAS A CORRUPTED %s GUARD", P(p),
	       ms_guard_header(&ms_shim.options, p)->size,
	       expected == MS_FRONT_BYTE ? "FRONT" : "REAR");
	say_bytes(p, guard, n, expected);
	say_here();
	end();
}

void ms_report_guards(const void *p)
{
	const struct ms_opts *options = &ms_shim.options;
	const char *user = p;

	if (ms_shim_has(MS_OPT_FRONT_GUARD))
		check_guard(p, user - options->front_guard, options->front_guard, MS_FRONT_BYTE);
	if (ms_shim_has(MS_OPT_REAR_GUARD))
		check_guard(p, user + ms_guard_header(options, p)->size, options->rear_guard,
		            MS_REAR_BYTE);
}

static bool check_freed_tag(const struct ms_freed *block)
{
	uint32_t tag;

	if (!ms_shim_has(MS_OPT_HEADER))
		return true;
	tag = ms_guard_header(&ms_shim.options, ms_pointer(block->p))->tag;
	if (tag == MS_TAG_FREED && ms_guard_is_whole(&ms_shim.options, ms_pointer(block->p)))
		return true;
	begin();
	ms_say("+++ ALLOCATION 0x%" PRIxPTR " HAS CORRUPTED HEADER TAG 0x%" PRIx32 " AFTER FREE",
	       block->p, tag);
	end();
	return false;
}

bool ms_report_freed(const struct ms_freed *block)
{
	size_t filled = ms_shim.options.fill_on_free;
	size_t n = block->usable < filled ? block->usable : filled;
	const void *p = ms_pointer(block->p);

	if (!check_freed_tag(block))
		return false;
	if (ms_guard_differs(p, MS_FREE_BYTE, n) == n)
		return true;
	begin();
	ms_say("+++ ALLOCATION 0x%" PRIxPTR " USED AFTER FREE", block->p);
	say_bytes(p, p, n, MS_FREE_BYTE);
	say_trace("Backtrace at time of free:", block->trace);
	end();
	return true;
}

void ms_report_leak(struct ms_places *places, const struct ms_live_block *block, size_t nth,
                    size_t n)
{
	const struct ms_trace *trace = ms_trace_find(block->trace);

	ms_say("+++ %s leaked block of size %zu at 0x%" PRIxPTR " (leak %zu of %zu)",
	       ms_shim.program, block->size, block->p, nth, n);
	if (trace)
		ms_frames_say(places, "Backtrace at time of allocation:", trace->pc, trace->n,
		              ms_shim_has(MS_OPT_BACKTRACE_FULL));
}
