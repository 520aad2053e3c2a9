/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program is in memscan's process group, so what the terminal sends (^C, ^\, ^Z,
 * a hangup) has reached it already; what a process sends to memscan is meant for the
 * program, whose place memscan takes, and is passed on.
 *
 * All signals are blocked and taken by sigtimedwait(): what arrives between two looks
 * is not lost. No disposition is changed, so the program inherits what memscan did.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "target/run/tasks.h"

static const uint64_t second_ns = UINT64_C(1000000000);

static void make_set(sigset_t *ret)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };

	(void)sigfillset(ret);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		(void)sigdelset(ret, own[i]);
}

void ms_signals_take(struct ms_run *run)
{
	sigset_t set;

	make_set(&set);
	(void)sigprocmask(SIG_SETMASK, &set, &run->mask);
}

void ms_signals_give_back(const struct ms_run *run)
{
	(void)sigprocmask(SIG_SETMASK, &run->mask, NULL);
}

static bool from_process(const siginfo_t *info)
{
	return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
}

static void take(struct ms_run *run, const siginfo_t *info)
{
	switch (info->si_signo) {
	case SIGCHLD:
	case SIGPIPE: /* of a report that is not read */
		return;
	case SIGCONT: /* shells send it to the group */
		run->stop_asked = false;
		return;
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		run->stop_asked = true;
		break;
	default:
		break;
	}
	if (from_process(info) && !run->ended)
		(void)kill(run->main, info->si_signo);
	ms_signals_stop_along(run);
}

void ms_signals_wait(struct ms_run *run, uint64_t ns)
{
	const struct timespec span = { (time_t)(ns / second_ns), (long)(ns % second_ns) };
	siginfo_t info;
	sigset_t set;

	make_set(&set);
	if (sigtimedwait(&set, &info, ns ? &span : NULL) > 0)
		take(run, &info);
}

void ms_signals_stop_along(struct ms_run *run)
{
	const struct ms_task *task = ms_task_find(run, run->main);

	if (!run->stop_asked || !task || task->state != MS_TASK_LISTENING)
		return;
	run->stop_asked = false;
	(void)kill(getpid(), SIGSTOP);
}
