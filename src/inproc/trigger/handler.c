/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler does next to nothing: it notes what is wanted and starts a process beside
 * (companion.h), whose memory has been ready since the handler was installed. So it may
 * come at any instruction, with every lock held and no descriptor left, and the thread
 * goes on at once. That process serves what was noted, one thing after the other, and
 * ends; requests that come meanwhile are noted as well, equal ones as one.
 *
 * Children. A forked one begins anew, whatever its parent was in the middle of; a request
 * that comes before it has begun is kept until then. A child of vfork() finds another owner,
 * the parent whose memory it uses, and answers nothing; so does one that was made past the
 * C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/libc.h"
#include "base/page.h"
#include "inproc/export.h"
#include "inproc/log.h"
#include "inproc/search.h"
#include "inproc/trigger/trigger.h"
#include "memunreachable/memunreachable.h"
#include "report/writers.h"

enum { LEAKS_LISTED = 100, LIMIT_S = 60, WAITS_FOR_END = 3 };

enum phase { SERVING, CLOSING };

/* What came to a process that is not the owner: a child's, before it has begun. */
struct early {
	pid_t pid;
	uint32_t wanted;
};

struct state {
	pid_t owner;       /* whose memory this is */
	uint32_t wanted;   /* of enum ms_request_kind */
	uint32_t phase;    /* of the process: past CLOSING it looks at nothing more */
	uint32_t starting; /* someone starts it */
};

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static struct {
	struct ms_trigger_settings settings;
	struct ms_companion *process; /* NULL: not installed */
	struct state state;
	struct early early; /* written and read by one thread: a forked child has one */
} service;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

const struct ms_trigger_settings *ms_trigger_settings(void)
{
	return &service.settings;
}

/* ---- in the process beside ---- */

struct writing {
	struct ms_sink sink; /* first */
	struct ms_answer *answer;
};

static bool put(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct ms_answer *answer = ((struct writing *)sink)->answer;

	errno = 0;
	if (!ms_fd_write_all(answer->fd, bytes, len)) {
		answer->error = errno ? errno : EIO;
		return false;
	}
	return true;
}

/*
 * Say why there is no answer. Not by dprintf(), which takes a buffer from malloc, and that
 * belongs to the program.
 */
static void refuse(struct ms_answer *answer, const char *text, const char *advice)
{
	static const char mark[] = { MS_ANSWER_REFUSED };
	struct writing writing = { .answer = answer };
	char line[MS_ERROR_TEXT + 16];

	if (!answer->is_file && !put(&writing.sink, mark, sizeof(mark)))
		return;
	(void)snprintf(line, sizeof(line), "memscan: %s\n", text);
	if (put(&writing.sink, line, strlen(line)) && *advice) {
		(void)snprintf(line, sizeof(line), "memscan: %s\n", advice);
		(void)put(&writing.sink, line, strlen(line));
	}
}

static void write_leaks(struct ms_search *search)
{
	struct ms_answer *answer = search->ctx;
	struct writing writing = { .sink.write = put, .answer = answer };

	if (search->st) {
		ms_log("%s", search->err.text);
		refuse(answer, search->err.text, search->err.advice);
		return;
	}
	if (!ms_text_writer.write(&search->report, &writing.sink) && !answer->error)
		answer->error = ENOMEM;
}

static void tell_leaks(struct ms_answer *answer)
{
	struct ms_search *search = service.process->ctx;

	ms_search_release(search); /* of one that was killed */
	memset(search, 0, sizeof(*search));
	search->process = service.process;
	search->options.limit = LEAKS_LISTED;
	search->options.contents = true;
	search->limit_s = LIMIT_S;
	search->done = write_leaks;
	search->suppressed.files[0] =
		service.settings.suppressions[0] ? service.settings.suppressions : NULL;
	search->ctx = answer;
	if (!ms_search_enter(service.process->program)) {
		refuse(answer, "the process is searching itself already",
		       "try again when that search has ended");
		return;
	}
	ms_search_run(search);
	ms_search_leave();
	ms_search_release(search);
}

/* ---- stacks: memscan itself prints them, as naming what is on them takes more than is here ----
 */

/* What it says on its standard error. */
struct saying {
	int fd;       /* of this process; -1: it goes where ours goes */
	int fd_child; /* beyond the standard ones */
};

static struct saying saying_open(void)
{
	struct saying saying = { -1, -1 };
	int ends[2];

	/* It is read only when it has ended: then what is too much is lost. */
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return saying;
	saying.fd = ends[0];
	saying.fd_child = fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	(void)close(ends[1]);
	return saying;
}

static void saying_close(struct saying *saying)
{
	if (saying->fd >= 0)
		(void)close(saying->fd);
	if (saying->fd_child >= 0)
		(void)close(saying->fd_child);
}

/* Cut the first line off @text: returns it, without the program's name. */
static char *cut_line(char **text)
{
	static const char name[] = "memscan: ";
	char *line = *text;
	size_t len = strcspn(line, "\n");

	*text += len + (line[len] == '\n');
	line[len] = '\0';
	return strncmp(line, name, sizeof(name) - 1) ? line : line + sizeof(name) - 1;
}

static void hear_end(struct ms_answer *answer, const struct saying *saying, int status)
{
	char said[2 * MS_ERROR_TEXT] = "";
	char *rest = said;
	char own[MS_ERROR_TEXT];
	const char *text;

	if (saying->fd >= 0)
		(void)!read(saying->fd, said, sizeof(said) - 1);
	text = cut_line(&rest);
	if (!WIFEXITED(status)) {
		answer->error = ETIMEDOUT;
	} else if (WEXITSTATUS(status)) {
		(void)snprintf(own, sizeof(own), "%.120s stacks ended with status %d",
		               service.settings.memscan, WEXITSTATUS(status));
		refuse(answer, *text ? text : own, cut_line(&rest));
	} else if (*text) {
		ms_log("%s", text);
	}
}

static void tell_stacks(struct ms_answer *answer)
{
	const char *memscan = service.settings.memscan;
	char number[16];
	char name[] = "memscan";
	char command[] = "stacks";
	char *const argv[] = { name, command, number, NULL };
	char *const envp[] = { NULL };
	struct saying saying;
	int status = 0;
	pid_t child;

	(void)snprintf(number, sizeof(number), "%d", (int)service.process->program);
	if (!memscan[0]) {
		refuse(answer, "no program memscan was found beside the library",
		       "set " MS_ENV_MEMSCAN " to the path of memscan");
		return;
	}
	saying = saying_open();
	/* NOLINTBEGIN(clang-analyzer-unix.Vfork): system calls alone, on what is its own */
	child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): it only execs */
	if (!child) {
		sigset_t none;

		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		if (answer->fd == STDOUT_FILENO)
			(void)fcntl(answer->fd, F_SETFD, 0);
		else
			(void)dup2(answer->fd, STDOUT_FILENO);
		if (saying.fd_child >= 0)
			(void)dup2(saying.fd_child, STDERR_FILENO);
		(void)alarm(LIMIT_S);
		(void)execve(memscan, argv, envp);
		_exit(127);
	}
	/* NOLINTEND(clang-analyzer-unix.Vfork) */
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child < 0)
		answer->error = errno;
	else
		hear_end(answer, &saying, status);
	saying_close(&saying);
}

static void serve_kind(enum ms_request_kind kind)
{
	const char *folder = service.settings.folder;
	struct ms_answer answer = { .fd = -1 };

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
	uint32_t wanted = __atomic_exchange_n(&service.state.wanted, 0, __ATOMIC_ACQ_REL);

	if (wanted & MS_TELL_STACKS)
		serve_kind(MS_TELL_STACKS);
	if (wanted & MS_TELL_LEAKS)
		serve_kind(MS_TELL_LEAKS);
	if (wanted)
		return true;
	__atomic_store_n(&service.state.phase, CLOSING, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&service.state.wanted, __ATOMIC_SEQ_CST))
		return false;
	__atomic_store_n(&service.state.phase, SERVING, __ATOMIC_SEQ_CST);
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

static bool is_serving(void)
{
	return ms_companion_lives(service.process) &&
	       __atomic_load_n(&service.state.phase, __ATOMIC_SEQ_CST) == SERVING;
}

bool ms_trigger_is_answering(void)
{
	return service.state.owner == getpid() && ms_companion_lives(service.process);
}

/* Start the process beside, unless one will still see what was noted. */
static int start_if_needed(void)
{
	if (is_serving())
		return 0;
	/* It is at its last instructions; until then its memory is in use. */
	for (int i = 0; ms_companion_lives(service.process); i++) {
		if (i == WAITS_FOR_END)
			return ETIMEDOUT;
		(void)ms_companion_wait(service.process);
	}
	service.state.phase = SERVING;
	return ms_companion_begin(service.process);
}

/* The child may be one of vfork(), and this the parent's memory; then it is not looked at. */
static void keep_for_child(pid_t pid, uint32_t wanted)
{
	if (service.early.pid != pid)
		service.early = (struct early){ pid, 0 };
	service.early.wanted |= wanted;
}

int ms_trigger_request(uint32_t wanted)
{
	struct state *state = &service.state;
	pid_t owner = __atomic_load_n(&state->owner, __ATOMIC_SEQ_CST);
	uint64_t before;
	int error = 0;

	if (owner != getpid()) {
		keep_for_child(getpid(), wanted);
		return 0;
	}
	/* Nothing may lead this thread away, not even its cancellation, while it starts one. */
	before = ms_companion_block_signals();
	(void)__atomic_fetch_or(&state->wanted, wanted, __ATOMIC_SEQ_CST);
	do {
		/* The thread that starts one looks at what is wanted again, below. */
		if (__atomic_exchange_n(&state->starting, 1, __ATOMIC_SEQ_CST))
			break;
		error = start_if_needed();
		__atomic_store_n(&state->starting, 0, __ATOMIC_SEQ_CST);
	} while (!error && __atomic_load_n(&state->wanted, __ATOMIC_SEQ_CST) && !is_serving());
	ms_companion_restore_signals(before);
	return error;
}

/* Nothing here may block, raise SIGPIPE, or take much of the stack. */
static void tell_failure(int error)
{
	static const char text[] = "libmemunreachable: cannot start the process that answers: ";
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	const struct timespec at_once = { 0, 0 };
	const char *why = ms_error_text(error);
	char line[sizeof(text) + 64];
	size_t n = sizeof(text) - 1;
	size_t len = why ? strnlen(why, sizeof(line) - n - 1) : 0;

	memcpy(line, text, n);
	if (why)
		memcpy(line + n, why, len);
	n += len;
	line[n++] = '\n';
	if (syscall(SYS_ppoll, &ready, 1, &at_once, NULL, 0) == 1 && ready.revents == POLLOUT)
		(void)syscall(SYS_write, STDERR_FILENO, line, n);
}

static void answer(uint32_t wanted)
{
	int failed = ms_trigger_request(wanted);

	if (failed)
		tell_failure(failed);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	int error = errno;
	bool stacks = info->si_code == SI_QUEUE && info->si_value.sival_int == MS_TRIGGER_STACKS;

	(void)signal;
	(void)context;
	answer(stacks ? MS_TELL_STACKS : MS_TELL_LEAKS);
	errno = error;
}

/* The process beside that a forked child knows of is its parent's, and so is its memory. */
static void in_child(void)
{
	uint64_t before = ms_companion_block_signals();
	struct ms_search *search = service.process->ctx;
	struct early early = service.early;

	service.process->lives = 0;
	memset(search, 0, sizeof(*search));
	memset(&service.state, 0, sizeof(service.state));
	memset(&service.early, 0, sizeof(service.early));
	__atomic_store_n(&service.state.owner, getpid(), __ATOMIC_SEQ_CST);
	if (early.pid == getpid())
		answer(early.wanted);
	ms_companion_restore_signals(before);
}

/* A mapping with a name that says to memscan trigger: here is one, and this is its folder. */
static bool put_up_sign(void)
{
	char name[sizeof(MS_SIGN) + MS_FOLDER_BYTES];
	int fd;
	void *sign;

	(void)snprintf(name, sizeof(name), MS_SIGN "%s", service.settings.folder);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return false;
	sign = mmap(NULL, MS_PAGE_BYTES, PROT_NONE, MAP_PRIVATE, fd, 0);
	(void)close(fd);
	return sign != MAP_FAILED;
}

static bool make_service(void)
{
	struct ms_companion *process = ms_companion_new(sizeof(struct ms_search), serve);

	if (!process)
		return false;
	process->orphan = true;
	service.state.owner = getpid();
	service.process = process;
	(void)pthread_atfork(NULL, NULL, in_child);
	if (!put_up_sign())
		ms_log("memscan trigger cannot find this process: %s; use kill -%d instead",
		       strerror(errno), MS_TRIGGER_SIGNAL);
	return true;
}

static bool install(void)
{
	struct sigaction act = { .sa_sigaction = on_signal,
		                 .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

	if (!service.process && !make_service())
		return false;
	(void)sigfillset(&act.sa_mask);
	return !sigaction(MS_TRIGGER_SIGNAL, &act, NULL);
}

/* The user who starts it has fewer rights: a signal of theirs must not make it answer. */
static bool has_more_rights(void)
{
	return getauxval(AT_SECURE) != 0;
}

MS_EXPORT bool memunreachable_install_handler(void)
{
	const char *other = ms_search_other_checker();

	if (has_more_rights()) {
		ms_log("no handler installed: the process has more rights than the user who "
		       "started it; scan it from outside, as root");
		return false;
	}
	if (other) {
		ms_log("no handler installed: the process runs under %s", other);
		return false;
	}
	/* What is said of the folder at the first time stays true. */
	if (!service.process)
		ms_trigger_read_settings(&service.settings);
	if (!install()) {
		ms_log("cannot install the handler of signal %d: %s", MS_TRIGGER_SIGNAL,
		       strerror(errno));
		return false;
	}
	return true;
}

bool ms_trigger_begin(void)
{
	struct sigaction before;

	if (has_more_rights() || ms_search_other_checker())
		return false;
	ms_trigger_read_settings(&service.settings);
	return !service.settings.off && !sigaction(MS_TRIGGER_SIGNAL, NULL, &before) &&
	       before.sa_handler == SIG_DFL && install();
}
