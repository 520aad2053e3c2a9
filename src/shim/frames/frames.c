/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/frames.h"

#include <dlfcn.h>
#include <inttypes.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stdio.h>
#include <string.h>

#include "shim/frames/memory.h"
#include "shim/frames/walk.h"
#include "shim/out/say.h"
#include "shim/pointer.h"

/* Ours on the way to the unwinder, at most. */
enum { OWN_FRAMES = 16 };

/* Of a frame's line. */
enum { TEXT_BYTES = 1024 };

MS_SHIM_TLS const void
	*ms_frames_from; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/*
 * Loaded for ourselves alone: linked, its _Unwind_* functions would stand before those of
 * the C++ run-time library in programs that get that one indirectly.
 */
static struct {
	int (*backtrace)(void **buffer, int size);
	int (*getcontext)(unw_context_t *context);
	int (*init_local)(unw_cursor_t *cursor, unw_context_t *context);
	int (*step)(unw_cursor_t *cursor);
	int (*get_reg)(unw_cursor_t *cursor, unw_regnum_t reg, unw_word_t *ret);
	int (*set_caching)(unw_addr_space_t space, unw_caching_policy_t policy);
	unw_addr_space_t *space;
	bool walks;
	bool forgot; /* a module has gone, and what backtrace() remembers may be of it */
} unwinder;          /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* Where this library is: from its first byte to its last, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* What its backtrace() remembers of modules that are gone cannot be flushed: it is done with. */
static void forget(void)
{
	__atomic_store_n(&unwinder.forgot, true, __ATOMIC_RELEASE);
}

/* The header's names are macros for the library's. */
#define NAME_OF(macro)   NAME_AS_IS(macro)
#define NAME_AS_IS(name) #name

bool ms_frames_init(void)
{
	const struct {
		const char *name;
		void *to;
	} wanted[] = {
		{ "unw_backtrace", &unwinder.backtrace },
		{ NAME_OF(unw_tdep_getcontext), &unwinder.getcontext },
		{ NAME_OF(unw_init_local), &unwinder.init_local },
		{ NAME_OF(unw_step), &unwinder.step },
		{ NAME_OF(unw_get_reg), &unwinder.get_reg },
		{ NAME_OF(unw_set_caching_policy), &unwinder.set_caching },
		{ NAME_OF(unw_local_addr_space), &unwinder.space },
	};
	void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	void *symbol;

	for (size_t i = sizeof(wanted) / sizeof(*wanted); i-- > 0;) {
		symbol = library ? dlsym(library, wanted[i].name) : NULL;
		if (!symbol) {
			unwinder.backtrace = NULL;
			return false;
		}
		memcpy(wanted[i].to, &symbol, sizeof(symbol));
	}
	ms_memory_init(); /* before libunwind is called for the first time */
	/*
	 * Of the cache that all its walks share, backtrace() reads an entry after it has
	 * unlocked it: by then it may be that of a signal's frame, and the stack is read from a
	 * wrong place. Nor may the cache be switched on later, when some are in backtrace().
	 */
	(void)unwinder.set_caching(*unwinder.space, UNW_CACHE_NONE);
	unwinder.walks = ms_walk_init(forget);
	return true;
}

static bool is_ours(uintptr_t pc)
{
	return pc - (uintptr_t)__ehdr_start < (uintptr_t)_end - (uintptr_t)__ehdr_start;
}

/* Some of the functions that stand before malloc call others of them. */
static size_t walk(uintptr_t *pc, size_t max)
{
	uintptr_t taken[MS_FRAMES_MAX + OWN_FRAMES];
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

/* As backtrace() does, but remembering nothing. */
static int step_through(void **ret, int max)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unw_word_t pc;
	int n = 0;

	(void)unwinder.getcontext(&context);
	if (unwinder.init_local(&cursor, &context) < 0)
		return 0;
	while (n < max && unwinder.step(&cursor) > 0 &&
	       unwinder.get_reg(&cursor, UNW_REG_IP, &pc) == 0 && pc)
		ret[n++] = ms_pointer(pc);
	return n;
}

/* A return address is behind its call, which may end a function; in front is the call. */
size_t ms_frames_take(uintptr_t *pc, size_t max)
{
	void *taken[MS_FRAMES_MAX + OWN_FRAMES];
	size_t n = 0;
	int found;

	if (unwinder.walks && ms_frames_from)
		n = walk(pc, max);
	if (n || !unwinder.backtrace)
		return n;
	if (__atomic_load_n(&unwinder.forgot, __ATOMIC_ACQUIRE))
		found = step_through(taken, (int)max + OWN_FRAMES);
	else
		found = unwinder.backtrace(taken, (int)max + OWN_FRAMES);
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
	(void)snprintf(ret, TEXT_BYTES, "          #%zu  pc %016" PRIx64 "  %s%s", n, place->pc,
	               offset, name);
}

static void text_of_plain(const struct ms_place *place, size_t n, char *ret)
{
	char offset[40] = "";
	bool named = place->module && place->module->name[0];

	if (place->module && place->module->elf_offset)
		(void)snprintf(offset, sizeof(offset), " (offset 0x%" PRIx64 ")",
		               place->module->elf_offset);
	(void)snprintf(ret, TEXT_BYTES, "          #%02zu  pc %016" PRIx64 "  %s%s", n, place->pc,
	               named ? place->module->name : "<unknown>", offset);
}

static void put_text(const struct ms_place *place, size_t n, bool full, char *ret)
{
	if (full)
		text_of_full(place, n, ret);
	else
		text_of_plain(place, n, ret);
	append_function(place, full, ret);
}

void ms_frames_say(struct ms_places *places, const char *title, const uintptr_t *pc, size_t n,
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
