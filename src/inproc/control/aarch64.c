/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/control/control.h"

#include <features.h>
#include <sched.h>
#include <string.h>

#ifndef __GLIBC__
#error "written for glibc alone"
#endif

/*
 *	                 tp
 *	struct pthread ──┤ dtv, a free word, TLS
 *
 * What glibc keeps below the thread pointer has another size in each version, and memory may begin
 * where it does. Zeros are as good: a thread that holds no lock, waits for no cancellation, and is
 * in no list. The stack's canary is not in there.
 *
 * Source: glibc 2.36 sysdeps/aarch64/nptl/tls.h and nptl/descr.h, the same in 2.26 to 2.43.
 */
enum { LEAST = 1776, ROOM = 4096, TCB_BYTES = 16, TCB_ROOM = 64 };

static uint64_t bytes_of_tls(const struct dl_phdr_info *module)
{
	for (unsigned i = 0; i < module->dlpi_phnum; i++)
		if (module->dlpi_phdr[i].p_type == PT_TLS)
			return module->dlpi_phdr[i].p_memsz;
	return 0;
}

size_t ms_control_reach(const struct dl_phdr_info *module)
{
	uintptr_t tp = (uintptr_t)__builtin_thread_pointer();
	uintptr_t at = (uintptr_t)module->dlpi_tls_data;

	return at > tp ? at - tp + bytes_of_tls(module) : 0;
}

struct ms_control_room ms_control_room(size_t reach)
{
	return (struct ms_control_room){ ROOM, TCB_ROOM + reach };
}

size_t ms_control_gap(size_t reach)
{
	(void)reach;
	return LEAST;
}

void ms_control_copy(char *to, size_t reach)
{
	memcpy(to, __builtin_thread_pointer(), reach > TCB_BYTES ? reach : TCB_BYTES);
}

int ms_control_clone(int (*live)(void *ctx), void *ctx, const struct ms_control_clone *how)
{
	return clone(live, how->stack, how->flags, ctx, how->tid, how->tp, how->tid);
}
