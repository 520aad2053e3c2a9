/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shim/frames/unwinder.h"
#include "shim/frames/walk.h"
#include "shim/out/say.h"
#include "shim/pointer.h"
#include "shim/track/loaded.h"

/* Ours on the way to the unwinder, at most. */
enum { OWN_FRAMES = 16 };

/* Of a frame's line. */
enum { TEXT_BYTES = 1024, PC_DIGITS = 2 * sizeof(void *) };

MS_SHIM_TLS const void
	*ms_frames_from; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static bool walks; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* Where this library is: from its first byte to its last, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool ms_frames_init(void)
{
	if (!ms_unwinder_load())
		return false;
	walks = ms_walk_init(ms_unwinder_forget);
	return true;
}

static bool is_ours(uint64_t pc)
{
	return pc - (uintptr_t)__ehdr_start < (uintptr_t)_end - (uintptr_t)__ehdr_start;
}

/* Some of the functions that stand before malloc call others of them. */
static size_t walk(uint64_t *pc, size_t max)
{
	uint64_t taken[MS_FRAMES_MAX + OWN_FRAMES];
	size_t found = ms_walk(ms_frames_from, pc, max);
	size_t n = 0;

	if (!found || !is_ours(pc[0]))
		return found;
	found = ms_walk(ms_frames_from, taken, max + OWN_FRAMES);
	for (size_t i = 0; i < found && n < max; i++) {
		if (!is_ours(taken[i]))
			pc[n++] = taken[i];
	}
	return n;
}

/* A return address is behind its call, which may end a function; in front is the call. */
size_t ms_frames_take(uint64_t *pc, size_t max)
{
	void *taken[MS_FRAMES_MAX + OWN_FRAMES];
	size_t n = 0;
	int found;

	if (walks && ms_frames_from)
		n = walk(pc, max);
	else
		(void)ms_loaded_look();
	if (n)
		return n;
	found = ms_unwinder_take(taken, (int)max + OWN_FRAMES);
	for (int i = 0; i < found && n < max; i++) {
		if (!is_ours((uintptr_t)taken[i]))
			pc[n++] = (uintptr_t)taken[i] - 1;
	}
	return n;
}

/* What stands in parentheses behind the module. */
static void append_function(const struct ms_place *place, bool full, char *ret)
{
	size_t used = strlen(ret);

	if (!place->function[0])
		return;
	if (full && !place->offset)
		(void)snprintf(ret + used, TEXT_BYTES - used, " (%s)", place->function);
	else
		(void)snprintf(ret + used, TEXT_BYTES - used, " (%s+%" PRIu64 ")", place->function,
		               place->offset);
}

static void text_of_full(const struct ms_place *place, size_t n, char *ret)
{
	char offset[40] = "";
	char anonymous[40];
	const char *name = place->module ? place->module->name : "<unknown>";

	if (place->module && place->module->elf_offset)
		(void)snprintf(offset, sizeof(offset), "(offset 0x%" PRIx64 ") ",
		               place->module->elf_offset);
	if (!name[0]) {
		(void)snprintf(anonymous, sizeof(anonymous), "<anonymous:%" PRIx64 ">",
		               place->module->range.begin);
		name = anonymous;
	}
	(void)snprintf(ret, TEXT_BYTES, "          #%zu  pc %0*" PRIx64 "  %s%s", n, PC_DIGITS,
	               place->pc, offset, name);
}

static void text_of_plain(const struct ms_place *place, size_t n, char *ret)
{
	char offset[40] = "";
	bool named = place->module && place->module->name[0];

	if (place->module && place->module->elf_offset)
		(void)snprintf(offset, sizeof(offset), " (offset 0x%" PRIx64 ")",
		               place->module->elf_offset);
	(void)snprintf(ret, TEXT_BYTES, "          #%02zu  pc %0*" PRIx64 "  %s%s", n, PC_DIGITS,
	               place->pc, named ? place->module->name : "<unknown>", offset);
}

static void put_text(const struct ms_place *place, size_t n, bool full, char *ret)
{
	if (full)
		text_of_full(place, n, ret);
	else
		text_of_plain(place, n, ret);
	append_function(place, full, ret);
}

void ms_frames_say(struct ms_places *places, const char *title, const uint64_t *pc, size_t n,
                   bool full)
{
	struct ms_say_batch batch = { .used = 0 };
	char text[TEXT_BYTES];

	ms_say_add(&batch, "%s", title);
	for (size_t i = 0; i < n; i++) {
		put_text(ms_places_find(places, pc[i]), i, full, text);
		ms_say_add(&batch, "%s", text);
	}
	ms_say_flush(&batch);
}
