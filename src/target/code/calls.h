/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CODE_CALLS_H
#define MS_TARGET_CODE_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Whether an allocator makes such a system call, by this machine's number, while it is at work. */
static inline bool ms_malloc_calls(int64_t call)
{
	switch (call) {
	case SYS_brk:
	case SYS_clock_gettime:
	case SYS_futex:
	case SYS_getrandom:
	case SYS_madvise:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_munmap:
	case SYS_prctl:
	case SYS_sched_getaffinity:
	case SYS_sched_yield:
		return true;
	default:
		return false;
	}
}

#endif
