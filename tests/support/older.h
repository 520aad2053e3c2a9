/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_OLDER_H
#define MS_TESTS_OLDER_H

/*
 * This process, and those that it starts, get the answers of an older kernel: what came later is an
 * error of an unknown call, request, option or advice. What the release did otherwise than today
 * is not seen.
 */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum {
	OLDER_ANY = -1,
	OLDER_GET_DISPATCH = 0x4211,
	OLDER_GET_RSEQ = 0x420f,
	OLDER_SET_DISPATCH = 59,
	OLDER_PAGEMAP_SCAN_NR = 0xc0606610,
	OLDER_POPULATE_READ = 22,
	OLDER_POPULATE_WRITE = 23,
	OLDER_CLOSE_RANGE = 436,
	OLDER_OPENAT2 = 437,
	OLDER_PIDFD_GETFD = 438,
};

/* A call, or one of which argument @arg has @value, came with Linux @since. */
static const struct {
	unsigned nr;
	int arg;
	unsigned value;
	unsigned since;
	unsigned error;
} older_lacks[] = {
#ifndef __SANITIZE_ADDRESS__ /* without it the shadow's terabytes are read page by page */
	{ SYS_ioctl, 1, OLDER_PAGEMAP_SCAN_NR, 607, ENOTTY },
#endif
	{ SYS_ptrace, 0, OLDER_GET_DISPATCH, 604, EIO },
	{ SYS_madvise, 2, OLDER_POPULATE_READ, 514, EINVAL },
	{ SYS_madvise, 2, OLDER_POPULATE_WRITE, 514, EINVAL },
	{ SYS_ptrace, 0, OLDER_GET_RSEQ, 513, EIO },
	{ SYS_prctl, 0, OLDER_SET_DISPATCH, 511, EINVAL },
	{ OLDER_CLOSE_RANGE, OLDER_ANY, 0, 509, ENOSYS },
	{ OLDER_OPENAT2, OLDER_ANY, 0, 506, ENOSYS },
	{ OLDER_PIDFD_GETFD, OLDER_ANY, 0, 506, ENOSYS },
	{ SYS_pidfd_open, OLDER_ANY, 0, 503, ENOSYS },
	{ SYS_clone3, OLDER_ANY, 0, 503, ENOSYS },
};

enum { OLDER_CALLS = sizeof(older_lacks) / sizeof(older_lacks[0]), OLDER_EACH = 5 };

/* @release: 504 is 5.4. Returns 0, or -1 with errno. */
static inline int older_refuse(unsigned release)
{
	struct sock_filter code[OLDER_CALLS * OLDER_EACH + 1];
	struct sock_fprog program = { 0, code };

	for (size_t i = 0; i < OLDER_CALLS; i++) {
		unsigned char of_any = older_lacks[i].arg == OLDER_ANY;
		unsigned arg = of_any ? 0 : (unsigned)older_lacks[i].arg;
		const struct sock_filter each[OLDER_EACH] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, older_lacks[i].nr, 0, 3),
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			         (unsigned)offsetof(struct seccomp_data, args) + 8 * arg),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, older_lacks[i].value, 0, !of_any),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | older_lacks[i].error),
		};

		if (older_lacks[i].since <= release)
			continue;
		memcpy(code + program.len, each, sizeof(each));
		program.len += OLDER_EACH;
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#endif
