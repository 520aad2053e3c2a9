/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "inproc/log.h"
#include "inproc/trigger/trigger.h"

enum { STACK_BYTES = 128 * 1024 };

static const uint64_t SECOND_NS = UINT64_C(1000000000);

/* Resident bytes of this process; 0 when they are not known now. */
static uint64_t resident(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *second = n > 0 ? strchr(text, ' ') : NULL;

	if (fd >= 0)
		(void)close(fd);
	return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void request(void)
{
	int error = ms_trigger_request(MS_TELL_LEAKS);

	if (error)
		ms_log("cannot start the process that answers: %s; see libmemunreachable(3)",
		       strerror(error));
}

/* What is due is asked for once, also when size and clock want it together. */
static void *watch(void *arg)
{
	const struct ms_trigger_settings *settings = ms_trigger_settings();
	uint64_t next_ns = ms_now_ns() + settings->interval_s * SECOND_NS;
	uint64_t next_bytes = settings->rss_bytes;

	(void)arg;
	for (;;) {
		const struct timespec second = { 1, 0 };
		uint64_t bytes = settings->rss_bytes && !ms_trigger_is_answering() ? resident() : 0;
		bool due = false;

		if (settings->rss_bytes && bytes >= next_bytes) {
			due = true;
			/* Again when it has grown by as much once more. */
			next_bytes = bytes + settings->rss_bytes;
		}
		if (settings->interval_s && ms_now_ns() >= next_ns) {
			due = true;
			/* What was missed while the process was stopped is not made up for. */
			next_ns = ms_now_ns() + settings->interval_s * SECOND_NS;
		}
		if (due)
			request();
		(void)nanosleep(&second, NULL);
	}
	return NULL;
}

static void start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	sigset_t before;
	int error;

	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The program's signals are for the program's threads. */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attr, watch, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	if (error)
		ms_log("cannot start the thread that watches size and time: %s; raise the limit of "
		       "processes",
		       strerror(error));
}

__attribute__((constructor)) static void begin(void)
{
	const struct ms_trigger_settings *settings = ms_trigger_settings();

	if (!ms_trigger_begin() || (!settings->rss_bytes && !settings->interval_s))
		return;
	start();
	/*
	 * What was registered first is called first in a child: malloc, which starting a
	 * thread uses, has to be there, and to have put its locks in order, before.
	 */
	free(malloc(1));
	/* Servers fork their workers, and these are what grows. */
	(void)pthread_atfork(NULL, NULL, start);
}
