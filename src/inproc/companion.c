/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library finds errno, its canary and more by the thread pointer, so a process of
 * its own needs a thread control block of its own:
 *
 *	               tp
 *	├── static TLS ┼── struct pthread ──┤     a copy of the starting thread's
 *
 * (On some machines it is the other way round: control/.) How much static TLS there is is the
 * same for all threads, and the dynamic linker knows it (dl_iterate_phdr). What would need more
 * than such a copy, a lock that notes its owner, or TLS of libraries loaded later, is not used in
 * there.
 */
#include "inproc/companion.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/follow.h"
#include "base/page.h"
#include "base/syscalls.h"
#include "inproc/control/control.h"
#include "target/collection.h"
#include "target/proc.h"

enum {
	STACK_BYTES = 512 * 1024,
	SMALL_STACK_BYTES = 16 * 1024,
	MAX_TLS_BYTES = 1024 * 1024,
	TLS_ALIGN = 64,
	MESSAGES_FD = 2, /* the only descriptor that is kept */
	WAIT_S = 1,
	WAITS_TO_BEGIN = 10,
};

/*
 * The memory of a process:
 *
 *	│ guard │ stack │ guard │ small stack │ TLS, thread │ struct ms_companion │ ctx │
 */
struct layout {
	size_t reach; /* of TLS, from the thread pointer */
	size_t stack; /* where it begins */
	size_t small_stack;
	size_t thread; /* where the thread pointer points */
	size_t process;
	size_t ctx;
	size_t len;
};

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* How far the TLS of any module reaches. */
static int measure_tls(struct dl_phdr_info *info, size_t size, void *ctx)
{
	size_t *most = ctx;
	size_t reach = size >= sizeof(*info) ? ms_control_reach(info) : 0;

	if (reach < MAX_TLS_BYTES && reach > *most)
		*most = reach;
	return 0;
}

static struct layout lay_out(size_t reach, size_t ctx_bytes)
{
	struct layout l = { .reach = round_up(reach, TLS_ALIGN) };
	const struct ms_control_room room = ms_control_room(l.reach);

	l.stack = ms_page_bytes();
	l.small_stack = l.stack + STACK_BYTES + ms_page_bytes();
	l.thread = l.small_stack + SMALL_STACK_BYTES + room.below;
	l.process = l.thread + room.above;
	l.ctx = l.process + round_up(sizeof(struct ms_companion), TLS_ALIGN);
	l.len = round_up(l.ctx + ctx_bytes, ms_page_bytes());
	return l;
}

/*
 * Asked for once, and early: another thread may hold the dynamic linker's lock for as long as it
 * likes, and in a child that is forked meanwhile that lock is never given back.
 */
size_t ms_companion_tls_reach(void)
{
	static size_t bytes;
	size_t most = __atomic_load_n(&bytes, __ATOMIC_RELAXED);

	if (most)
		return most;
	(void)dl_iterate_phdr(measure_tls, &most);
	__atomic_store_n(&bytes, most, __ATOMIC_RELAXED);
	return most;
}

__attribute__((constructor)) static void measure_early(void)
{
	(void)ms_companion_tls_reach();
}

struct ms_companion *ms_companion_new(size_t bytes, void (*body)(void *ctx))
{
	struct ms_companion *process;
	struct layout l = lay_out(ms_companion_tls_reach(), bytes);
	char *memory;

	memory = mmap(NULL, l.len, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	(void)mprotect(memory, ms_page_bytes(), PROT_NONE);
	(void)mprotect(memory + l.small_stack - ms_page_bytes(), ms_page_bytes(), PROT_NONE);
	process = (struct ms_companion *)(void *)(memory + l.process);
	process->memory = (struct ms_range){ (uintptr_t)memory, (uintptr_t)memory + l.len };
	process->body = body;
	process->ctx = memory + l.ctx;
	return process;
}

void ms_companion_free(struct ms_companion *process)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of ours */
	(void)munmap((void *)(uintptr_t)process->memory.begin, ms_range_len(process->memory));
}

static char *place(const struct ms_companion *process, size_t offset)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of ours */
	return (char *)(uintptr_t)process->memory.begin + offset;
}

static struct layout layout_of(const struct ms_companion *process)
{
	const struct layout without = lay_out(0, 0);
	size_t at = (uintptr_t)process - (uintptr_t)process->memory.begin;

	return lay_out(at - without.process, 0);
}

/* ---- in the new process ---- */

/* Before Linux 5.9. The limit of numbers says nothing of how many there are: it may be infinite. */
static void drop_each_descriptor(void)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list = { .fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY),
		                     .buf = buf };
	int32_t fd;

	if (list.fd < 0)
		return;
	/* The kernel lists from a number on, whichever are closed meanwhile. */
	while (ms_proc_list_next(&list, &fd))
		if (fd > MESSAGES_FD && fd != list.fd)
			(void)close(fd);
	ms_proc_list_close(&list);
}

static void drop_descriptors(void)
{
	(void)close(0);
	(void)close(1);
	if (syscall(SYS_close_range, MESSAGES_FD + 1, UINT_MAX, 0))
		drop_each_descriptor();
}

/*
 * No socket or file of ours may become number 1 or 2: a message would go there, and a
 * program that is started would lose its output. Nothing can be read or written here.
 */
static void occupy_standard_descriptors(void)
{
	int fd;

	do {
		fd = open("/", O_PATH | O_CLOEXEC);
	} while (fd >= 0 && fd <= MESSAGES_FD);
	if (fd >= 0)
		(void)close(fd);
}

static void futex_wait(uint32_t *word, uint32_t value)
{
	const struct timespec span = { WAIT_S, 0 };

	/* Not FUTEX_PRIVATE: the kernel's own wake at the end of a process is none. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &span, NULL, 0);
}

/* With status 0: an orphan's adopter may take anything else for a crash of its own children. */
static void end_at_once(int signal)
{
	(void)signal;
	(void)syscall(SYS_exit_group, 0);
}

/*
 * Linux before 5.16 ends every process that shares the memory of one that dumps core,
 * whatever the limit of the core's size: ours may fail, but not so.
 */
static void never_dump_core(struct ms_companion *process)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT };
	const struct layout l = layout_of(process);
	const stack_t stack = { .ss_sp = place(process, l.small_stack),
		                .ss_size = SMALL_STACK_BYTES };
	struct sigaction act = { .sa_handler = end_at_once, .sa_flags = SA_ONSTACK };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		(void)sigaction(fatal[i], &act, NULL);
		(void)sigaddset(&set, fatal[i]);
	}
	/* A blocked signal of these ends a process as if there were no handler. */
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/*
 * False when the program ended before it said so. An orphan hears it within moments; it
 * cannot see the end of a program that is not waited for.
 */
static bool may_begin(struct ms_companion *process)
{
	for (int i = 0; !__atomic_load_n(&process->go, __ATOMIC_ACQUIRE); i++) {
		if (process->orphan ? i == WAITS_TO_BEGIN : getppid() != process->program)
			return false;
		futex_wait(&process->go, 0);
	}
	return true;
}

static int live(void *arg)
{
	struct ms_companion *process = arg;

	ms_collection_set_signals();
	never_dump_core(process);
	drop_descriptors();
	if (!process->orphan && !ms_follow_parent(process->program))
		return 0;
	if (!may_begin(process))
		return 0;
	(void)setsid();
	occupy_standard_descriptors();
	process->body(process->ctx);
	return 0;
}

/* ---- in the program ---- */

/* Returns its number, or -1. */
static pid_t make(struct ms_companion *process)
{
	const struct layout l = layout_of(process);
	const struct ms_control_clone how = {
		.flags = CLONE_VM | CLONE_SETTLS | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID,
		.stack = place(process, l.stack + STACK_BYTES),
		.tp = place(process, l.thread),
		.tid = &process->lives,
	};

	ms_control_copy(place(process, l.thread), l.reach);
	return ms_control_clone(live, process, &how);
}

/* Be the parent that is gone when its child goes on: init adopts that. */
static int be_parent(void *arg)
{
	struct ms_companion *process = arg;

	process->pid = make(process);
	return 0;
}

/*
 * From here on nothing is a point where a thread can be cancelled, as the C library's own
 * wait4() and usleep() are: a handler may have interrupted malloc with its lock held.
 */
static void reap(pid_t pid)
{
	while (syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
		;
}

static void make_orphan(struct ms_companion *process)
{
	const struct layout l = layout_of(process);
	pid_t parent;

	process->pid = -1;
	/* The parent runs to its end before this goes on, and uses errno as we would. */
	parent = clone(be_parent, place(process, l.small_stack + SMALL_STACK_BYTES),
	               CLONE_VM | CLONE_VFORK, process);
	if (parent > 0)
		reap(parent);
}

int ms_companion_begin(struct ms_companion *process)
{
	uint64_t before = ms_companion_block_signals();
	int error;

	process->program = getpid();
	process->go = 0;
	errno = 0;
	if (process->orphan)
		make_orphan(process);
	else
		process->pid = make(process);
	error = process->pid < 0 ? errno : 0;
	if (process->pid < 0)
		process->lives = 0;
	ms_companion_restore_signals(before);
	if (process->pid < 0)
		return error ? error : EAGAIN;
	/* Fails where there is no Yama, and is not needed there. */
	(void)prctl(PR_SET_PTRACER, (unsigned long)process->pid, 0, 0, 0);
	__atomic_store_n(&process->go, 1, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, &process->go, FUTEX_WAKE, 1, NULL, NULL, 0);
	return 0;
}

enum ms_status ms_companion_start(struct ms_companion *process, struct ms_error *err)
{
	int error = ms_companion_begin(process);

	return error ? ms_fail_sys(err, error, "cannot start the collection process") : MS_OK;
}

uint64_t ms_companion_block_signals(void)
{
	const uint64_t all = UINT64_MAX;
	uint64_t before = 0;

	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	return before;
}

void ms_companion_restore_signals(uint64_t before)
{
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

bool ms_companion_lives(const struct ms_companion *process)
{
	return __atomic_load_n(&process->lives, __ATOMIC_ACQUIRE);
}

bool ms_companion_wait(struct ms_companion *process)
{
	uint32_t pid = __atomic_load_n(&process->lives, __ATOMIC_ACQUIRE);

	if (pid)
		futex_wait(&process->lives, pid);
	return !ms_companion_lives(process);
}

void ms_companion_join(struct ms_companion *process)
{
	while (!ms_companion_wait(process))
		;
	reap(process->pid);
}
