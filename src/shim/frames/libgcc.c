/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Not the C library's backtrace(), which on i386 goes on by frame pointers where tables end, and
 * reads whatever a register had.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

#include "shim/frames/unwinder.h"
#include "shim/pointer.h"

const char ms_unwinder_name[] = "libgcc_s.so.1";

/* Loaded for ourselves alone, as a program's own may be another one. */
static struct {
	_Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn see, void *arg);
	_Unwind_Ptr (*get_pc)(struct _Unwind_Context *context);
} unwinder; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

bool ms_unwinder_load(void)
{
	void *library = dlopen(ms_unwinder_name, RTLD_NOW | RTLD_LOCAL);
	void *backtrace = library ? dlsym(library, "_Unwind_Backtrace") : NULL;
	void *get_pc = backtrace ? dlsym(library, "_Unwind_GetIP") : NULL;

	if (!get_pc)
		return false;
	memcpy(&unwinder.get_pc, &get_pc, sizeof(get_pc));
	memcpy(&unwinder.backtrace, &backtrace, sizeof(backtrace));
	return true;
}

/* It remembers nothing of modules that the loader does not. */
void ms_unwinder_forget(void)
{
}

struct taken {
	void **at;
	int n;
	int max;
};

static _Unwind_Reason_Code see(struct _Unwind_Context *context, void *arg)
{
	struct taken *taken = arg;
	_Unwind_Ptr pc = unwinder.get_pc(context);

	if (!pc || taken->n == taken->max)
		return _URC_END_OF_STACK;
	taken->at[taken->n++] = ms_pointer(pc);
	return _URC_NO_REASON;
}

int ms_unwinder_take(void **ret, int max)
{
	struct taken taken = { ret, 0, max };

	if (unwinder.backtrace)
		(void)unwinder.backtrace(see, &taken);
	return taken.n;
}
