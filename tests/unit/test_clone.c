/* SPDX-License-Identifier: Apache-2.0 */
/* A copy-on-write clone of a frozen child, and what the child notices of it. lsan: off */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "held.h"
#include "older.h"
#include "sanitized.h"
#include "source_suite.h"
#include "target/proc.h"

enum { PAGE = SOURCE_SUITE_PAGE, SAMPLE_PAGES = 300, PATIENCE_MS = 2000 };

/* Between a test and its child. */
struct shared {
	unsigned char *at;
	volatile unsigned char byte; /* in shared memory */
	volatile int go;
	volatile int done;
	volatile int interrupted;
	volatile int signals;
	volatile int children;
	volatile unsigned long rounds;
	volatile int wrong;
	volatile int strangers;
	volatile pid_t target;
};

static struct shared *shared;
static struct held held;
static struct ms_source *source;
static int ends[2]; /* a pipe, made before the child */

static void setup(void)
{
	shared = child_memory(sizeof(*shared));
	if (pipe2(ends, O_CLOEXEC))
		abort();
}

TestSuite(clone, .init = setup, .timeout = 60);

static ms_addr addr_of(const volatile void *pointer)
{
	return (uintptr_t)pointer;
}

static unsigned char byte_at(const volatile void *pointer)
{
	unsigned char byte = 0xee;

	cr_assert_eq(ms_source_read(source, addr_of(pointer), &byte, 1), 1);
	return byte;
}

static pid_t hold(void (*body)(void *arg))
{
	pid_t pid = child_start(body, NULL);

	cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
	return pid;
}

static void let_go(pid_t pid)
{
	pid_t image = held.shared->image;
	source->ops->close(source);
	held_end(&held);
	cr_expect_eq(held.exit_status, 0);
	cr_expect_eq(ms_proc_state(image), 'X', "the image is in state %c", ms_proc_state(image));
	cr_expect(!strchr("XZTt", ms_proc_state(pid)), "the target is in state %c",
	          ms_proc_state(pid));
	child_end(pid);
}

/* Just let go, it may still be on its way back to sleep. */
static bool sleeps(pid_t pid)
{
	for (int i = 0; i < PATIENCE_MS && ms_proc_state(pid) != 'S'; i++)
		usleep(1000);
	return ms_proc_state(pid) == 'S';
}

static void sleep_for_ever(void)
{
	child_ready();
	for (;;)
		pause();
}

static void make_sample(void *arg)
{
	(void)arg;
	shared->at = source_suite_map(SAMPLE_PAGES * PAGE);
	sleep_for_ever();
}

Test(clone, is_a_source)
{
	static unsigned char bytes[SAMPLE_PAGES * PAGE];
	pid_t pid = hold(make_sample);
	struct source_sample sample = { addr_of(shared->at), sizeof(bytes), bytes, PAGE };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = source_suite_byte(i);
	cr_expect_str_eq(source->ops->name, "fork");
	source_suite_run(source, &sample);
	cr_expect_null(ms_source_view(source, sample.filled, PAGE));
	cr_expect_eq(ms_source_read(source, sample.filled, bytes, sizeof(bytes)), sizeof(bytes));
	cr_expect_geq(ms_fork_bytes(source), sizeof(bytes));
	cr_expect(ms_source_is_whole(source));
	cr_expect_eq(source->threads.n, 1);
	cr_expect_eq(source->threads.at[0].tid, pid);
	cr_expect_eq(held.warnings.n, 0, "%s", held.warnings.at[0].text);
	let_go(pid);
}

static void change_after(void *arg)
{
	(void)arg;
	shared->at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared->at[0] = 1;
	shared->byte = 1;
	child_ready();
	while (!shared->go)
		usleep(1000);
	shared->at[0] = 2;
	shared->byte = 2;
	shared->done = 1;
	for (;;)
		pause();
}

Test(clone, shows_memory_as_it_was)
{
	pid_t pid = hold(change_after);

	shared->go = 1;
	cr_assert(child_waits_for(&shared->done));
	cr_expect_eq(byte_at(shared->at), 1);
	cr_expect_eq(byte_at(&shared->byte), 1, "shared memory is not as it was");
	let_go(pid);
}

static void keep_from_forks(void *arg)
{
	(void)arg;
	shared->at =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)madvise(shared->at + PAGE, 2 * PAGE, MADV_DONTFORK);
	memset(shared->at, 7, PAGE);
	memset(shared->at + PAGE, 8, PAGE);
	memset(shared->at + 3 * PAGE, 9, PAGE);
	sleep_for_ever();
}

Test(clone, has_memory_that_is_kept_from_forks)
{
	pid_t pid = hold(keep_from_forks);
	struct ms_range all = { addr_of(shared->at), addr_of(shared->at) + 4 * PAGE };
	struct ms_range run;

	cr_expect_eq(byte_at(shared->at), 7);
	cr_expect_eq(byte_at(shared->at + PAGE), 8);
	cr_expect_eq(byte_at(shared->at + 2 * PAGE), 0);
	cr_expect_eq(byte_at(shared->at + 3 * PAGE), 9);
	cr_assert(ms_source_present(source, all, &run));
	cr_expect_eq(run.begin, all.begin);
	/* Where the kernel has no PAGEMAP_SCAN, the third has become a page of zeros by being
	 * copied. */
	cr_expect(run.end == all.begin + 2 * PAGE || run.end == all.end, "%lld pages",
	          (long long)(run.end - all.begin) / PAGE);
	cr_assert_eq(held.warnings.n, 1);
	cr_expect(strstr(held.warnings.at[0].text, "MADV_DONTFORK"));
	let_go(pid);
}

static void keep_much_from_forks(void *arg)
{
	const size_t much = (size_t)65 << 20;

	(void)arg;
	shared->at = mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)madvise(shared->at, much, MADV_DONTFORK);
	memset(shared->at, 1, much);
	sleep_for_ever();
}

Test(clone, is_refused_where_much_is_kept_from_it)
{
	pid_t pid = child_start(keep_much_from_forks, NULL);

	cr_expect_eq(held_fork(&held, pid, &source), MS_E_UNSUPPORTED);
	cr_expect(strstr(held.err.text, "MADV_DONTFORK"), "%s", held.err.text);
	child_end(pid);
}

static void keep_wiped(void *arg)
{
	(void)arg;
	shared->at =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)madvise(shared->at + PAGE, PAGE, MADV_WIPEONFORK);
	memset(shared->at, 3, 2 * PAGE);
	sleep_for_ever();
}

Test(clone, has_memory_that_forks_find_wiped)
{
	pid_t pid = hold(keep_wiped);

	cr_expect_eq(byte_at(shared->at), 3);
	cr_expect_eq(byte_at(shared->at + PAGE), 3);
	cr_expect_eq(byte_at(shared->at + 2 * PAGE), 0);
	let_go(pid);
}

static void count_signal(int signal)
{
	(void)signal;
	shared->signals++;
}

/* Sleep in one call throughout, then look for children and signals. */
static void sleep_once(void *arg)
{
	struct sigaction act = { .sa_handler = count_signal };
	struct timespec span = { 0, 700 * 1000 * 1000 };

	(void)arg;
	for (int i = 1; i < NSIG; i++)
		(void)sigaction(i, &act, NULL);
	child_ready();
	shared->interrupted = nanosleep(&span, NULL) != 0;
	shared->children = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
	shared->done = 1;
	for (;;)
		pause();
}

Test(clone, is_not_noticed_by_a_sleeper)
{
	pid_t pid = hold(sleep_once);

	cr_expect_eq(shared->done, 0, "the sleep ended before the clone was made");
	cr_assert(child_waits_for(&shared->done));
	cr_expect_eq(shared->interrupted, 0);
	cr_expect_eq(shared->signals, 0);
	cr_expect_eq(shared->children, 0);
	let_go(pid);
}

/* Work with all kinds of registers, and never call the kernel. */
static void compute(void *arg)
{
	child_ready();
	for (;;) {
		double x = 1.0;
		long double y = 1.0L;
		unsigned long z = 1;

		for (int i = 0; i < 1000; i++) {
			x = x * 1.0000001 + 0.5;
			y = y * 1.0000001L + 0.5L;
			z = z * 6364136223846793005UL + 1442695040888963407UL;
		}
		if (!shared->rounds++) {
			((double *)arg)[0] = x;
			((double *)arg)[1] = (double)y;
			((unsigned long *)arg)[2] = z;
		}
		shared->wrong |= x != ((double *)arg)[0] || (double)y != ((double *)arg)[1] ||
		                 z != ((unsigned long *)arg)[2];
	}
}

Test(clone, does_not_disturb_computing)
{
	double sums[3];
	pid_t pid = child_start(compute, sums);

	for (int i = 0; i < 20; i++) {
		unsigned long before;

		cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
		source->ops->close(source);
		held_end(&held);
		before = shared->rounds;
		for (int wait = 0; wait < PATIENCE_MS && shared->rounds == before; wait++)
			usleep(1000);
		cr_assert_neq(shared->rounds, before, "it stands still");
	}
	cr_expect_eq(shared->wrong, 0);
	child_end(pid);
}

/* Nearly always inside malloc, and never in the kernel; a clone finds its page wiped. */
static void allocate(void *arg)
{
	volatile char *self =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	(void)madvise((void *)(uintptr_t)self, PAGE, MADV_WIPEONFORK);
	*self = 1;
	child_ready();
	for (size_t i = 0;; i++) {
		char *volatile block = calloc(1, 100 + i * 997 % 4000);

		shared->strangers += !*self;
		block = realloc(block, 50 + i * 991 % 5000);
		shared->strangers += !*self;
		free(block);
	}
}

Test(clone, finishes_malloc_and_runs_nothing_of_the_program)
{
	pid_t pid = child_start(allocate, NULL);
	unsigned inside = 0;

	/* Sanitized, each copies the page tables of all shadow. */
	for (int i = 0; i < (SANITIZED ? 10 : 40); i++) {
		cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
		inside += held.shared->n_inside;
		cr_expect_eq(held.shared->n_unrolled, 0);
		cr_expect_neq(ms_proc_state(held.shared->image), 'R');
		source->ops->close(source);
		held_end(&held);
	}
	cr_expect(inside || SANITIZED, "it was never caught inside malloc");
	cr_expect_eq(shared->strangers, 0);
	child_end(pid);
}

static void close_end(void *arg)
{
	(void)arg;
	child_ready();
	while (!shared->go)
		usleep(1000);
	(void)close(ends[1]);
	for (;;)
		pause();
}

Test(clone, holds_no_file_open)
{
	struct pollfd end = { .fd = ends[0] };
	pid_t pid = child_start(close_end, NULL);

	/* Before the collection process inherits it. */
	(void)close(ends[1]);
	cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
	shared->go = 1;
	cr_expect_eq(poll(&end, 1, PATIENCE_MS), 1, "the pipe's other end is still open");
	cr_expect(end.revents & POLLHUP);
	let_go(pid);
}

/* Whether process @pid has a file open. */
static bool has_files(pid_t pid)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	int32_t fd;
	bool any;

	cr_assert_eq(ms_proc_list_open(&list, pid, "fd", buf), 0);
	any = ms_proc_list_next(&list, &fd);
	ms_proc_list_close(&list);
	return any;
}

/* ---- on older kernels ---- */

Test(clone, holds_no_file_open_where_they_are_closed_one_by_one)
{
	struct pollfd end = { .fd = ends[0] };
	pid_t pid = child_start(close_end, NULL);

	(void)close(ends[1]);
	cr_assert_eq(older_refuse(504), 0);
	cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
	cr_expect(has_files(pid));
	cr_expect_not(has_files(held.shared->image));
	shared->go = 1;
	cr_expect_eq(poll(&end, 1, PATIENCE_MS), 1, "the pipe's other end is still open");
	cr_expect(end.revents & POLLHUP);
	let_go(pid);
}

static void open_many(void *arg)
{
	int *n = arg;

	for (int i = 0; i < *n; i++)
		if (dup(ends[0]) < 0)
			_exit(1);
	sleep_for_ever();
}

Test(clone, is_refused_before_the_freeze_where_too_many_would_be_closed_one_by_one)
{
	struct ms_error err = { 0 };
	struct rlimit limit;
	int many = 4200;
	uint64_t least;
	pid_t pid;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max < (rlim_t)many + 100)
		cr_skip_test("so many files are not allowed");
	pid = child_start(open_many, &many);
	cr_expect_eq(ms_fork_check(pid, &least, &err), MS_OK, "%s", err.text);
	cr_assert_eq(older_refuse(504), 0);
	cr_expect_eq(ms_fork_check(pid, &least, &err), MS_E_UNSUPPORTED);
	cr_expect(strstr(err.text, "more than 4096 files"), "%s", err.text);
	child_end(pid);
}

static void take_sigsys(int signal)
{
	(void)signal;
}

static void handle_sigsys(void *arg)
{
	(void)arg;
	(void)signal(SIGSYS, take_sigsys);
	sleep_for_ever();
}

static void ignore_sigsys(void *arg)
{
	(void)arg;
	(void)signal(SIGSYS, SIG_IGN);
	sleep_for_ever();
}

/* That release is refused a clone, for a reason with @text. */
static void expect_refused(unsigned release, void (*body)(void *arg), const char *text)
{
	pid_t pid = child_start(body, NULL);

	cr_assert_eq(older_refuse(release), 0);
	cr_assert_eq(held_freeze_to_clone(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held_clone(&held), MS_E_UNSUPPORTED);
	cr_expect(strstr(held.err.text, text), "%s", held.err.text);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
}

/* The kernel does not say whether calls are dispatched. */
Test(clone, is_refused_by_a_handler_of_dispatched_calls_perhaps)
{
	expect_refused(601, handle_sigsys, "handles SIGSYS");
}

Test(clone, is_refused_where_no_handler_could_get_dispatched_calls)
{
	expect_refused(601, ignore_sigsys, "handles SIGSYS");
}

static void expect_cloned(unsigned release, void (*body)(void *arg))
{
	pid_t pid = child_start(body, NULL);

	cr_assert_eq(older_refuse(release), 0);
	cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
	let_go(pid);
}

Test(clone, is_made_by_a_handler_of_sigsys_where_the_kernel_dispatches_none)
{
	expect_cloned(510, handle_sigsys);
}

Test(clone, is_made_by_a_program_that_does_not_handle_sigsys)
{
	expect_cloned(601, make_sample);
}

static void count_rounds(void *arg)
{
	(void)arg;
	child_ready();
	for (;;)
		shared->rounds++;
}

/* The kernel does not say whether a thread is in a restartable sequence. */
Test(clone, is_refused_by_a_thread_that_computes_before_5_13)
{
	expect_refused(512, count_rounds, "before Linux 5.13");
}

Test(clone, is_made_by_a_thread_that_sleeps_before_5_13)
{
	expect_cloned(512, make_sample);
}

Test(clone, is_made_by_a_thread_that_computes)
{
	expect_cloned(513, count_rounds);
}

/* As a server's master: count each child that ends, and each signal of it. */
static void adopt(void *arg)
{
	struct sigaction act = { .sa_handler = count_signal };

	(void)arg;
	(void)sigaction(SIGCHLD, &act, NULL);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	child_ready();
	while (!shared->go) {
		usleep(200);
		shared->children += waitpid(-1, NULL, WNOHANG) > 0;
	}
	shared->children += waitpid(-1, NULL, __WALL | WNOHANG) >= 0 || errno != ECHILD;
	shared->done = 1;
	for (;;)
		pause();
}

Test(clone, is_not_noticed_by_who_adopts_orphans)
{
	pid_t pid = hold(adopt);

	cr_expect_str_eq(source->ops->name, "fork");
	let_go(pid);
}

Test(clone, leaves_no_child_behind)
{
	pid_t pid = hold(adopt);

	source->ops->close(source);
	held_end(&held);
	shared->go = 1;
	cr_assert(child_waits_for(&shared->done));
	cr_expect_eq(shared->children, 0);
	cr_expect_eq(shared->signals, 0);
	child_end(pid);
}

/* A parent that adopts the orphans of its child, which is the target. */
static void be_parent(void *arg)
{
	pid_t own = fork();

	(void)arg;
	if (!own)
		sleep_for_ever();
	shared->target = own;
	adopt(NULL);
}

static pid_t start_with_parent(pid_t *ret)
{
	pid_t parent = child_start(be_parent, NULL);

	while (!shared->target)
		usleep(1000);
	while (ms_proc_state(shared->target) != 'S')
		usleep(1000);
	*ret = shared->target;
	return parent;
}

Test(clone, is_not_noticed_by_the_parent_when_its_maker_is_killed)
{
	pid_t pid;
	pid_t parent = start_with_parent(&pid);
	pid_t image;

	cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
	image = held.shared->child;
	cr_assert_gt(image, 0);
	(void)kill(held.collection, SIGKILL);
	(void)waitpid(held.collection, NULL, 0);
	for (int i = 0; i < PATIENCE_MS && ms_proc_state(image) != 'Z'; i++)
		usleep(1000);
	/* It ended by itself, and is the target's alone. */
	cr_expect_eq(ms_proc_state(image), 'Z', "the image is in state %c", ms_proc_state(image));
	held.collection = fork();
	if (!held.collection)
		_exit(ms_collection_reap(held.shared));
	(void)waitpid(held.collection, NULL, 0);
	cr_expect_eq(ms_proc_state(image), 'X', "the image is in state %c", ms_proc_state(image));
	(void)kill(pid, SIGKILL);
	shared->go = 1;
	cr_assert(child_waits_for(&shared->done));
	cr_expect_leq(shared->children, 1, "the parent saw %d children end", shared->children);
	child_end(parent);
}

/* Mark all that a signal could overwrite, and wait. */
static void mark_stack(void *arg)
{
	volatile unsigned char below[8 * 4096];

	(void)arg;
	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = 0x5a;
	sleep_for_ever();
}

Test(clone, leaves_no_trace_on_the_stack)
{
	static unsigned char live[6 * 4096];
	static unsigned char cloned[6 * 4096];
	pid_t pid;

	/* A thread that is asked keeps the frame: signal_stacks.c. */
	held_hide_signal_stacks(true);
	pid = hold(mark_stack);

	ms_addr at = source->threads.at[0].sp - sizeof(live);
	int mem = ms_proc_open(pid, "mem", O_RDONLY);
	int before = ms_proc_open(held.shared->image, "mem", O_RDONLY);
	unsigned char sum = 0;

	/* The clone was made when frames lay there, and has them still. */
	cr_expect_eq(pread(mem, live, sizeof(live), (off_t)at), sizeof(live));
	cr_expect_eq(pread(before, cloned, sizeof(cloned), (off_t)at), sizeof(cloned));
	cr_expect_neq(memcmp(live, cloned, sizeof(live)), 0);
	/* Nothing but calls that have returned was there, and no address of the C library's. */
	for (size_t i = 0; i + 8 <= sizeof(live) - 512; i += 8)
		sum |= !memcmp(live + i, &held.shared->gadgets.restore, 8);
	cr_expect_eq(sum, 0, "a frame is still there");
	(void)close(mem);
	(void)close(before);
	let_go(pid);
}

Test(clone, that_is_killed_by_others_is_told)
{
	pid_t pid = hold(make_sample);
	unsigned char byte;

	cr_expect_eq(kill(held.shared->image, SIGKILL), 0);
	for (int i = 0; i < PATIENCE_MS && ms_source_is_whole(source); i++)
		usleep(1000);
	(void)ms_source_read(source, addr_of(shared->at), &byte, 1);
	cr_expect_not(ms_source_is_whole(source));
	source->ops->close(source);
	held_end(&held);
	cr_expect(sleeps(pid), "the target is in state %c", ms_proc_state(pid));
	child_end(pid);
}
