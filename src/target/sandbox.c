/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweeper decodes what a possibly hostile process wrote. After this call it
 * can compute, grow memory, read what it has open and write its report, nothing
 * else; whoever takes it over cannot open a file, make a process or a connection.
 *
 * A filter by hand, for the list is short and libseccomp allocates by malloc.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/target.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(name)                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static const struct sock_filter filter[] = {
	LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
	KILL,
	/* x32 calls carry a bit in their number and so equal none of these. */
	LOAD(nr),
	ALLOW(read),
	ALLOW(pread64),
	ALLOW(write),
	ALLOW(poll), /* before what may not be written at once */
	ALLOW(close),
	ALLOW(mmap),
	ALLOW(munmap),
	ALLOW(mremap),
	ALLOW(madvise),
	ALLOW(brk),
	ALLOW(futex),
	ALLOW(clock_gettime),
	ALLOW(getrusage),
	ALLOW(rt_sigreturn),
	ALLOW(exit),
	ALLOW(exit_group),
	KILL,
};

enum ms_status ms_sandbox_enter(struct ms_error *err)
{
	struct sock_filter code[sizeof(filter) / sizeof(filter[0])];
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	memcpy(code, filter, sizeof(code));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return ms_fail_sys(err, errno, "giving up privileges");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		return ms_fail_sys(err, errno, "giving up system calls");
	return MS_OK;
}
