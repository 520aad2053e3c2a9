/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where libmemunreachable may be called from. One block is lost in each case, and that
 * one must be found; see api.h.
 */
#include "api.h"

#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

enum { THREADS = 8, ROUNDS = 5, FORKS = 30, PATIENCE_S = 30, ALT_STACK = 128 * 1024, FEW_FDS = 32 };

static volatile int go_on;
static int fds_at_start;

/* A search from where there is no room for forget(). */
static void search_in_little_room(void)
{
	size_t found = 0;

	EXPECT(search(&found), "failed");
	EXPECT(found == 1, "%zu leaks, not 1", found);
}

static void *search_in_thread(void *arg)
{
	search_in_little_room();
	return arg;
}

static void on_minimal_stack(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	hide_new(0, BLOCK);
	forget();
	pthread_attr_init(&attr);
	EXPECT(!pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN), "stack size");
	EXPECT(!pthread_create(&thread, &attr, search_in_thread, NULL), "no thread");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

static void expect_leak_under(const sigset_t *mask)
{
	sigset_t before, after;

	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	sigprocmask(SIG_SETMASK, mask, NULL);
	sigprocmask(SIG_SETMASK, NULL, &before);
	EXPECT_LEAKS(1);
	sigprocmask(SIG_SETMASK, NULL, &after);
	EXPECT(!memcmp(&before, &after, sizeof(after)), "the mask was changed");
}

/* And with some, and none. */
static void with_all_signals_blocked(void)
{
	sigset_t mask;

	hide_new(0, BLOCK);
	sigfillset(&mask);
	expect_leak_under(&mask);
	sigemptyset(&mask);
	expect_leak_under(&mask);
	sigaddset(&mask, SIGCHLD);
	expect_leak_under(&mask);
}

/* It may fail then, but not lose any, nor hang. */
static void without_descriptors(void)
{
	struct rlimit old, few = { FEW_FDS, FEW_FDS };
	int filled[FEW_FDS], n = 0;
	size_t found = 1;

	hide_new(0, BLOCK);
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	while (n < FEW_FDS && (filled[n] = dup(STDIN_FILENO)) >= 0)
		n++;
	EXPECT(errno == EMFILE && n, "%s", strerror(errno));
	for (int i = 0; i < ROUNDS; i++) {
		forget();
		(void)search(&found);
		EXPECT(found == 1, "%zu leaks, not 1", found);
	}
	EXPECT(dup(STDIN_FILENO) < 0, "a descriptor of ours was closed");
	while (n)
		close(filled[--n]);
	setrlimit(RLIMIT_NOFILE, &old);
	EXPECT_LEAKS(1);
}

static void without_processes(void)
{
	struct rlimit old, none;

	hide_new(0, BLOCK);
	become_nobody();
	getrlimit(RLIMIT_NPROC, &old);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NPROC, &none);
	EXPECT_REFUSAL();
	setrlimit(RLIMIT_NPROC, &old);
	EXPECT_LEAKS(1);
}

/* ---- children ---- */

static void expect_good_end(pid_t pid)
{
	int status;

	EXPECT(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	EXPECT(status == 0, "the child ended with status %#x", status);
}

static pid_t fork_to_search(bool alone)
{
	pid_t pid = fork();

	EXPECT(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		alarm(PATIENCE_S);
		EXPECT_LEAKS(1);
		if (alone)
			expect_nothing_left(count_fds(), 1);
		_exit(0);
	}
	return pid;
}

static void in_a_forked_child(void)
{
	hide_new(0, BLOCK);
	expect_good_end(fork_to_search(true));
	EXPECT_LEAKS(1);
	expect_good_end(fork_to_search(true));
}

static void *search_until_told(void *arg)
{
	while (!go_on)
		search_in_little_room();
	return arg;
}

static void in_a_child_forked_meanwhile(void)
{
	pthread_t thread;

	hide_new(0, BLOCK);
	forget();
	pthread_create(&thread, NULL, search_until_told, NULL);
	for (int i = 0; i < FORKS; i++) {
		usleep((useconds_t)(i * 700));
		expect_good_end(fork_to_search(false));
	}
	go_on = 1;
	pthread_join(thread, NULL);
	EXPECT_LEAKS(1);
}

/* ---- another thread holds the dynamic linker's lock ---- */

static volatile int lock_is_held;

static int hold_the_lock(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)info;
	(void)size;
	(void)ctx;
	lock_is_held = 1;
	while (!go_on)
		usleep(1000);
	return 1;
}

static void *look_at_libraries(void *arg)
{
	dl_iterate_phdr(hold_the_lock, NULL);
	return arg;
}

static void while_libraries_are_looked_at(void)
{
	pthread_t thread;

	hide_new(0, BLOCK);
	forget();
	pthread_create(&thread, NULL, look_at_libraries, NULL);
	while (!lock_is_held)
		usleep(1000);
	alarm(PATIENCE_S);
	expect_good_end(fork_to_search(false));
	EXPECT_LEAKS(1);
	go_on = 1;
	pthread_join(thread, NULL);
	EXPECT_LEAKS(1);
}

static volatile int n_sigchld;

static void count_sigchld(int signal)
{
	(void)signal;
	n_sigchld++;
}

static void without_sigchld(void)
{
	struct sigaction act = { .sa_handler = count_sigchld };

	hide_new(0, BLOCK);
	sigaction(SIGCHLD, &act, NULL);
	EXPECT_LEAKS(1);
	EXPECT(n_sigchld == 0, "SIGCHLD, %d times", n_sigchld);
}

static void with_children_ignored(void)
{
	hide_new(0, BLOCK);
	signal(SIGCHLD, SIG_IGN);
	EXPECT_LEAKS(1);
}

static void *wait_for_any_child(void *ret)
{
	*(pid_t *)ret = waitpid(-1, NULL, 0);
	return NULL;
}

/* Another thread waits for children; it must get its own, and no other. */
static void while_a_thread_waits(void)
{
	pid_t child, waited = 0;
	pthread_t thread;
	int fds[2];
	char byte;

	hide_new(0, BLOCK);
	EXPECT(!pipe(fds), "pipe");
	child = fork();
	if (!child) {
		close(fds[1]);
		_exit(read(fds[0], &byte, 1) == 0 ? 0 : 1);
	}
	pthread_create(&thread, NULL, wait_for_any_child, &waited);
	usleep(20000);
	for (int i = 0; i < ROUNDS; i++)
		EXPECT_LEAKS(1);
	EXPECT(!waited, "it got child %d", (int)waited);
	close(fds[1]);
	pthread_join(thread, NULL);
	EXPECT(waited == child, "it got child %d, not %d", (int)waited, (int)child);
	close(fds[0]);
}

/* A child traces us. */
static void while_traced(void)
{
	int seized[2], end[2];
	char byte = 'x';
	pid_t child;

	hide_new(0, BLOCK);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	EXPECT(!pipe(seized) && !pipe(end), "pipe");
	child = fork();
	if (!child) {
		close(end[1]);
		byte = ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) ? 'n' : 'y';
		EXPECT(write(seized[1], &byte, 1) == 1, "write");
		_exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
	}
	EXPECT(read(seized[0], &byte, 1) == 1 && byte == 'y', "it cannot trace us");
	EXPECT_REFUSAL();
	EXPECT(!NoLeaks(), "no leaks, where nothing could be searched");
	close(end[1]);
	expect_good_end(child);
	EXPECT_LEAKS(1);
	close(end[0]);
	close(seized[0]);
	close(seized[1]);
}

/* ---- threads ---- */

static pthread_barrier_t barrier;

static void *search_together(void *arg)
{
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < ROUNDS; i++)
		search_in_little_room();
	return arg;
}

static void from_many_threads(void)
{
	pthread_t threads[THREADS];

	hide_new(0, BLOCK);
	forget();
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, search_together, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_LEAKS(1);
}

static void *sleep_until_told(void *arg)
{
	while (!go_on)
		usleep(1000);
	return arg;
}

static void before_and_after_threads(void)
{
	pthread_t threads[THREADS];

	hide_new(0, BLOCK);
	EXPECT_LEAKS(1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, sleep_until_told, NULL);
	EXPECT_LEAKS(1);
	go_on = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_LEAKS(1);
}

static char state_of_leader(void)
{
	char path[64], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	EXPECT(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, "stat");
	close(fd);
	return strrchr(text, ')') ? strrchr(text, ')')[2] : '?';
}

static void *search_without_leader(void *arg)
{
	while (state_of_leader() != 'Z')
		usleep(1000);
	EXPECT_LEAKS(1);
	expect_nothing_left(fds_at_start, 2);
	say_text("ok\n");
	_exit(0);
	return arg;
}

static void behind_a_leader_that_ended(void)
{
	pthread_t thread;

	fds_at_start = count_fds();
	hide_new(0, BLOCK);
	forget();
	pthread_create(&thread, NULL, search_without_leader, NULL);
	pthread_exit(NULL);
}

/* ---- ends and interruptions ---- */

static void search_at_exit(void)
{
	EXPECT_LEAKS(1);
	expect_nothing_left(fds_at_start, 1);
	say_text("ok\n");
}

static void at_exit(void)
{
	fds_at_start = count_fds();
	hide_new(0, BLOCK);
	EXPECT(!atexit(search_at_exit), "atexit");
	ends_later = true;
}

static volatile size_t found_by_handler;
static volatile int handled;

static void handle_by_searching(int signal)
{
	size_t found = 99;

	(void)signal;
	EXPECT(search(&found), "failed");
	found_by_handler = found;
	handled++;
}

/* A lost block is told there, and one that the interrupted function holds is not. */
static void on_a_signal_stack(void)
{
	struct sigaction act = { .sa_handler = handle_by_searching, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = ALT_STACK }, none = { .ss_flags = SS_DISABLE };
	void *volatile held;

	stack.ss_sp =
		mmap(NULL, ALT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &act, NULL), "sigaltstack");
	hide_new(0, BLOCK);
	held = revealed(0);
	forget();
	raise(SIGUSR1);
	EXPECT(handled == 1 && found_by_handler == 0, "%zu leaks, not 0", found_by_handler);
	held = NULL;
	forget();
	raise(SIGUSR1);
	EXPECT(handled == 2 && found_by_handler == 1, "%zu leaks, not 1", found_by_handler);
	EXPECT(!sigaltstack(&none, NULL), "still on it");
	munmap(stack.ss_sp, ALT_STACK);
	(void)held;
}

static void with_errno_kept(void)
{
	struct UnreachableMemoryInfo info = { 0 };
	char *text;

	hide_new(0, BLOCK);
	forget();
	errno = 12345;
	EXPECT(GetUnreachableMemory(&info, LIMIT) && errno == 12345, "Get: %d", errno);
	FreeUnreachableMemory(&info);
	EXPECT(errno == 12345, "Free: %d", errno);
	EXPECT(LogUnreachableMemory(false, LIMIT) && errno == 12345, "Log: %d", errno);
	EXPECT(!NoLeaks() && errno == 12345, "NoLeaks: %d", errno);
	text = GetUnreachableMemoryString(false, LIMIT);
	EXPECT(text && errno == 12345, "String: %d", errno);
	free(text);
}

static const struct api_case cases[] = {
	{ "on_minimal_stack", on_minimal_stack },
	{ "with_all_signals_blocked", with_all_signals_blocked },
	{ "without_descriptors", without_descriptors },
	{ "without_processes", without_processes },
	{ "in_a_forked_child", in_a_forked_child },
	{ "in_a_child_forked_meanwhile", in_a_child_forked_meanwhile },
	{ "while_libraries_are_looked_at", while_libraries_are_looked_at },
	{ "without_sigchld", without_sigchld },
	{ "with_children_ignored", with_children_ignored },
	{ "while_a_thread_waits", while_a_thread_waits },
	{ "while_traced", while_traced },
	{ "from_many_threads", from_many_threads },
	{ "before_and_after_threads", before_and_after_threads },
	{ "behind_a_leader_that_ended", behind_a_leader_that_ended },
	{ "at_exit", at_exit },
	{ "on_a_signal_stack", on_a_signal_stack },
	{ "with_errno_kept", with_errno_kept },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
