/* SPDX-License-Identifier: Apache-2.0 */
#include "target/jail/jail.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a process in a jail finds, in memory that the test sees. */
struct seen {
	struct ms_error err;
	enum ms_status st;
	char status[8192]; /* /proc/self/status */
	char limits[8192]; /* /proc/self/limits */
	bool open[64];
	bool dumpable;
	atomic_bool sealed;
};

enum { KEPT = 40, ALSO_KEPT = 7, STRAY = 23, STATUS = 41, LIMITS = 42 };

static struct seen *seen;

static void share(void)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(seen, MAP_FAILED);
}

static int status_of(void (*body)(pid_t parent))
{
	pid_t parent = getpid();
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		body(parent);
		syscall(SYS_exit_group, 7);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static enum ms_jail_work work; /* MS_JAIL_SWEEP unless a test says otherwise */

static void enter(pid_t parent)
{
	static const int keep[] = { LIMITS, 0, -1, 2, KEPT, ALSO_KEPT, STATUS };
	const struct ms_jail jail = { .keep = keep,
		                      .n_keep = sizeof(keep) / sizeof(keep[0]),
		                      .parent = parent,
		                      .n_open = 1 };

	seen->st = ms_jail_drop(&jail, &seen->err);
	if (!seen->st)
		seen->st = ms_jail_seal(work, &seen->err);
	if (seen->st)
		syscall(SYS_exit_group, 99);
}

/* ---- what it can still do ---- */

enum { NEW_BYTES = 64 << 20, STATUS_OF_MEMORY = 100 };

static bool can_have(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at != MAP_FAILED && !munmap(at, bytes);
}

static void take_memory(pid_t parent)
{
	const struct ms_jail jail = { .parent = parent, .new_bytes = NEW_BYTES, .n_open = 1 };
	int answer = STATUS_OF_MEMORY;

	seen->st = ms_jail_drop(&jail, &seen->err);
	answer += can_have(NEW_BYTES / 2) ? 1 : 0;
	answer += can_have(2 * (size_t)NEW_BYTES) ? 2 : 0;
	syscall(SYS_exit_group, seen->st ? 99 : answer);
}

Test(jail, has_as_much_memory_as_was_said)
{
	int status;

	share();
	status = status_of(take_memory);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == STATUS_OF_MEMORY + 1, "%#x %s",
	          status, seen->err.text);
}

/* What the C library's poll() makes. */
#ifdef SYS_poll
enum { POLL = SYS_poll };
#else
enum { POLL = SYS_ppoll };
#endif

enum outcome { WORKS, KILLED };

static const struct {
	const char *what;
	enum outcome outcome;
	long nr;
	long args[6];
} calls[] = {
	{ "read", WORKS, SYS_read, { -1 } },
	{ "pread64", WORKS, SYS_pread64, { -1 } },
	{ "write", WORKS, SYS_write, { -1 } },
	{ "poll", WORKS, POLL, { 0, -1 } },
	{ "close", WORKS, SYS_close, { -1 } },
	{ "munmap", WORKS, SYS_munmap, { 1 } },
	{ "brk", WORKS, SYS_brk, { 0 } },
	{ "clock_gettime", WORKS, SYS_clock_gettime, { -1 } },
	{ "getrusage", WORKS, SYS_getrusage, { 77 } },
	{ "mmap of memory",
	  WORKS,
	  SYS_mmap,
	  { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "mmap of memory, shared",
	  KILLED,
	  SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1 } },
	{ "mmap to execute",
	  KILLED,
	  SYS_mmap,
	  { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "mmap of a file", KILLED, SYS_mmap, { 0, 4096, PROT_READ, MAP_PRIVATE, KEPT } },
	{ "mmap of no file", KILLED, SYS_mmap, { 0, 4096, PROT_READ, MAP_PRIVATE, -1 } },
	{ "mmap with a descriptor",
	  KILLED,
	  SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, KEPT } },
	{ "mremap that may move", WORKS, SYS_mremap, { 1, 0, 0, MREMAP_MAYMOVE } },
	{ "mremap to a place", KILLED, SYS_mremap, { 1, 0, 0, MREMAP_MAYMOVE | MREMAP_FIXED } },
	{ "mremap that keeps", KILLED, SYS_mremap, { 1, 0, 0, MREMAP_MAYMOVE | MREMAP_DONTUNMAP } },
	{ "madvise huge pages", WORKS, SYS_madvise, { 1, 0, MADV_HUGEPAGE } },
	{ "madvise no fork", WORKS, SYS_madvise, { 1, 0, MADV_DONTFORK } },
	{ "madvise cold", KILLED, SYS_madvise, { 1, 0, MADV_COLD } },
	{ "mprotect", KILLED, SYS_mprotect, { 0, 4096, PROT_EXEC } },
	{ "futex wake", WORKS, SYS_futex, { 0, FUTEX_WAKE_PRIVATE } },
	{ "futex wait", WORKS, SYS_futex, { 0, FUTEX_WAIT_PRIVATE } },
	{ "futex wait until",
	  WORKS,
	  SYS_futex,
	  { 0, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME } },
	{ "futex of shared memory", KILLED, SYS_futex, { 0, FUTEX_WAKE } },
	{ "futex with inheritance", KILLED, SYS_futex, { 0, FUTEX_LOCK_PI_PRIVATE } },
	{ "openat", KILLED, SYS_openat, { AT_FDCWD, (long)"/dev/null", O_RDONLY } },
	{ "openat2", KILLED, SYS_openat2, { AT_FDCWD } },
	{ "fstat", KILLED, SYS_fstat, { 0 } },
	{ "getdents64", KILLED, SYS_getdents64, { 0 } },
	{ "socket", KILLED, SYS_socket, { AF_UNIX, SOCK_STREAM } },
	{ "connect", KILLED, SYS_connect, { -1 } },
	{ "sendmsg", KILLED, SYS_sendmsg, { -1 } },
	{ "recvmsg", KILLED, SYS_recvmsg, { -1 } },
	{ "dup", KILLED, SYS_dup, { 0 } },
	{ "fcntl", KILLED, SYS_fcntl, { 0, F_DUPFD } },
	{ "ioctl", KILLED, SYS_ioctl, { 0 } },
	{ "memfd_create", KILLED, SYS_memfd_create, { (long)"" } },
	{ "execve", KILLED, SYS_execve, { (long)"/bin/true" } },
	{ "clone", KILLED, SYS_clone, { CLONE_VM | CLONE_VFORK } },
	{ "clone3", KILLED, SYS_clone3, { 0 } },
	{ "kill", KILLED, SYS_kill, { 0 } },
	{ "tgkill", KILLED, SYS_tgkill, { 0 } },
	{ "ptrace", KILLED, SYS_ptrace, { PTRACE_TRACEME } },
	{ "process_vm_readv", KILLED, SYS_process_vm_readv, { 1 } },
	{ "process_vm_writev", KILLED, SYS_process_vm_writev, { 1 } },
	{ "pidfd_open", KILLED, SYS_pidfd_open, { 1 } },
	{ "prctl", KILLED, SYS_prctl, { PR_GET_NAME } },
	{ "prlimit64", KILLED, SYS_prlimit64, { 0 } },
	{ "setuid", KILLED, SYS_setuid, { 0 } },
	{ "setresuid", KILLED, SYS_setresuid, { 0 } },
	{ "capset", KILLED, SYS_capset, { 0 } },
	{ "seccomp", KILLED, SYS_seccomp, { 0 } },
	{ "bpf", KILLED, SYS_bpf, { 0 } },
	{ "unshare", KILLED, SYS_unshare, { 0 } },
	{ "mount", KILLED, SYS_mount, { 0 } },
	{ "io_uring_setup", KILLED, SYS_io_uring_setup, { 1 } },
	{ "userfaultfd", KILLED, SYS_userfaultfd, { 0 } },
	{ "perf_event_open", KILLED, SYS_perf_event_open, { 0 } },
#ifdef SYS_open /* newer machines have none of these */
	{ "open", KILLED, SYS_open, { (long)"/dev/null", O_RDONLY } },
	{ "stat", KILLED, SYS_stat, { (long)"/" } },
	{ "readlink", KILLED, SYS_readlink, { (long)"/proc/self/exe" } },
	{ "unlink", KILLED, SYS_unlink, { (long)"/nonexistent" } },
	{ "fork", KILLED, SYS_fork, { 0 } },
#endif
	{ "read of x32", KILLED, 0x40000000 | SYS_read, { -1 } },
};

static size_t asked;

static void make_call(pid_t parent)
{
	const long *a = calls[asked].args;

	enter(parent);
	(void)syscall(calls[asked].nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static bool was_killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static bool has_ended(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

Test(jail, of_the_sweeper_leaves_these_calls_and_no_others)
{
	share();
	for (asked = 0; asked < sizeof(calls) / sizeof(calls[0]); asked++) {
		int status = status_of(make_call);

		cr_expect(calls[asked].outcome == KILLED ? was_killed(status) : has_ended(status),
		          "%s: %#x (%s)", calls[asked].what, status, seen->err.text);
	}
}

enum { NUMBERS = 480, URETPROBE = 335, UPROBE };

/* Every number that there is: what is not above is not allowed by chance either. */
static void make_numbered_call(pid_t parent)
{
	enter(parent);
	(void)syscall((long)asked, -1, -1, -1, -1, -1, -1);
}

Test(jail, of_the_sweeper_has_so_many_calls_in_all)
{
	static const long allowed[] = { SYS_read,    SYS_write,         SYS_close,
		                        POLL,        SYS_munmap,        SYS_brk,
		                        SYS_pread64, SYS_clock_gettime, SYS_getrusage,
		                        SYS_exit,    SYS_exit_group,    SYS_restart_syscall };
	size_t n = sizeof(allowed) / sizeof(allowed[0]);

	share();
	for (asked = 0; asked < NUMBERS; asked++) {
		bool expected = false;

		/* It returns to whatever the stack looks like; two are for traps of perf's alone.
		 */
		if (asked == SYS_rt_sigreturn || asked == URETPROBE || asked == UPROBE)
			continue;
		for (size_t i = 0; i < n; i++)
			expected |= allowed[i] == (long)asked;
		cr_expect_neq(was_killed(status_of(make_numbered_call)), expected, "call %zu",
		              asked);
	}
}

/* ---- what a reader of files can still do ---- */

enum answer { ANSWERED, REFUSED };

static const struct {
	const char *what;
	enum answer answer;
	long nr;
	long args[6];
} of_reader[] = {
	{ "read", ANSWERED, SYS_read, { -1 } },
	{ "pread64", ANSWERED, SYS_pread64, { -1 } },
	{ "lseek", ANSWERED, SYS_lseek, { -1 } },
	{ "fstat", ANSWERED, SYS_fstat, { -1 } },
	{ "fstat as glibc has it", ANSWERED, SYS_newfstatat, { -1, (long)"", 0, AT_EMPTY_PATH } },
	{ "stat of a name", REFUSED, SYS_newfstatat, { AT_FDCWD, (long)"/" } },
	{ "flags of a file", ANSWERED, SYS_fcntl, { -1, F_GETFL } },
	{ "flags of a descriptor", ANSWERED, SYS_fcntl, { -1, F_GETFD } },
	{ "another descriptor", REFUSED, SYS_fcntl, { 0, F_DUPFD } },
	{ "write", ANSWERED, SYS_write, { -1 } },
	{ "close", ANSWERED, SYS_close, { -1 } },
	{ "sendmsg", ANSWERED, SYS_sendmsg, { -1 } },
	{ "recvmsg", ANSWERED, SYS_recvmsg, { -1 } },
	{ "sendto", REFUSED, SYS_sendto, { -1 } },
	{ "memory",
	  ANSWERED,
	  SYS_mmap,
	  { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "memory to execute",
	  REFUSED,
	  SYS_mmap,
	  { 0, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "memory that is shared",
	  REFUSED,
	  SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1 } },
	{ "memory that is a stack",
	  REFUSED,
	  SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1 } },
	{ "a file", ANSWERED, SYS_mmap, { 0, 4096, PROT_READ, MAP_PRIVATE, -1 } },
	{ "a file to execute", REFUSED, SYS_mmap, { 0, 4096, PROT_EXEC, MAP_PRIVATE, -1 } },
	{ "a file to write to", REFUSED, SYS_mmap, { 0, 4096, PROT_WRITE, MAP_SHARED, -1 } },
	{ "munmap", ANSWERED, SYS_munmap, { 1 } },
	{ "mremap", ANSWERED, SYS_mremap, { 1, 0, 0, MREMAP_MAYMOVE } },
	{ "mremap to a place", REFUSED, SYS_mremap, { 1, 0, 0, MREMAP_MAYMOVE | MREMAP_FIXED } },
	{ "madvise huge pages", ANSWERED, SYS_madvise, { 1, 0, MADV_HUGEPAGE } },
	{ "madvise not needed", ANSWERED, SYS_madvise, { 1, 0, MADV_DONTNEED } },
	{ "madvise cold", REFUSED, SYS_madvise, { 1, 0, MADV_COLD } },
	{ "mprotect", REFUSED, SYS_mprotect, { 0, 4096, PROT_WRITE } },
	{ "brk", ANSWERED, SYS_brk, { 0 } },
	{ "sysinfo", ANSWERED, SYS_sysinfo, { 1 } },
	{ "clock_gettime", ANSWERED, SYS_clock_gettime, { -1 } },
	{ "openat", REFUSED, SYS_openat, { AT_FDCWD, (long)"/dev/null" } },
	{ "openat2", REFUSED, SYS_openat2, { AT_FDCWD } },
	{ "socket", REFUSED, SYS_socket, { AF_UNIX, SOCK_STREAM } },
	{ "connect", REFUSED, SYS_connect, { -1 } },
	{ "execve", REFUSED, SYS_execve, { (long)"/bin/true" } },
	{ "clone", REFUSED, SYS_clone, { CLONE_VM } },
	{ "clone3", REFUSED, SYS_clone3, { 0 } },
	{ "kill", REFUSED, SYS_kill, { 0 } },
	{ "ptrace", REFUSED, SYS_ptrace, { PTRACE_TRACEME } },
	{ "process_vm_readv", REFUSED, SYS_process_vm_readv, { 1 } },
	{ "prctl", REFUSED, SYS_prctl, { PR_SET_DUMPABLE, 1 } },
	{ "ioctl", REFUSED, SYS_ioctl, { 0 } },
	{ "setuid", REFUSED, SYS_setuid, { 0 } },
	{ "prlimit64", REFUSED, SYS_prlimit64, { 0 } },
	{ "io_uring_setup", REFUSED, SYS_io_uring_setup, { 1 } },
#ifdef SYS_open
	{ "open", REFUSED, SYS_open, { (long)"/dev/null" } },
	{ "fork", REFUSED, SYS_fork, { 0 } },
#endif
};

static bool is_refused(long nr, const long *a)
{
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 && errno == EPERM;
}

static void make_readers_call(pid_t parent)
{
	enter(parent);
	syscall(SYS_exit_group, is_refused(of_reader[asked].nr, of_reader[asked].args) ? 8 : 7);
}

Test(jail, of_a_reader_leaves_these_calls_and_no_others)
{
	share();
	work = MS_JAIL_READ;
	for (asked = 0; asked < sizeof(of_reader) / sizeof(of_reader[0]); asked++) {
		int status = status_of(make_readers_call);
		int expected = of_reader[asked].answer == REFUSED ? 8 : 7;

		cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == expected, "%s: %#x (%s)",
		          of_reader[asked].what, status, seen->err.text);
	}
}

static void make_readers_numbered_call(pid_t parent)
{
	static const long none[6] = { -1, -1, -1, -1, -1, -1 };

	enter(parent);
	syscall(SYS_exit_group, is_refused((long)asked, none) ? 8 : 7);
}

Test(jail, of_a_reader_has_so_many_calls_in_all)
{
	static const long allowed[] = { SYS_read,    SYS_pread64,    SYS_lseek,
		                        SYS_fstat,   SYS_write,      SYS_close,
		                        SYS_sendmsg, SYS_recvmsg,    SYS_munmap,
		                        SYS_brk,     SYS_sysinfo,    SYS_clock_gettime,
		                        SYS_exit,    SYS_exit_group, SYS_restart_syscall };

	share();
	work = MS_JAIL_READ;
	for (asked = 0; asked < NUMBERS; asked++) {
		bool expected = false;
		int status;

		if (asked == SYS_rt_sigreturn || asked == URETPROBE || asked == UPROBE)
			continue;
		for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
			expected |= allowed[i] == (long)asked;
		status = status_of(make_readers_numbered_call);
		cr_expect_eq(!WIFEXITED(status) || WEXITSTATUS(status) != 8, expected, "call %zu",
		             asked);
	}
}

/* It maps what it is given, then searches; it opens nothing by itself at any time. */
static void read_a_core(pid_t parent)
{
	struct ms_error err;
	int core = memfd_create("core", MFD_CLOEXEC);
	void *map;

	if (ftruncate(core, 4096) != 0 || dup2(core, KEPT) != KEPT)
		syscall(SYS_exit_group, 98);
	enter(parent);
	map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, KEPT, 0);
	if (map == MAP_FAILED || lseek(KEPT, 0, SEEK_CUR) != 0 ||
	    ms_jail_seal(MS_JAIL_SWEEP, &err) != MS_OK)
		syscall(SYS_exit_group, 9);
	syscall(SYS_exit_group, 7);
}

static void open_as_core_reader(pid_t parent)
{
	enter(parent);
	(void)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
}

static void map_as_sweeper(pid_t parent)
{
	struct ms_error err;

	enter(parent);
	if (ms_jail_seal(MS_JAIL_SWEEP, &err) != MS_OK)
		return;
	(void)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, KEPT, 0);
}

Test(jail, of_a_reader_of_a_core_becomes_that_of_a_sweeper)
{
	int status;

	share();
	work = MS_JAIL_READ_CORE;
	status = status_of(read_a_core);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%#x (%s)", status,
	          seen->err.text);
	cr_expect(was_killed(status_of(open_as_core_reader)));
	cr_expect(was_killed(status_of(map_as_sweeper)));
}

#ifdef __x86_64__ /* the only one of ours with several ways to call */

static void make_x32_call(pid_t parent)
{
	enter(parent);
	(void)syscall(0x40000000 | SYS_read, -1, NULL, 0);
}

Test(jail, of_a_reader_kills_at_a_call_of_another_kind)
{
	share();
	work = MS_JAIL_READ;
	cr_assert(was_killed(status_of(make_x32_call)));
}

static void call_32_bit(pid_t parent)
{
	enter(parent);
	__asm__ volatile("int $0x80" : : "a"(20) : "memory", "r8", "r9", "r10", "r11");
}

Test(jail, kills_at_a_32_bit_call)
{
	int status;

	share();
	status = status_of(call_32_bit);
	/* SIGSEGV: the kernel knows no such calls. */
	cr_assert(was_killed(status) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV), "%#x",
	          status);
}

#endif

static void *call_from_thread(void *arg)
{
	(void)arg;
	while (!atomic_load(&seen->sealed))
		;
	(void)syscall(SYS_getpid);
	syscall(SYS_exit_group, 8);
	return NULL;
}

static void seal_with_thread(pid_t parent)
{
	const struct ms_jail jail = { .parent = parent, .n_open = 1 };
	pthread_t thread;

	if (ms_jail_drop(&jail, &seen->err) ||
	    pthread_create(&thread, NULL, call_from_thread, NULL) ||
	    ms_jail_seal(MS_JAIL_SWEEP, &seen->err))
		syscall(SYS_exit_group, 99);
	atomic_store(&seen->sealed, true);
	for (;;)
		(void)syscall(SYS_read, -1, NULL, 0);
}

Test(jail, binds_threads_that_were_started_before_it_was_sealed)
{
	share();
	cr_assert(was_killed(status_of(seal_with_thread)), "%s", seen->err.text);
}

/* ---- what it is, and has ---- */

static void read_text(int fd, char *ret, size_t size)
{
	size_t n = 0;
	long got;

	while (n < size - 1 && (got = syscall(SYS_read, fd, ret + n, size - 1 - n)) > 0)
		n += (size_t)got;
	ret[n] = '\0';
}

static void look_around(pid_t parent)
{
	static const gid_t groups[] = { 1, 2 };
	static const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	/* As root. */
	(void)setgroups(2, groups);
	(void)setrlimit(RLIMIT_CORE, &unlimited);
	(void)dup2(open("/dev/null", O_RDONLY), KEPT);
	(void)dup2(KEPT, ALSO_KEPT);
	(void)dup2(KEPT, STRAY);
	(void)dup2(open("/proc/self/status", O_RDONLY), STATUS);
	(void)dup2(open("/proc/self/limits", O_RDONLY), LIMITS);
	enter(parent);
	read_text(STATUS, seen->status, sizeof(seen->status));
	read_text(LIMITS, seen->limits, sizeof(seen->limits));
	for (int i = 0; i < 64; i++)
		seen->open[i] = syscall(SYS_close, i) == 0;
}

static void expect_field(const char *key, const char *value)
{
	char line[64];
	const char *at;

	(void)snprintf(line, sizeof(line), "\n%s:", key);
	at = strstr(seen->status, line);
	cr_assert(at, "no %s", key);
	at += strlen(line);
	at += strspn(at, "\t ");
	cr_expect(strncmp(at, value, strlen(value)) == 0 &&
	                  at[strlen(value) + strspn(at + strlen(value), " ")] == '\n',
	          "%s: %.40s", key, at);
}

static void expect_limit(const char *key, const char *soft)
{
	const char *at = strstr(seen->limits, key);

	cr_assert(at, "no limit %s", key);
	at += strlen(key);
	at += strspn(at, " ");
	cr_expect(strncmp(at, soft, strlen(soft)) == 0 && at[strlen(soft)] == ' ', "%s: %.20s", key,
	          at);
}

static void expect_confined(void)
{
	static const int kept[] = { 0, 2, ALSO_KEPT, KEPT, STATUS, LIMITS };

	expect_field("CapInh", "0000000000000000");
	expect_field("CapPrm", "0000000000000000");
	expect_field("CapEff", "0000000000000000");
	expect_field("CapAmb", "0000000000000000");
	expect_field("NoNewPrivs", "1");
	expect_field("Seccomp", "2");
	expect_limit("Max core file size", "0");
	expect_limit("Max open files", "1");
	for (int i = 0; i < 64; i++) {
		bool expected = false;

		for (size_t k = 0; k < sizeof(kept) / sizeof(kept[0]); k++)
			expected |= kept[k] == i;
		cr_expect_eq(seen->open[i], expected, "descriptor %d", i);
	}
}

Test(jail, has_no_rights_left)
{
	int status;

	share();
	status = status_of(look_around);
	cr_assert(has_ended(status), "%#x %s", status, seen->err.text);
	expect_confined();
	if (geteuid() != 0)
		return;
	expect_field("Uid", "65534\t65534\t65534\t65534");
	expect_field("Gid", "65534\t65534\t65534\t65534");
	expect_field("Groups", "");
	expect_field("CapBnd", "0000000000000000");
}

static void drop_to_user(pid_t parent)
{
	if (geteuid() == 0 && (setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345)))
		syscall(SYS_exit_group, 98);
	look_around(parent);
}

Test(jail, of_a_user_keeps_its_ids)
{
	share();
	cr_assert(has_ended(status_of(drop_to_user)), "%s", seen->err.text);
	expect_confined();
	if (geteuid() == 0)
		expect_field("Uid", "12345\t12345\t12345\t12345");
}

static void be_root_of_namespace(pid_t parent)
{
	char map[32];
	int fd;

	(void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid());
	if (unshare(CLONE_NEWUSER) != 0)
		syscall(SYS_exit_group, 97);
	fd = open("/proc/self/uid_map", O_WRONLY);
	if (fd < 0 || write(fd, map, strlen(map)) < 0)
		syscall(SYS_exit_group, 98);
	look_around(parent);
}

Test(jail, of_root_of_a_namespace_without_nobody_keeps_the_id_and_no_capability)
{
	int status;

	share();
	status = status_of(be_root_of_namespace);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 97)
		cr_skip_test("no user namespaces here");
	cr_assert(has_ended(status), "%#x %s", status, seen->err.text);
	expect_confined();
	expect_field("Uid", "0\t0\t0\t0");
	expect_field("CapBnd", "0000000000000000");
}

static bool as_user;

static void look_at_dumpable(pid_t parent)
{
	const struct ms_jail jail = { .parent = parent, .n_open = 1 };

	/* A change of ids has it cleared as well. */
	if (as_user && geteuid() == 0 && setresuid(12345, 12345, 12345))
		syscall(SYS_exit_group, 98);
	(void)prctl(PR_SET_DUMPABLE, 1);
	seen->st = ms_jail_drop(&jail, &seen->err);
	seen->dumpable = prctl(PR_GET_DUMPABLE) != 0;
	seen->open[0] = prctl(PR_GET_PDEATHSIG, &seen->st) == 0 && (int)seen->st == SIGSTKFLT;
	seen->open[1] = access("/etc", F_OK) == 0 || access("../../etc", F_OK) == 0;
}

Test(jail, cannot_be_looked_at_and_ends_with_its_parent)
{
	share();
	for (int i = 0; i < 2; i++) {
		as_user = i;
		cr_assert(has_ended(status_of(look_at_dumpable)));
		cr_expect_not(seen->dumpable);
		cr_expect(seen->open[0]);
	}
}

Test(jail, of_root_has_no_files)
{
	if (geteuid() != 0)
		cr_skip_test("takes root");
	share();
	as_user = false;
	cr_assert(has_ended(status_of(look_at_dumpable)));
	cr_expect_not(seen->open[1]);
}

static void have_another_parent(pid_t parent)
{
	(void)parent;
	enter(1);
}

Test(jail, is_not_entered_when_the_parent_is_gone)
{
	share();
	cr_assert_eq(WEXITSTATUS(status_of(have_another_parent)), 99);
	cr_expect_eq(seen->st, MS_E_DIED);
}

/* ---- what it cannot do without ---- */

/* Have the kernel answer @nr, when its first argument is @arg0 or that is negative, with @error. */
static void forbid(long nr, long arg0, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)arg0, 0, (uint8_t)(arg0 < 0 ? 0 : 1)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		syscall(SYS_exit_group, 98);
}

static const struct {
	const char *what;
	long nr, arg0;
	const char *told;
	bool of_root; /* only root has it to give up */
} needed[] = {
	{ "seccomp", SYS_seccomp, -1, "system calls", false },
	{ "no new privileges", SYS_prctl, PR_SET_NO_NEW_PRIVS, "new privileges", false },
	{ "dumpable", SYS_prctl, PR_SET_DUMPABLE, "being looked at", false },
	{ "death signal", SYS_prctl, PR_SET_PDEATHSIG, "a life beyond", false },
	{ "limits", SYS_prlimit64, -1, "core dumps", false },
	{ "capget", SYS_capget, -1, "capabilities", false },
	{ "capset", SYS_capset, -1, "capabilities", true },
	{ "bounding set", SYS_prctl, PR_CAPBSET_DROP, "the bounding set", true },
	{ "tree of files", SYS_chroot, -1, "the tree of files", true },
	{ "group", SYS_setresgid, -1, "the group root", true },
	{ "user", SYS_setresuid, -1, "the user root", true },
};

static void enter_without(pid_t parent)
{
	forbid(needed[asked].nr, needed[asked].arg0, EPERM);
	enter(parent);
}

Test(jail, is_not_entered_when_anything_cannot_be_given_up)
{
	share();
	for (asked = 0; asked < sizeof(needed) / sizeof(needed[0]); asked++) {
		int status;

		if (needed[asked].of_root && geteuid() != 0)
			continue;
		memset(seen, 0, sizeof(*seen));
		status = status_of(enter_without);
		cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 99, "%s: %#x",
		          needed[asked].what, status);
		cr_expect_eq(seen->st, MS_E_SYS, "%s", needed[asked].what);
		cr_expect(strstr(seen->err.text, needed[asked].told), "%s: %s", needed[asked].what,
		          seen->err.text);
		cr_expect(strlen(seen->err.advice) > 0, "%s", needed[asked].what);
	}
}

static void look_around_without_close_range(pid_t parent)
{
	forbid(SYS_close_range, -1, ENOSYS);
	look_around(parent);
}

Test(jail, closes_descriptors_where_the_kernel_has_no_call_for_it)
{
	share();
	cr_assert(has_ended(status_of(look_around_without_close_range)), "%s", seen->err.text);
	expect_confined();
}
