/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stddef.h>
#include <string.h>

#include "shim/frames/memory.h"
#include "shim/frames/unwinder.h"
#include "shim/pointer.h"

const char ms_unwinder_name[] = "libunwind.so.8";

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
	bool forgot; /* a module has gone, and what backtrace() remembers may be of it */
} unwinder;          /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* What its backtrace() remembers of modules that are gone cannot be flushed: it is done with. */
void ms_unwinder_forget(void)
{
	__atomic_store_n(&unwinder.forgot, true, __ATOMIC_RELEASE);
}

/* The header's names are macros for the library's. */
#define NAME_OF(macro)   NAME_AS_IS(macro)
#define NAME_AS_IS(name) #name

bool ms_unwinder_load(void)
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
	void *library = dlopen(ms_unwinder_name, RTLD_NOW | RTLD_LOCAL);
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
	return true;
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

int ms_unwinder_take(void **ret, int max)
{
	if (!unwinder.backtrace)
		return 0;
	if (__atomic_load_n(&unwinder.forgot, __ATOMIC_ACQUIRE))
		return step_through(ret, max);
	return unwinder.backtrace(ret, max);
}
