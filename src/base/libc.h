/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_LIBC_H
#define MS_LIBC_H

/* What glibc and musl have different names for, or only one of them. */

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#ifdef __GLIBC__
enum { MS_FOR_MUSL = 0 };
#define MS_RESOURCE       __rlimit_resource_t
#define MS_PTRACE_REQUEST enum __ptrace_request
#define MS_IOCTL_REQUEST  unsigned long
#else
enum { MS_FOR_MUSL = 1 };
#define MS_RESOURCE       int
#define MS_PTRACE_REQUEST int
#define MS_IOCTL_REQUEST  int
#endif

/* Of the kernel; musl's headers of some years ago lack them. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/*
 * What @error, of errno, means; NULL if it is none.
 *
 * Neither allocates nor translates: glibc's strerror() may do both, and musl's only the second, by
 * a table of the thread's locale.
 */
static inline const char *ms_error_text(int error)
{
#ifdef __GLIBC__
	return strerrordesc_np(error);
#else
	return strerror(error);
#endif
}

#endif
