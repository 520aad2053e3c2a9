/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYSCALLS_H
#define MS_SYSCALLS_H

/*
 * <sys/syscall.h>, and the numbers that the headers of the oldest supported distributions lack
 * (Debian 11: Linux 5.10, glibc 2.31). They are the same on every machine.
 *
 * Source: include/uapi/asm-generic/unistd.h
 */

#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
#ifndef SYS_openat2
#define SYS_openat2 437 /* Linux 5.6 */
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* Linux 5.6 */
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* Linux 5.11 */
#endif

#endif
