/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_LIBC_H
#define MS_LIBC_H

/* What glibc and musl have different names for, or only one of them. */

#include <signal.h>
#include <stdio.h>
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

/* Of glibc, from 2.33 and 2.35 on; programs get them from a newer one that is installed. */
#ifdef __GLIBC__
#if !__GLIBC_PREREQ(2, 33)
struct mallinfo2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
		keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif
#if !__GLIBC_PREREQ(2, 35)
struct dl_find_object { /* as it is where a word has 64 bits */
	unsigned long long dlfo_flags;
	void *dlfo_map_start;
	void *dlfo_map_end;
	struct link_map *dlfo_link_map;
	void *dlfo_eh_frame;
	unsigned long long dlfo_reserved[7];
};
#endif
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
#ifndef __GLIBC__
	return strerror(error);
#else
#if __GLIBC_PREREQ(2, 32)
	return strerrordesc_np(error);
#else
	return error >= 0 && error < sys_nerr ? sys_errlist[error] : NULL;
#endif
#endif
}

/* The same of @signal; "unknown" if it is none. */
static inline const char *ms_signal_text(int signal)
{
	const char *text;

#ifndef __GLIBC__
	text = strsignal(signal);
#else
#if __GLIBC_PREREQ(2, 32)
	text = sigdescr_np(signal);
#else
	text = signal >= 0 && signal < NSIG ? sys_siglist[signal] : NULL;
#endif
#endif
	return text ? text : "unknown";
}

#endif
