/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Processes that cannot, or must not, be cloned: `refuse SCENARIO`, `refuse list`;
 * see truth.h. A system call too many kills some of them.
 *
 * All lose a few blocks and keep others, so that the answer can be checked whichever
 * way their memory was held still.
 */
#include "truth.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A user of nobody's, so that the limit counts this process alone. */
enum { LONELY_USER = 64321, PAGE = 4096, BIG = 16 * PAGE };

void *volatile kept[64];

/* The other half of a pair that is kept, so that blocks point at each other in both. */
static void make_some(void)
{
	for (unsigned i = 0; i < 32; i++) {
		kept[i] = fresh(24 + 40 * i);
		leak(24 + 40 * i);
	}
}

static void die(const char *what)
{
	perror(what);
	_exit(97);
}

static void check(int right, const char *what)
{
	if (!right)
		die(what);
}

/*
 * READY, and the end: by read() alone, for some may not call more, and without a clock,
 * which may be unmapped.
 */
static void wait_by_read(void)
{
	char byte;

	forget();
	say_text("READY\n");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void plain(void)
{
	make_some();
}

/* ---- limits ---- */

static void become_lonely(rlim_t processes)
{
	struct rlimit limit = { processes, processes };

	check(!setrlimit(RLIMIT_NPROC, &limit), "setrlimit");
	check(!setgroups(0, NULL) && !setresgid(LONELY_USER, LONELY_USER, LONELY_USER) &&
	              !setresuid(LONELY_USER, LONELY_USER, LONELY_USER),
	      "to become another user");
	make_some();
}

static void nproc_1(void)
{
	become_lonely(1);
}

/* Room for one more, but not for two. */
static void nproc_2(void)
{
	become_lonely(2);
}

static void committed(void)
{
	const char *bytes = getenv("REFUSE_BYTES");
	size_t len = bytes ? strtoull(bytes, NULL, 10) : BIG;

	make_some();
	check(mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	              MAP_FAILED,
	      "mmap");
}

/* ---- seccomp ---- */

static void filter(int number, uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

#define ANSWERS_CLONE(name, action)                      \
	static void clone_##name(void)                   \
	{                                                \
		make_some();                             \
		filter(SYS_clone, SECCOMP_RET_##action); \
	}

ANSWERS_CLONE(kill_process, KILL_PROCESS)
ANSWERS_CLONE(kill_thread, KILL_THREAD)
ANSWERS_CLONE(trap, TRAP)
ANSWERS_CLONE(errno, ERRNO | EPERM)
ANSWERS_CLONE(trace, TRACE)
ANSWERS_CLONE(user_notif, USER_NOTIF)
ANSWERS_CLONE(log, LOG)
ANSWERS_CLONE(allow, ALLOW)

#define DIES_OF(name)                                         \
	static void dies_of_##name(void)                      \
	{                                                     \
		make_some();                                  \
		filter(SYS_##name, SECCOMP_RET_KILL_PROCESS); \
	}

DIES_OF(wait4)
DIES_OF(exit)
DIES_OF(close_range)
DIES_OF(rt_sigreturn)

/* prctl() installs the filter, and is forbidden from then on. */
static void dies_of_prctl(void)
{
	make_some();
	filter(SYS_prctl, SECCOMP_RET_KILL_PROCESS);
}

static void *sit_filtered(void *arg)
{
	filter(SYS_clone, SECCOMP_RET_KILL_PROCESS);
	*(volatile int *)arg = 1;
	for (;;)
		(void)pause();
}

/* The first thread has no filter, the second would die. */
static void one_thread_filtered(void)
{
	static volatile int filtered;
	pthread_t thread;

	check(!pthread_create(&thread, NULL, sit_filtered, (void *)&filtered), "pthread_create");
	while (!filtered)
		(void)usleep(1000);
	make_some();
}

static void strict(void)
{
	make_some();
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), "strict mode");
	wait_by_read();
	/* exit_group() is forbidden */
	syscall(SYS_exit, 0);
}

/* ---- calls that are handed to the program itself ---- */

#if defined(__x86_64__)
extern char __executable_start[], etext[];

static long call(long number, long a, long b, long c)
{
	__asm__ volatile("syscall"
	                 : "+a"(number)
	                 : "D"(a), "S"(b), "d"(c)
	                 : "rcx", "r11", "memory");
	return number;
}

/* As emulators have it: a system call from anywhere else is a SIGSYS. */
static void dispatched(void)
{
	static char blocks = 1; /* SYSCALL_DISPATCH_FILTER_BLOCK */
	static char byte;

	make_some();
	forget();
	check(!prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, __executable_start,
	             etext - __executable_start, &blocks),
	      "syscall user dispatch");
	call(SYS_write, STDOUT_FILENO, (long)"READY\n", 6);
	while (call(SYS_read, STDIN_FILENO, (long)&byte, 1) > 0)
		;
	call(SYS_exit_group, 0, 0, 0);
}

static void end_by_call(int signal)
{
	(void)signal;
	call(SYS_exit_group, 98, 0, 0);
}

static void dispatched_handled(void)
{
	check(signal(SIGSYS, end_by_call) != SIG_ERR, "signal");
	dispatched();
}

/* As runtimes that handle every signal. */
static void handles_sigsys(void)
{
	check(signal(SIGSYS, end_by_call) != SIG_ERR, "signal");
	make_some();
}
#endif

/* ---- who inherits orphans ---- */

/* In a child which is the first of a new pid namespace; the parent waits for it. */
static void in_namespace(void (*make)(void))
{
	int fds[2], status;
	pid_t pid;
	char byte = 0;

	check(!pipe2(fds, O_CLOEXEC) && !unshare(CLONE_NEWPID), "a pid namespace");
	pid = fork();
	check(pid >= 0, "fork");
	if (!pid) {
		check(read(fds[0], &byte, 1) == 1, "read");
		make();
		wait_by_read();
		_exit(0);
	}
	tell_pid(pid);
	check(write(fds[1], &byte, 1) == 1 && waitpid(pid, &status, 0) == pid, "waitpid");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 96);
}

static void namespace_init(void)
{
	in_namespace(make_some);
}

static void subreaper(void)
{
	check(!prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper");
	make_some();
}

/* ---- memory that a child does not get ---- */

static void *pages_with(int advice)
{
	void **page = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(page != MAP_FAILED && !madvise(page, BIG, advice), "madvise");
	page[PAGE / sizeof(void *)] = fresh(100);
	tell("live", page[PAGE / sizeof(void *)]);
	return page;
}

static void dontfork(void)
{
	kept[63] = pages_with(MADV_DONTFORK);
	make_some();
}

static void wipeonfork(void)
{
	kept[63] = pages_with(MADV_WIPEONFORK);
	make_some();
}

/* The middle of a block of the heap, and with it what that holds. */
NOINLINE static void advise_heap(int advice)
{
	char *block = fresh(BIG);
	void **page = (void **)(((uintptr_t)block + 2 * PAGE - 1) & ~(uintptr_t)(PAGE - 1));

	*page = fresh(100);
	tell("live", *page);
	check(!madvise(page, BIG / 2, advice), "madvise");
	kept[63] = block;
}

static void dontfork_in_heap(void)
{
	advise_heap(MADV_DONTFORK);
	make_some();
}

/* Lost blocks in such pages are as lost as others. */
static void wipeonfork_in_heap(void)
{
	advise_heap(MADV_WIPEONFORK);
	make_some();
}

/* ---- no vdso ---- */

static void no_vdso(void)
{
	unsigned long begin, end;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	check(maps != NULL, "maps");
	make_some();
	/* the first unmapping may take the second's line with it, but no other */
	while (fgets(line, sizeof(line), maps))
		if ((strstr(line, "[vdso]") || strstr(line, "[vvar")) &&
		    sscanf(line, "%lx-%lx", &begin, &end) == 2)
			check(!munmap((char *)NULL + begin, end - begin), "munmap");
	fclose(maps);
}

static const struct scenario all[] = {
	{ "plain", plain, 0 },
	{ "nproc_1", nproc_1, 0 },
	{ "nproc_2", nproc_2, 0 },
	{ "committed", committed, 0 },
	{ "clone_kill_process", clone_kill_process, 0 },
	{ "clone_kill_thread", clone_kill_thread, 0 },
	{ "clone_trap", clone_trap, 0 },
	{ "clone_errno", clone_errno, 0 },
	{ "clone_trace", clone_trace, 0 },
	{ "clone_user_notif", clone_user_notif, 0 },
	{ "clone_log", clone_log, 0 },
	{ "clone_allow", clone_allow, 0 },
	{ "dies_of_prctl", dies_of_prctl, 0 },
	{ "dies_of_wait4", dies_of_wait4, 0 },
	{ "dies_of_exit", dies_of_exit, 0 },
	{ "dies_of_close_range", dies_of_close_range, 0 },
	{ "dies_of_rt_sigreturn", dies_of_rt_sigreturn, 0 },
	{ "one_thread_filtered", one_thread_filtered, 0 },
	{ "strict", strict, 0 },
#if defined(__x86_64__)
	{ "dispatched", dispatched, 0 },
	{ "dispatched_handled", dispatched_handled, 0 },
	{ "handles_sigsys", handles_sigsys, 0 },
#endif
	{ "namespace_init", namespace_init, 0 },
	{ "subreaper", subreaper, 0 },
	{ "dontfork", dontfork, 0 },
	{ "wipeonfork", wipeonfork, 0 },
	{ "dontfork_in_heap", dontfork_in_heap, 0 },
	{ "wipeonfork_in_heap", wipeonfork_in_heap, 0 },
	{ "no_vdso", no_vdso, 0 },
};

/* Not run_scenario(): its end needs calls that some may not make. */
int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(argv[1], "list"))
			puts(all[i].name);
		if (strcmp(argv[1], all[i].name) != 0)
			continue;
		all[i].make();
		wait_by_read();
		_exit(0);
	}
	return argc > 1 && !strcmp(argv[1], "list") ? 0 : 2;
}
