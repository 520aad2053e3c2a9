/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ending.h"

#include <stddef.h>

static void choose(sigset_t *ret)
{
	static const int endings[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	struct sigaction act;

	(void)sigemptyset(ret);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		/* One that is held back and ignored would seem to have come. */
		if (!sigaction(endings[i], NULL, &act) && act.sa_handler != SIG_IGN)
			(void)sigaddset(ret, endings[i]);
}

void ms_ending_hold(struct ms_ending *ret)
{
	choose(&ret->held);
	(void)sigprocmask(SIG_BLOCK, &ret->held, &ret->before);
}

bool ms_ending_is_pending(void)
{
	struct ms_ending ending;

	choose(&ending.held);
	return ms_ending_came(&ending);
}

bool ms_ending_came(const struct ms_ending *ending)
{
	sigset_t pending;
	sigset_t both;

	return !sigpending(&pending) && !sigandset(&both, &pending, &ending->held) &&
	       !sigisemptyset(&both);
}

void ms_ending_allow(const struct ms_ending *ending)
{
	(void)sigprocmask(SIG_SETMASK, &ending->before, NULL);
}
