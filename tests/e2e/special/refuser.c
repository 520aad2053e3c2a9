/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Preloaded, it stands in front of two of the C library's functions: sigaction() for the
 * signal REFUSE_SIGNAL, and dlopen() of REFUSE_LIBRARY, fail.
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int refused;

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	int (*next)(int, const struct sigaction *, struct sigaction *) =
		dlsym(RTLD_NEXT, "sigaction");
	const char *refuse = getenv("REFUSE_SIGNAL");

	if (refuse && atoi(refuse) == number) {
		errno = EINVAL;
		return -1;
	}
	return next(number, action, old);
}

void *dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
	const char *refuse = getenv("REFUSE_LIBRARY");

	refused = file && refuse && strstr(file, refuse) != NULL;
	return refused ? NULL : next(file, mode);
}

char *dlerror(void)
{
	char *(*next)(void) = dlsym(RTLD_NEXT, "dlerror");

	return refused ? "refused" : next();
}
