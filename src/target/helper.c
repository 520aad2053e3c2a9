/* SPDX-License-Identifier: Apache-2.0 */
#include "target/helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/follow.h"
#include "target/proc.h"

enum { FAMILY_MS = 50 };

static const uint64_t first_nap_ns = 50000;
static const uint64_t reap_tick_ns = 250000;
static const uint64_t most_nap_ns = 5000000;
/* What it gets beyond its time to end what it changes, and a killed one to go. */
static const uint64_t grace_ns = UINT64_C(600000000);
static const uint64_t death_ns = UINT64_C(300000000);
static const uint64_t most_death_ns = UINT64_C(1200000000); /* where processors are rare */

/* What it may have of its own, with what the original had. */
static const rlim_t most_bytes = (rlim_t)960 << 20;

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 }; /* its runtime needs more */
#else
enum { SANITIZED = 0 };
#endif

/* Its children may have other limits: the hard one stays. */
static void limit_memory(void)
{
	struct rlimit memory;

	if (SANITIZED || getrlimit(RLIMIT_DATA, &memory) || memory.rlim_cur <= most_bytes)
		return;
	memory.rlim_cur = most_bytes;
	(void)setrlimit(RLIMIT_DATA, &memory);
}

static _Noreturn void be_helper(const struct ms_helper_call *call, pid_t original)
{
	if (!ms_follow_parent(original))
		_exit(0);
	(void)prctl(PR_SET_NAME, call->title);
	limit_memory();
	ms_follow_unseen();
	_exit(call->work(call->ctx));
}

struct waiting {
	const struct ms_helper_call *call;
	const struct ms_ending *endings;
	pid_t pid;
	bool deaf;              /* a signal was there before: it is the reason for the work */
	enum ms_helper_end why; /* it is to end; MS_HELPER_DONE: it is not */
	uint64_t why_ns;        /* since when */
	uint64_t killed_ns;     /* 0: it was not */
	int family;             /* a pipe that it and its children have the other end of, or -1 */
};

static void look(struct waiting *w)
{
	const bool changing = w->call->changing && atomic_load(w->call->changing);
	const uint64_t now_ns = ms_now_ns();

	if (!w->why && !w->deaf && ms_ending_came(w->endings))
		w->why = MS_HELPER_ENDING;
	else if (!w->why && now_ns > w->call->deadline_ns)
		w->why = MS_HELPER_LATE;
	if (w->why && !w->why_ns)
		w->why_ns = now_ns;
	if (!w->why || w->killed_ns || (changing && now_ns - w->why_ns < grace_ns))
		return;
	w->killed_ns = now_ns;
	(void)kill(w->pid, SIGKILL);
}

/* Whether child @pid, killed at @killed_ns, is not going to end soon. */
static bool is_stuck(pid_t pid, uint64_t killed_ns)
{
	const uint64_t dying_ns = ms_now_ns() - killed_ns;

	return dying_ns > most_death_ns || (dying_ns > death_ns && ms_proc_state(pid) == 'D');
}

bool ms_helper_reap(pid_t pid, uint64_t deadline_ns, int *ret_status, struct rusage *usage)
{
	uint64_t killed_ns = 0;

	while (wait4(pid, ret_status, WNOHANG, usage) == 0) {
		if (!killed_ns && ms_now_ns() > deadline_ns) {
			killed_ns = ms_now_ns();
			(void)kill(pid, SIGKILL);
		}
		if (killed_ns && is_stuck(pid, killed_ns))
			return false;
		ms_sleep_ns(reap_tick_ns);
	}
	return true;
}

/* Its children follow it, as soon as they are given a processor: nothing is to be left behind. */
static void await_children(const struct waiting *w)
{
	struct pollfd ended = { .fd = w->family };

	while (w->family >= 0 && ms_now_ns() - w->killed_ns < most_death_ns)
		if (poll(&ended, 1, FAMILY_MS) > 0)
			break;
}

/* Until it has ended, or cannot be made to. */
static enum ms_helper_end await(struct waiting *w)
{
	uint64_t nap_ns = first_nap_ns;
	int status = 0;

	while (waitpid(w->pid, &status, WNOHANG) == 0) {
		if (w->killed_ns && is_stuck(w->pid, w->killed_ns))
			return w->why;
		look(w);
		ms_sleep_ns(nap_ns);
		if (nap_ns < most_nap_ns)
			nap_ns *= 2;
	}
	if (w->killed_ns)
		await_children(w);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return MS_HELPER_DONE;
	return w->why ? w->why : MS_HELPER_FAILED;
}

enum ms_helper_end ms_helper_run(const struct ms_helper_call *call)
{
	const pid_t original = getpid();
	enum ms_helper_end end = MS_HELPER_FAILED;
	struct ms_ending endings;
	struct waiting w = { .call = call, .endings = &endings, .family = -1 };
	int family[2];

	ms_ending_hold(&endings);
	w.deaf = ms_ending_came(&endings);
	if (!pipe2(family, O_CLOEXEC))
		w.family = family[0];
	w.pid = fork();
	if (w.pid == 0)
		be_helper(call, original);
	if (w.family >= 0)
		(void)close(family[1]);
	if (w.pid > 0)
		end = await(&w);
	if (w.family >= 0)
		(void)close(w.family);
	ms_ending_allow(&endings);
	return end;
}
