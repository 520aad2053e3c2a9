/* SPDX-License-Identifier: Apache-2.0 */

/*
 * memscan stacks PID: every thread's stack.
 *
 * The process stands while registers and stacks are copied. Unwinding and naming follow
 * tables and files that are the target's to forge, by libraries that others wrote; so
 * they happen in a process of their own, which may hang or die of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/tell.h"
#include "report/stacks.h"
#include "sym/symbols.h"
#include "target/proc.h"
#include "target/stacks/stacks.h"
#include "target/target.h"

static const uint64_t second_ns = UINT64_C(1000000000);

enum {
	FREEZE_S = 30,
	UNWIND_S = 20, /* of the worker's time */
	WORK_S = 60,
	MOST_TEXT = 512 << 20,
	PIECE = 64 * 1024,
};

static const char usage[] =
	"Usage: memscan stacks PID\n"
	"Print the stack of every thread of a running process, as debuggerd -b does.\n"
	"PID may be the id of any of its threads.\n\n"
	"  -h, --help  print this and end\n\n"
	"Exit status: 0 printed, 2 the call was wrong, 3 could not look at the process,\n"
	"4 the stacks could not be written.\n";

/* How a line begins that tells of a stack which could not be followed. */
static const char failed[] = "    Unwind failed: ";

struct text MS_VEC(char);

/* What the worker needs. */
struct job {
	const struct ms_stacks *stacks;
	struct ms_stack_dump dump;
	bool named; /* files are read */
};

/* ---- the worker ---- */

/* A sink into a pipe. */
struct pipe_sink {
	struct ms_sink base; /* first: writers hand it back */
	FILE *to;
};

static bool sink_write(struct ms_sink *base, const char *bytes, size_t len)
{
	return fwrite(bytes, 1, len, ((struct pipe_sink *)base)->to) == len;
}

static size_t read_stacks(const void *ctx, ms_addr addr, void *buf, size_t len)
{
	return ms_stacks_read(ctx, addr, buf, len);
}

static void name_frames(struct ms_symbols *symbols, struct ms_stack_dump *dump)
{
	struct ms_backtrace *trace;
	struct ms_frame *frame;

	ms_vec_for_each (trace, &dump->threads)
		ms_vec_for_each (frame, &trace->frames)
			ms_symbols_name(symbols, frame->pc, &frame->symbol);
}

/* The exit status: 0 when all is in the pipe. */
static int work(struct job *job, int fd)
{
	const struct ms_symbols_call call = {
		.tid = job->named ? job->stacks->living : 0,
		.maps = &job->stacks->maps,
		.read = read_stacks,
		.ctx = job->stacks,
	};
	struct pipe_sink sink = { .base = { sink_write, false }, .to = fdopen(fd, "w") };
	struct ms_symbols *symbols;
	struct ms_arena arena;
	struct ms_error err;

	bool done;

	if (!sink.to)
		return 1;
	ms_arena_init(&arena);
	done = !ms_stacks_unwind(job->stacks, ms_now_ns() + UNWIND_S * second_ns, &arena,
	                         &job->dump.threads, &err) &&
	       !ms_symbols_open(&call, &arena, &symbols, &err);
	if (done) {
		name_frames(symbols, &job->dump);
		done = ms_stacks_write(&job->dump, &sink.base);
	}
	/* Everything else goes with the process. */
	return fclose(sink.to) == 0 && done ? 0 : 1;
}

static pid_t start(struct job *job, int ends[2])
{
	pid_t original = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)close(ends[0]);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != original) /* it died before that took effect */
		_exit(1);
	(void)prctl(PR_SET_NAME, "memscan-unwind");
	_exit(work(job, ends[1]));
}

/* ---- the original ---- */

/* Read all that comes. False when the worker does not end in time, or there is too much. */
static bool collect(int fd, struct ms_arena *arena, struct text *ret)
{
	uint64_t deadline_ns = ms_now_ns() + WORK_S * second_ns;

	while (ret->n < MOST_TEXT && ms_now_ns() < deadline_ns) {
		struct pollfd ready = { fd, POLLIN, 0 };
		ssize_t n;

		if (poll(&ready, 1, 100) <= 0)
			continue;
		if (!ms_vec_reserve(arena, ret, ret->n + PIECE))
			return false;
		n = read(fd, ret->at + ret->n, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		ret->n += (size_t)n;
	}
	return false;
}

/* Have the worker do it. Returns MS_E_DIED when it did not come to an end. */
static enum ms_status have_worked(struct job *job, struct ms_arena *arena, struct text *ret,
                                  struct ms_error *err)
{
	int status = 0;
	int ends[2];
	pid_t pid;

	ret->n = 0;
	if (pipe(ends) != 0)
		return ms_fail_sys(err, errno, "no pipe for the stacks");
	pid = start(job, ends);
	(void)close(ends[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		return ms_fail_sys(err, errno, "cannot start the unwinding process");
	}
	if (!collect(ends[0], arena, ret))
		(void)kill(pid, SIGKILL);
	(void)close(ends[0]);
	(void)waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return MS_OK;
	return ms_fail(err, MS_E_DIED, "the process that unwound the stacks of %d did not finish",
	               (int)job->dump.pid);
}

static enum ms_status unwind(struct job *job, struct ms_arena *arena, struct text *ret,
                             struct ms_error *err)
{
	pid_t pid = job->dump.pid;
	enum ms_status st = have_worked(job, arena, ret, err);

	if (st == MS_E_DIED) {
		ms_tell("%s; functions are not named", err->text);
		job->named = false;
		st = have_worked(job, arena, ret, err);
	}
	/* Tables and code go with the process; what was unwound before that is good. */
	if (!st && ret->at && !ms_proc_living_thread(pid) &&
	    memmem(ret->at, ret->n, failed, strlen(failed)))
		st = ms_fail(err, MS_E_GONE, "process %d ended while its stacks were unwound",
		             (int)pid);
	return st;
}

static void format_time(int64_t at, char ret[64])
{
	time_t seconds = (time_t)(at / (int64_t)second_ns);
	char date[32] = "";
	char zone[16] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm)) {
		(void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
		(void)strftime(zone, sizeof(zone), "%z", &tm);
	}
	(void)snprintf(ret, 64, "%s.%09" PRId64 "%s", date, at % (int64_t)second_ns, zone);
}

/* The stacks of @pid as text. */
static enum ms_status dump(pid_t pid, struct ms_arena *arena, struct text *ret,
                           struct ms_error *err)
{
	struct ms_target_facts target;
	struct ms_host_facts host;
	struct ms_stacks stacks;
	struct job job = { .stacks = &stacks, .named = true };
	enum ms_status st;
	char at[64];

	ms_target_facts(pid, &target, &host);
	st = ms_stacks_take(pid, FREEZE_S * second_ns, arena, &stacks, err);
	if (!st) {
		format_time(stacks.shared->frozen_at, at);
		job.dump = (struct ms_stack_dump){
			.pid = pid,
			.time = at,
			.cmdline = target.cmdline,
			.cmdline_len = target.cmdline_len,
			.abi = target.arch,
		};
		st = unwind(&job, arena, ret, err);
	}
	ms_stacks_close(&stacks);
	return st;
}

static const char *advice(enum ms_status status)
{
	if (status == MS_E_GONE)
		return "look at it earlier in its life";
	if (status == MS_E_DENIED)
		return "run memscan as root, or as the user whose process it is";
	return "try again";
}

static int refuse(struct ms_error *err)
{
	if (!err->advice[0])
		ms_advise(err, "%s", advice(err->status));
	ms_tell_error(err);
	return MS_EXIT_REFUSED;
}

static int print(const char *text, size_t len)
{
	struct ms_error err;

	if (fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0)
		return MS_EXIT_CLEAN;
	(void)ms_fail_sys(&err, errno, "cannot write the stacks to standard output");
	ms_advise(&err, "give it a file or a pipe that takes them");
	ms_tell_error(&err);
	return MS_EXIT_UNWRITTEN;
}

static int wrong(const char *what, const char *word)
{
	struct ms_error err;

	(void)ms_fail(&err, MS_E_UNSUPPORTED, "%s%s", what, word);
	ms_advise(&err, "say which process: memscan stacks PID; see memscan stacks --help");
	ms_tell_error(&err);
	return MS_EXIT_USAGE;
}

/* Digits only; 0 when it is anything else. */
static pid_t parse_pid(const char *word)
{
	size_t len = strlen(word);
	unsigned long id = 0;

	if (len <= 10 && strspn(word, "0123456789") == len)
		id = strtoul(word, NULL, 10);
	return id <= INT_MAX ? (pid_t)id : 0;
}

int ms_cmd_stacks(int argc, char **argv)
{
	struct text text = { 0 };
	struct ms_arena arena;
	struct ms_error err;
	pid_t pid;
	int status;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
			return print(usage, strlen(usage));
		if (argv[i][0] == '-')
			return wrong("there is no option ", argv[i]);
	}
	if (argc < 2)
		return wrong("no process was given", "");
	if (argc > 2)
		return wrong("one process at a time: unexpected ", argv[2]);
	pid = parse_pid(argv[1]);
	if (pid == 0)
		return wrong("this is not the id of a process: ", argv[1]);
	if (ms_target_check(pid, &pid, &err))
		return refuse(&err);
	ms_arena_init(&arena);
	if (dump(pid, &arena, &text, &err))
		status = refuse(&err);
	else
		status = print(text.at, text.n);
	ms_arena_deinit(&arena);
	return status;
}
