/* SPDX-License-Identifier: Apache-2.0 */
#include "base/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Of a coprocessor that no machine has had for decades: nobody else sends it. */
enum { ENDED = SIGSTKFLT };

/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a handler has no more */
static volatile sig_atomic_t is_over;

static void end(int signal)
{
	(void)signal;
	_exit(0);
}

static void note(int signal)
{
	(void)signal;
	is_over = 1;
}

static void handle(void (*handler)(int signal))
{
	/* Without SA_RESTART: a wait is to end. */
	struct sigaction act = { .sa_handler = handler };

	(void)sigaction(ENDED, &act, NULL);
}

static void mask(int how)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, ENDED);
	(void)sigprocmask(how, &set, NULL);
}

bool ms_follow_parent(pid_t parent)
{
	handle(end);
	mask(SIG_UNBLOCK);
	if (prctl(PR_SET_PDEATHSIG, ENDED))
		return false;
	errno = ESRCH;
	return getppid() == parent;
}

void ms_follow_in_order(void)
{
	handle(note);
}

bool ms_follow_is_over(void)
{
	return is_over;
}

void ms_follow_unseen(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		(void)dup2(null, fd);
	if (null > STDERR_FILENO)
		(void)close(null);
}

void ms_follow_pause(void)
{
	mask(SIG_BLOCK);
}

void ms_follow_resume(void)
{
	mask(SIG_UNBLOCK);
}
