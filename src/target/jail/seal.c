/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/jail/filter.h"
#include "target/jail/jail.h"

#define EXACTLY(arg, value)            \
	{                              \
		arg, UINT32_MAX, value \
	}
#define ALL_OF(arg, bits)       \
	{                       \
		arg, bits, bits \
	}
#define NONE_OF(arg, bits)   \
	{                    \
		arg, bits, 0 \
	}

/* What RLIMIT_DATA counts is private and no stack. */
#define MAP_KIND (MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_HUGETLB)

/* Memory to compute in: none that is a file's, none to execute. */
#define ANONYMOUS                                                                            \
	{                                                                                    \
		SYS_mmap,                                                                    \
		{                                                                            \
			NONE_OF(2, PROT_EXEC), { 3, MAP_KIND, MAP_PRIVATE | MAP_ANONYMOUS }, \
				EXACTLY(4, UINT32_MAX)                                       \
		}                                                                            \
	}
#define FUTEX(op)                                                                             \
	{                                                                                     \
		SYS_futex,                                                                    \
		{                                                                             \
			{                                                                     \
				1, ~(uint32_t)FUTEX_CLOCK_REALTIME, (op) | FUTEX_PRIVATE_FLAG \
			}                                                                     \
		}                                                                             \
	}

static const struct ms_filter_rule sweep[] = {
	{ SYS_read, { { 0 } } },
	{ SYS_pread64, { { 0 } } },
	{ SYS_write, { { 0 } } },
	{ SYS_close, { { 0 } } },
	ANONYMOUS,
	{ SYS_munmap, { { 0 } } },
	{ SYS_mremap, { EXACTLY(3, MREMAP_MAYMOVE) } },
	{ SYS_madvise, { EXACTLY(2, MADV_HUGEPAGE) } },
	{ SYS_madvise, { EXACTLY(2, MADV_DONTFORK) } },
	{ SYS_brk, { { 0 } } },
	FUTEX(FUTEX_WAIT),
	FUTEX(FUTEX_WAKE),
	FUTEX(FUTEX_WAIT_BITSET),
	{ SYS_clock_gettime, { { 0 } } },
	{ SYS_getrusage, { { 0 } } },
	{ SYS_rt_sigreturn, { { 0 } } },
	{ SYS_restart_syscall, { { 0 } } }, /* of a wait that SIGSTOP broke off */
	{ SYS_exit, { { 0 } } },
	{ SYS_exit_group, { { 0 } } },
};

/* What libdw, libunwind, libiberty, stdio and malloc need of a file that is open. */
static const struct ms_filter_rule read_files[] = {
	{ SYS_read, { { 0 } } },
	{ SYS_pread64, { { 0 } } },
	{ SYS_lseek, { { 0 } } },
	{ SYS_fstat, { { 0 } } },
	{ SYS_newfstatat, { EXACTLY(3, AT_EMPTY_PATH) } }, /* fstat() of glibc */
	{ SYS_fcntl, { EXACTLY(1, F_GETFD) } },
	{ SYS_fcntl, { EXACTLY(1, F_GETFL) } },
	{ SYS_write, { { 0 } } },
	{ SYS_close, { { 0 } } },
	{ SYS_sendmsg, { { 0 } } }, /* no socket is open but that for questions */
	{ SYS_recvmsg, { { 0 } } },
	ANONYMOUS,
	{ SYS_mmap, { NONE_OF(2, PROT_EXEC), { 3, MAP_KIND, MAP_PRIVATE } } },
	{ SYS_munmap, { { 0 } } },
	{ SYS_mremap, { EXACTLY(3, MREMAP_MAYMOVE) } },
	{ SYS_madvise, { EXACTLY(2, MADV_HUGEPAGE) } },
	{ SYS_madvise, { EXACTLY(2, MADV_DONTNEED) } },
	{ SYS_brk, { { 0 } } },
	{ SYS_sysinfo, { { 0 } } }, /* qsort() of glibc, for how much it may take */
	{ SYS_clock_gettime, { { 0 } } },
	{ SYS_rt_sigreturn, { { 0 } } },
	{ SYS_restart_syscall, { { 0 } } },
	{ SYS_exit, { { 0 } } },
	{ SYS_exit_group, { { 0 } } },
};

/* What both of the above have, as far as they share it, and the call that seals for the search. */
static const struct ms_filter_rule read_core[] = {
	{ SYS_read, { { 0 } } },
	{ SYS_pread64, { { 0 } } },
	{ SYS_lseek, { { 0 } } },
	{ SYS_fstat, { { 0 } } },
	{ SYS_newfstatat, { EXACTLY(3, AT_EMPTY_PATH) } },
	{ SYS_write, { { 0 } } },
	{ SYS_close, { { 0 } } },
	{ SYS_sendmsg, { { 0 } } }, /* no socket is open but those for questions */
	{ SYS_recvmsg, { { 0 } } },
	ANONYMOUS,
	{ SYS_mmap, { NONE_OF(2, PROT_EXEC), { 3, MAP_KIND, MAP_PRIVATE } } },
	{ SYS_munmap, { { 0 } } },
	{ SYS_mremap, { EXACTLY(3, MREMAP_MAYMOVE) } },
	{ SYS_madvise, { EXACTLY(2, MADV_HUGEPAGE) } },
	{ SYS_madvise, { EXACTLY(2, MADV_DONTFORK) } },
	{ SYS_brk, { { 0 } } },
	FUTEX(FUTEX_WAIT),
	FUTEX(FUTEX_WAKE),
	FUTEX(FUTEX_WAIT_BITSET),
	{ SYS_clock_gettime, { { 0 } } },
	{ SYS_getrusage, { { 0 } } },
	{ SYS_seccomp, { EXACTLY(0, SECCOMP_SET_MODE_FILTER) } },
	{ SYS_rt_sigreturn, { { 0 } } },
	{ SYS_restart_syscall, { { 0 } } },
	{ SYS_exit, { { 0 } } },
	{ SYS_exit_group, { { 0 } } },
};

#define RULES(of) of, sizeof(of) / sizeof((of)[0])

static const struct {
	const struct ms_filter_rule *rules;
	size_t n;
	uint32_t otherwise;
	bool polls; /* before what may not be written at once */
} works[MS_JAIL_WORKS] = {
	[MS_JAIL_SWEEP] = { RULES(sweep), SECCOMP_RET_KILL_PROCESS, true },
	[MS_JAIL_READ] = { RULES(read_files), SECCOMP_RET_ERRNO | EPERM, false },
	[MS_JAIL_READ_CORE] = { RULES(read_core), SECCOMP_RET_KILL_PROCESS, true },
};

enum ms_status ms_jail_seal(enum ms_jail_work work, struct ms_error *err)
{
	const struct ms_filter_rule poll = { ms_native_arch.poll_call, { { 0 } } };
	const struct ms_filter filter = {
		.audit = ms_native_arch.audit,
		.foreign_call = ms_native_arch.foreign_call,
		.more = works[work].polls ? &poll : NULL,
		.rules = works[work].rules,
		.n = works[work].n,
		.otherwise = works[work].otherwise,
	};
	struct sock_filter code[MS_FILTER_CODE];
	struct sock_fprog program = { (unsigned short)ms_filter_compile(&filter, code), code };
	long refused =
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);

	if (!refused)
		return MS_OK;
	/* A number above 0 is of a thread that has a filter of its own. */
	(void)ms_fail_sys(err, refused < 0 ? errno : EBUSY,
	                  "memscan cannot give up system calls before it reads foreign memory");
	ms_advise(err, "allow seccomp(2), which a filter of a container or a service may forbid, "
	               "on a kernel with CONFIG_SECCOMP_FILTER");
	return MS_E_SYS;
}
