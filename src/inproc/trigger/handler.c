/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler does next to nothing: it notes what is wanted and starts a process beside
 * (process.h), whose memory has been ready since the handler was installed. So it may
 * come at any instruction, with every lock held and no descriptor left, and the thread
 * goes on at once. That process serves what was noted, one thing after the other, and
 * ends; requests that come meanwhile are noted as well, equal ones as one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inproc/export.h"
#include "inproc/log.h"
#include "inproc/search.h"
#include "inproc/trigger/trigger.h"
#include "memunreachable/memunreachable.h"
#include "report/formats.h"

enum { LEAKS_LISTED = 100, LIMIT_S = 60 };

enum phase { SERVING, CLOSING };

static struct {
	struct ms_trigger_settings settings;
	struct ms_process *process; /* NULL: not installed */
	uint32_t wanted;            /* of enum ms_request_kind */
	uint32_t phase;             /* of the process: past CLOSING it looks at nothing more */
	uint32_t starting;          /* someone starts it */
} service;

const struct ms_trigger_settings *ms_trigger_settings(void)
{
	return &service.settings;
}

/* ---- in the process beside ---- */

struct writing {
	struct ms_sink sink; /* first */
	int fd;
};

static bool put(struct ms_sink *sink, const char *bytes, size_t len)
{
	const struct writing *writing = (const struct writing *)sink;

	while (len > 0) {
		ssize_t n = write(writing->fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

static void write_leaks(struct ms_search *search)
{
	struct ms_answer *answer = search->ctx;
	struct writing writing = { .sink.write = put, .fd = answer->fd };

	if (search->st) {
		ms_log("%s", search->err.text);
		(void)dprintf(answer->fd, "memscan: %s\nmemscan: %s\n", search->err.text,
		              search->err.advice);
		return;
	}
	(void)ms_text_writer.write(&search->report, &writing.sink);
}

static void tell_leaks(struct ms_answer *answer)
{
	struct ms_search *search = service.process->ctx;

	memset(search, 0, sizeof(*search));
	search->process = service.process;
	search->options.limit = LEAKS_LISTED;
	search->options.contents = true;
	search->limit_s = LIMIT_S;
	search->done = write_leaks;
	search->suppressed.files[0] = service.settings.suppressions;
	search->ctx = answer;
	if (!ms_search_enter(service.process->program))
		return;
	ms_search_run(search);
	ms_search_leave();
	ms_arena_deinit(&search->arena);
	ms_arena_deinit(&search->told);
}

/* The stacks are told by memscan itself: to name what is on them takes more than is here. */
static void tell_stacks(const struct ms_answer *answer)
{
	const char *memscan = service.settings.memscan;
	char number[16];
	char name[] = "memscan";
	char command[] = "stacks";
	char *const argv[] = { name, command, number, NULL };
	char *const envp[] = { NULL };
	pid_t child;

	(void)snprintf(number, sizeof(number), "%d", (int)service.process->program);
	if (!memscan[0]) {
		(void)dprintf(answer->fd,
		              "memscan: no program memscan was found beside the library\n"
		              "memscan: set " MS_ENV_MEMSCAN " to its path\n");
		return;
	}
	child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): it only execs */
	if (!child) {
		sigset_t none;

		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		if (answer->fd == STDOUT_FILENO)
			(void)fcntl(answer->fd, F_SETFD, 0);
		else
			(void)dup2(answer->fd, STDOUT_FILENO);
		(void)alarm(LIMIT_S);
		(void)execve(memscan, argv, envp);
		_exit(127);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static void serve_kind(enum ms_request_kind kind)
{
	const char *folder = service.settings.folder;
	struct ms_answer answer;

	if (!ms_answer_open(folder, service.process->program, &answer))
		return;
	if (kind == MS_TELL_STACKS)
		tell_stacks(&answer);
	else
		tell_leaks(&answer);
	ms_answer_close(folder, &answer);
}

/* True while something was wanted; else nothing noted from now on will be seen. */
static bool serve_wanted(void)
{
	uint32_t wanted = __atomic_exchange_n(&service.wanted, 0, __ATOMIC_ACQ_REL);

	if (wanted & MS_TELL_STACKS)
		serve_kind(MS_TELL_STACKS);
	if (wanted & MS_TELL_LEAKS)
		serve_kind(MS_TELL_LEAKS);
	if (wanted)
		return true;
	__atomic_store_n(&service.phase, CLOSING, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&service.wanted, __ATOMIC_SEQ_CST))
		return false;
	__atomic_store_n(&service.phase, SERVING, __ATOMIC_SEQ_CST);
	return true;
}

static void serve(void *ctx)
{
	(void)ctx;
	(void)prctl(PR_SET_NAME, "memunreachable");
	while (serve_wanted())
		;
}

/* ---- in the program ---- */

/* Whether the process beside lives and will still see what was noted. */
static bool will_serve(void)
{
	const struct ms_process *process = service.process;

	/* In a forked child it is the parent's, and nobody here will ever see its end. */
	if (process->program != getpid())
		return false;
	if (!ms_process_lives(process))
		return false;
	if (__atomic_load_n(&service.phase, __ATOMIC_SEQ_CST) == SERVING)
		return true;
	/* It is at its last instructions; until then its memory is in use. */
	while (ms_process_lives(process) &&
	       __atomic_load_n(&service.phase, __ATOMIC_SEQ_CST) == CLOSING)
		(void)usleep(10);
	return ms_process_lives(process);
}

void ms_trigger_request(enum ms_request_kind kind)
{
	struct ms_error err;

	(void)__atomic_fetch_or(&service.wanted, (uint32_t)kind, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&service.starting, 1, __ATOMIC_ACQ_REL))
		return;
	if (!will_serve()) {
		service.phase = SERVING;
		if (ms_process_start(service.process, &err))
			ms_log("%s", err.text);
	}
	__atomic_store_n(&service.starting, 0, __ATOMIC_RELEASE);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	int error = errno;
	bool stacks = info->si_code == SI_QUEUE && info->si_value.sival_int == MS_TRIGGER_STACKS;

	(void)signal;
	(void)context;
	ms_trigger_request(stacks ? MS_TELL_STACKS : MS_TELL_LEAKS);
	errno = error;
}

static bool install(void)
{
	struct sigaction act = { .sa_sigaction = on_signal,
		                 .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	struct ms_process *process = service.process;

	if (!process) {
		process = ms_process_new(sizeof(struct ms_search), serve);
		if (!process)
			return false;
		process->orphan = true;
		service.process = process;
	}
	(void)sigfillset(&act.sa_mask);
	return !sigaction(MS_TRIGGER_SIGNAL, &act, NULL);
}

MS_EXPORT bool memunreachable_install_handler(void)
{
	ms_trigger_read_settings(&service.settings);
	if (!install()) {
		ms_log("cannot install the handler of signal %d: %s", MS_TRIGGER_SIGNAL,
		       strerror(errno));
		return false;
	}
	return true;
}

/* A program that has its own use for the signal keeps it. */
__attribute__((constructor)) static void begin(void)
{
	struct sigaction before;

	ms_trigger_read_settings(&service.settings);
	if (service.settings.off || sigaction(MS_TRIGGER_SIGNAL, NULL, &before) ||
	    before.sa_handler != SIG_DFL || !install())
		return;
	ms_trigger_watch();
}
