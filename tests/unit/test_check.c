/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "held.h"
#include "target/arch/arch.h"
#include "target/maps.h"
#include "target/proc.h"

static struct ms_error err;
static pid_t found;

static void sleep_for_ever(void *arg)
{
	if (arg)
		(void)prctl(PR_SET_NAME, arg);
	child_ready();
	for (;;)
		pause();
}

/* Whether the refusal has one line of text, with @part in it, and one of advice. */
static bool refused(enum ms_status st, enum ms_status want, const char *part)
{
	return st == want && err.status == want && strstr(err.text, part) && err.advice[0] &&
	       !strchr(err.text, '\n') && !strchr(err.advice, '\n');
}

Test(check, an_ordinary_process_passes)
{
	pid_t pid = child_start(sleep_for_ever, NULL);

	cr_expect_eq(ms_target_check(pid, &found, &err), MS_OK, "%s", err.text);
	cr_expect_eq(found, pid);
	child_end(pid);
}

static volatile int *tids;

static void *tell_tid(void *arg)
{
	*tids = (int)syscall(SYS_gettid);
	sleep_for_ever(NULL);
	return arg;
}

static void be_two(void *arg)
{
	pthread_t thread;

	(void)arg;
	pthread_create(&thread, NULL, tell_tid, NULL);
	pthread_join(thread, NULL);
}

static void lose_leader(void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, tell_tid, arg);
	pthread_exit(NULL);
}

Test(check, a_thread_leads_to_its_process)
{
	pid_t pid;

	tids = child_memory(sizeof(*tids));
	pid = child_start(be_two, NULL);
	cr_expect_eq(ms_target_check(*tids, &found, &err), MS_OK, "%s", err.text);
	cr_expect_eq(found, pid);
	child_end(pid);
}

Test(check, a_zombie_leader_with_living_threads_passes)
{
	pid_t pid;

	tids = child_memory(sizeof(*tids));
	pid = child_start(lose_leader, NULL);
	cr_expect_eq(ms_target_check(pid, &found, &err), MS_OK, "%s", err.text);
	cr_expect_eq(found, pid);
	child_end(pid);
}

Test(check, nobody_is_refused)
{
	cr_expect(refused(ms_target_check(0x3ffffff, &found, &err), MS_E_GONE, "no process"));
	cr_expect(refused(ms_target_check(0, &found, &err), MS_E_GONE, "no process"));
	cr_expect(refused(ms_target_check(-1, &found, &err), MS_E_GONE, "no process"));
}

Test(check, we_are_refused)
{
	cr_expect(refused(ms_target_check(getpid(), &found, &err), MS_E_UNSUPPORTED, "itself"));
}

Test(check, a_kernel_thread_is_refused)
{
	char name[32];

	/* kthreadd has this id wherever the whole machine's processes are seen. */
	if (ms_proc_read(2, "comm", name, sizeof(name)) <= 0 || strcmp(name, "kthreadd\n"))
		cr_skip_test("no kernel threads in sight");
	cr_expect(refused(ms_target_check(2, &found, &err), MS_E_UNSUPPORTED, "kernel"));
}

Test(check, a_zombie_is_refused)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	siginfo_t info;

	kill(pid, SIGKILL);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_expect(refused(ms_target_check(pid, &found, &err), MS_E_GONE, "is a zombie"), "%s",
	          err.text);
	child_end(pid);
}

Test(check, a_traced_process_is_refused_with_its_tracer)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	char tracer[32];

	cr_assert_eq(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	(void)snprintf(tracer, sizeof(tracer), "by process %d (", getpid());
	cr_expect(refused(ms_target_check(pid, &found, &err), MS_E_DENIED, tracer), "%s", err.text);
	child_end(pid);
}

/* Looks, as another user, at the process whose id it is given. */
static void look_as_nobody(void *arg)
{
	pid_t pid = *(pid_t *)arg;

	if (setuid(65534))
		_exit(9);
	_exit(refused(ms_target_check(pid, &found, &err), MS_E_DENIED, "user 65534") &&
	                      strstr(err.advice, "CAP_SYS_PTRACE")
	              ? 0
	              : 1);
}

Test(check, another_users_process_is_refused_without_the_capability)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	int status = 0;
	pid_t looker;

	if (getuid())
		cr_skip_test("only root can become another user");
	looker = fork();
	if (!looker)
		look_as_nobody(&pid);
	cr_assert_eq(waitpid(looker, &status, 0), looker);
	cr_expect_eq(status, 0);
	child_end(pid);
}

/* ---- what the kernel refuses ---- */

enum { NOBODY = 65534, CAP_PTRACE = 19 };

/* Give @capability up in this process. */
static void drop_capability(unsigned capability)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		_exit(9);
	data[0].effective &= ~(1U << capability);
	data[0].permitted &= ~(1U << capability);
	if (syscall(SYS_capset, &head, data))
		_exit(9);
}

/* A process that a child of this test may not look at, and why. */
struct denial {
	void (*target)(void);
	void (*looker)(void);
	const char *advice;
	const char *without; /* what it does not say; or NULL */
};

static void change_nothing(void)
{
}

static void drop_ptrace(void)
{
	drop_capability(CAP_PTRACE);
}

static void become_nobody(void)
{
	if (setgid(NOBODY) || setuid(NOBODY))
		_exit(9);
}

static void become_nobody_of_other_group(void)
{
	if (setgid(NOBODY - 1) || setuid(NOBODY))
		_exit(9);
}

static void be_undumpable_nobody(void)
{
	become_nobody();
	(void)prctl(PR_SET_DUMPABLE, 0);
}

static void be_dumpable_nobody(void)
{
	become_nobody();
	(void)prctl(PR_SET_DUMPABLE, 1);
}

static void prepare_and_sleep(void *prepare)
{
	((const struct denial *)prepare)->target();
	sleep_for_ever(NULL);
}

/* In a child: 0 when it was refused as expected. */
static int look_at_denied(const struct denial *d, pid_t pid)
{
	struct ms_arena arena = { 0 };
	struct ms_mappings maps;
	enum ms_status st;
	int fd = -1;

	d->looker();
	if (!refused(ms_target_open_mem(pid, &fd, &err), MS_E_DENIED, "does not let memscan"))
		return 1;
	/* newer kernels let CAP_PERFMON and CAP_SYS_ADMIN read it, of which root has both */
	st = ms_maps_read(pid, &arena, &maps, &err);
	if (st && !refused(st, MS_E_DENIED, "does not let memscan"))
		return 2;
	if (!strstr(err.advice, d->advice))
		return 3;
	return d->without && strstr(err.advice, d->without) ? 4 : 0;
}

static void expect_denial(const struct denial *d)
{
	pid_t pid = child_start(prepare_and_sleep, (void *)(uintptr_t)d);
	int status = 0;
	pid_t looker = fork();

	if (!looker)
		_exit(look_at_denied(d, pid));
	cr_assert_eq(waitpid(looker, &status, 0), looker);
	cr_expect_eq(status, 0, "%s: %d", d->advice, status >> 8);
	child_end(pid);
}

/* In a child. */
static int look_as_weak_root(pid_t pid)
{
	drop_ptrace();
	if (!refused(ms_target_check(pid, &found, &err), MS_E_DENIED, "belongs to user 65534"))
		return 1;
	return strstr(err.advice, "as root") || !strstr(err.advice, "this root has not");
}

Test(check, root_without_the_capability_is_not_sent_for_root)
{
	static const struct denial nobody = { .target = be_dumpable_nobody };
	pid_t looker;
	int status = 0;
	pid_t pid;

	if (getuid())
		cr_skip_test("only root can become another user");
	pid = child_start(prepare_and_sleep, (void *)(uintptr_t)&nobody);
	looker = fork();
	if (!looker)
		_exit(look_as_weak_root(pid));
	cr_assert_eq(waitpid(looker, &status, 0), looker);
	cr_expect_eq(status, 0);
	child_end(pid);
}

Test(check, a_denial_is_explained)
{
	static const struct denial cases[] = {
		{ change_nothing, drop_ptrace, "capabilities that memscan has not", "run memscan" },
		{ be_undumpable_nobody, become_nobody, "not dumpable", "this root" },
		{ be_undumpable_nobody, become_nobody, "run memscan as root", "this root" },
		{ be_dumpable_nobody, become_nobody_of_other_group, "other group ids",
		  "this root" },
	};

	if (getuid())
		cr_skip_test("only root can become another user");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_denial(&cases[i]);
}

Test(check, who_has_the_capability_is_not_sent_for_it)
{
	int fd;

	if (ms_target_open_mem(1, &fd, &err) != MS_E_DENIED)
		cr_skip_test("process 1 may be looked at");
	if (strstr(err.advice, "has CAP_SYS_PTRACE"))
		cr_expect(!strstr(err.advice, "as root"), "%s", err.advice);
	else
		cr_expect(strstr(err.advice, "CAP_SYS_PTRACE"), "%s", err.advice);
}

Test(check, a_stopped_process_passes_and_stays_stopped)
{
	pid_t pid = child_start(sleep_for_ever, NULL);

	kill(pid, SIGSTOP);
	for (int i = 0; i < 1000 && ms_proc_state(pid) != 'T'; i++)
		usleep(1000);
	cr_expect_eq(ms_target_check(pid, &found, &err), MS_OK, "%s", err.text);
	cr_expect_eq(ms_proc_state(pid), 'T');
	child_end(pid);
}

/* ---- by name ---- */

Test(check, a_name_that_one_process_has_is_found)
{
	char name[] = "ms-only-one";
	pid_t pid = child_start(sleep_for_ever, name);

	cr_expect_eq(ms_target_find_by_name(name, &found, &err), MS_OK, "%s", err.text);
	cr_expect_eq(found, pid);
	child_end(pid);
}

Test(check, a_name_that_two_have_lists_both)
{
	char name[] = "ms-one-of-two";
	pid_t first = child_start(sleep_for_ever, name);
	pid_t second = child_start(sleep_for_ever, name);
	char both[2][16];

	(void)snprintf(both[0], sizeof(both[0]), " %d", first);
	(void)snprintf(both[1], sizeof(both[1]), " %d", second);
	cr_expect(refused(ms_target_find_by_name(name, &found, &err), MS_E_BUSY, both[0]));
	cr_expect_not_null(strstr(err.text, both[1]), "%s", err.text);
	child_end(first);
	child_end(second);
}

Test(check, a_name_that_nobody_has_is_gone)
{
	cr_expect(refused(ms_target_find_by_name("ms-nobody", &found, &err), MS_E_GONE,
	                  "\"ms-nobody\""));
}

Test(check, we_are_not_found_by_our_own_name)
{
	(void)prctl(PR_SET_NAME, "ms-ourselves");
	cr_expect_eq(ms_target_find_by_name("ms-ourselves", &found, &err), MS_E_GONE);
}

/* ---- facts ---- */

Test(check, facts_are_those_of_proc)
{
	struct ms_target_facts target;
	struct ms_host_facts host;
	pid_t pid = child_start(sleep_for_ever, NULL);
	char exe[MS_PATH_TEXT];

	ms_target_facts(pid, &target, &host);
	ms_proc_link(getpid(), "exe", exe, sizeof(exe));
	cr_expect_eq(target.pid, pid);
	cr_expect_eq(target.threads, 1);
	cr_expect_eq(target.word_size, 8);
	cr_expect_str_eq(target.arch, ms_native_arch.name);
	cr_expect_str_eq(target.exe, exe);
	cr_expect_gt(target.cmdline_len, 0);
	cr_expect_str_eq(host.arch, ms_native_arch.name);
	cr_expect(host.name[0] && host.kernel[0]);
	cr_expect_gt(target.start_time, (int64_t)(time(NULL) - 60) * 1000000000);
	cr_expect_leq(target.start_time, (int64_t)(time(NULL) + 1) * 1000000000);
	child_end(pid);
}
