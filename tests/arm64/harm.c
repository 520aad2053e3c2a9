/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harm BUILD [SCANS] [KILLS] [SEED]: is a target harmed by scans, or by a memscan that is killed?
 *
 * Sleeping calls: of a thread asleep in each of the system calls that programs sleep in
 * (tests/targets/blocked.c), none returns. Kills: each of memscan's three processes in turn is
 * killed at a random moment of a scan of a program that checks itself (tests/targets/busy.c), half
 * of them when the target was just held. It is what tests/e2e/test_blocked.py and test_kills.py
 * do; a Python takes longer to look at a process in an emulator than the scan takes.
 */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LIMIT_MS = 300 * 1000, /* the emulator may get little of a processor */
	BEAT_MS = 20,
	LIVE = 2000,
	ROUND_US = 2000,
	PATH = 4096,
	MOST_CHILDREN = 256,
	HELD_MOST_US = 3000,
	EACH = 10, /* kills to a line of progress */
};

static const char *const roles[] = { "memscan", "memscan-collect", "memscan-sweep" };
static const char *const counters[] = { "malloc", "compute", "sleep", "process", "alarms" };
enum { ROLES = 3, COUNTERS = 5 };

static const char *build;
static char doing[128] = "start"; /* for the report of what went wrong */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

__attribute__((format(printf, 1, 2), noreturn)) static void harmed(const char *format, ...)
{
	va_list args;

	printf("FAILED, %s: ", doing);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

/* ---- processes ---- */

struct target {
	pid_t pid;
	int in, out;
	char unread[1 << 16];
	size_t n;
};

static pid_t start(char *const argv[], int in, int out, int err)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	dup2(in, 0);
	dup2(out, 1);
	if (err >= 0)
		dup2(err, 2);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	execv(argv[0], argv);
	_exit(127);
}

static void target_start(struct target *t, char *const argv[])
{
	int in[2];
	int out[2];

	memset(t, 0, sizeof(*t));
	if (pipe(in) || pipe(out))
		harmed("no pipes");
	t->pid = start(argv, in[0], out[1], -1);
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
}

static void target_take(struct target *t)
{
	ssize_t n = read(t->out, t->unread + t->n, sizeof(t->unread) - t->n - 1);
	int status = 0;

	if (n <= 0) {
		waitpid(t->pid, &status, 0);
		harmed("the target ended, status %#x: %s", (unsigned)status, t->unread);
	}
	t->n += (size_t)n;
	t->unread[t->n] = '\0';
	if (strstr(t->unread, "WRONG"))
		harmed("the target computes wrong: %s", t->unread);
}

static bool target_has_more(const struct target *t, int ms)
{
	struct pollfd ready = { .fd = t->out, .events = POLLIN };

	return poll(&ready, 1, ms) == 1;
}

/* The next line, without its end. */
static const char *target_line(struct target *t)
{
	static char line[1 << 16];
	uint64_t since = now_ms();
	char *end;

	while (!(end = strchr(t->unread, '\n'))) {
		if (target_has_more(t, 1000))
			target_take(t);
		else if (now_ms() - since > LIMIT_MS)
			harmed("the target says nothing any more");
	}
	*end = '\0';
	memcpy(line, t->unread, (size_t)(end - t->unread) + 1);
	t->n -= (size_t)(end + 1 - t->unread);
	memmove(t->unread, end + 1, t->n + 1);
	return line;
}

/* Its status. */
static int target_end(struct target *t)
{
	uint64_t since = now_ms();
	int status;

	close(t->in);
	while (!waitpid(t->pid, &status, WNOHANG)) {
		if (now_ms() - since > LIMIT_MS)
			harmed("the target does not end");
		while (target_has_more(t, 0) && read(t->out, t->unread, sizeof(t->unread)) > 0)
			;
		usleep(ROUND_US);
	}
	close(t->out);
	return status;
}

/* ---- what /proc says ---- */

static bool read_file(const char *path, char *ret, size_t bytes)
{
	FILE *file = fopen(path, "r");
	size_t n = file ? fread(ret, 1, bytes - 1, file) : 0;

	if (file)
		fclose(file);
	ret[n] = '\0';
	return n > 0;
}

/* Call @see for each thread of @pid, with its folder, until it answers false; that is answered. */
static bool each_thread(pid_t pid, bool (*see)(const char *folder, void *ctx), void *ctx)
{
	char path[PATH];
	const struct dirent *entry;
	bool goes_on = true;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && goes_on && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s", (int)pid, entry->d_name);
		goes_on = see(path, ctx);
	}
	if (dir)
		closedir(dir);
	return goes_on;
}

static bool thread_is_free(const char *folder, void *ctx)
{
	char path[PATH + 16];
	char text[4096];

	(void)ctx;
	snprintf(path, sizeof(path), "%s/status", folder);
	if (!read_file(path, text, sizeof(text)))
		return true;
	return strstr(text, "TracerPid:\t0\n") && !strstr(text, "State:\tt") &&
	       !strstr(text, "State:\tT");
}

static bool is_free(pid_t pid)
{
	return each_thread(pid, thread_is_free, NULL);
}

struct children {
	pid_t at[MOST_CHILDREN];
	size_t n;
};

static bool add_children(const char *folder, void *ctx)
{
	struct children *children = ctx;
	char path[PATH + 16];
	char text[4096];
	char *at = text;
	char *end;

	snprintf(path, sizeof(path), "%s/children", folder);
	read_file(path, text, sizeof(text));
	for (long pid; children->n < MOST_CHILDREN && (pid = strtol(at, &end, 10), end != at);
	     at = end)
		children->at[children->n++] = (pid_t)pid;
	return true;
}

static struct children children_of(pid_t pid)
{
	struct children ret = { .n = 0 };

	each_thread(pid, add_children, &ret);
	return ret;
}

static bool is_called(pid_t pid, const char *name)
{
	char path[PATH];
	char text[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (!read_file(path, text, sizeof(text)))
		return false;
	text[strcspn(text, "\n")] = '\0';
	return !strcmp(text, name);
}

/* ---- memscan ---- */

static pid_t memscan(pid_t pid, const char *how)
{
	static FILE *nothing, *said;
	char path[PATH];
	char number[16];
	char *argv[] = {
		path, "--pid", number, "--json", "--snapshot", (char *)(uintptr_t)how, NULL
	};

	if (!nothing)
		nothing = fopen("/dev/null", "r+");
	if (!said)
		said = fopen("/tmp/harm.said", "w+");
	snprintf(path, sizeof(path), "%s/memscan", build);
	snprintf(number, sizeof(number), "%d", (int)pid);
	return start(argv, fileno(nothing), fileno(nothing), fileno(said));
}

static int end_of(pid_t pid)
{
	uint64_t since = now_ms();
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (now_ms() - since > LIMIT_MS) {
			kill(pid, SIGKILL);
			harmed("memscan hung");
		}
		usleep(ROUND_US);
	}
	return status;
}

static bool is_done(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) <= 1;
}

static void scan(pid_t pid, const char *how)
{
	int status = end_of(memscan(pid, how));

	if (!is_done(status))
		harmed("%s: status %#x; see /tmp/harm.said", how, (unsigned)status);
}

static const char *const hows[] = { "fork", "copy" };

/* ---- sleeping calls ---- */

static void check_calls(unsigned long scans)
{
	char path[PATH];
	char *argv[] = { path, NULL };
	static struct target t;
	const char *said;

	snprintf(path, sizeof(path), "%s/targets/blocked", build);
	target_start(&t, argv);
	if (strcmp(target_line(&t), "READY") != 0)
		harmed("the target is not ready");
	for (unsigned long i = 0; i < scans; i++) {
		snprintf(doing, sizeof(doing), "sleeping calls, scan %lu", i);
		scan(t.pid, hows[i % 2]);
	}
	if (write(t.in, "stop\n", 5) != 5)
		harmed("write");
	said = target_line(&t);
	if (strcmp(said, "eintr 0") != 0)
		harmed("%s; %s", said, target_line(&t));
	kill(t.pid, SIGKILL);
	target_end(&t);
	printf("sleeping calls: %lu scans, no call returned\n", scans);
}

/* ---- kills ---- */

struct beat {
	unsigned long count[COUNTERS];
	unsigned long eintr;
};

static unsigned long word_of(const char *line, const char *name)
{
	char wanted[32];
	const char *at;

	snprintf(wanted, sizeof(wanted), "%s ", name);
	at = strstr(line, wanted);
	if (!at)
		harmed("no %s in: %s", name, line);
	return strtoul(at + strlen(wanted), NULL, 10);
}

/* The next that was not yet there when this was called. */
static struct beat next_beat(struct target *t)
{
	const char *line;
	char *last;
	struct beat ret;

	while (target_has_more(t, 0) && t->n < sizeof(t->unread) / 2)
		target_take(t);
	last = strrchr(t->unread, '\n');
	if (last) {
		t->n -= (size_t)(last + 1 - t->unread);
		memmove(t->unread, last + 1, t->n + 1);
	}
	line = target_line(t);
	for (int i = 0; i < COUNTERS; i++)
		ret.count[i] = word_of(line, counters[i]);
	ret.eintr = word_of(line, "eintr");
	return ret;
}

static bool has_one_of(const struct children *these, const struct children *those)
{
	for (size_t i = 0; i < these->n; i++)
		for (size_t k = 0; k < those->n; k++)
			if (these->at[i] == those->at[k])
				return true;
	return false;
}

static bool all_went_on(const struct beat *before, const struct beat *now)
{
	for (int i = 0; i < COUNTERS; i++)
		if (now->count[i] <= before->count[i])
			return false;
	return true;
}

static void check_unharmed(struct target *t)
{
	uint64_t since = now_ms();
	struct children strange;
	struct children now;
	struct beat before;
	struct beat after;

	while (!is_free(t->pid)) {
		if (now_ms() - since > LIMIT_MS)
			harmed("the target stays stopped, or traced");
		usleep(ROUND_US);
	}
	strange = children_of(t->pid);
	do {
		if (now_ms() - since > LIMIT_MS)
			harmed("the target keeps a strange child");
		now = children_of(t->pid);
	} while (has_one_of(&strange, &now));
	before = next_beat(t);
	do {
		if (now_ms() - since > LIMIT_MS)
			harmed("a thread of the target stands");
		after = next_beat(t);
	} while (!all_went_on(&before, &after));
}

static pid_t victim_of(pid_t memscan, const char *role)
{
	struct children children;

	if (!strcmp(role, "memscan"))
		return memscan;
	children = children_of(memscan);
	for (size_t i = 0; i < children.n; i++)
		if (is_called(children.at[i], role))
			return children.at[i];
	return 0;
}

enum stage { TOO_LATE, FREE, HELD, STAGES };

struct moment {
	const char *how, *role;
	bool when_held; /* wait until the target is held, first */
	useconds_t us;
};

/* One scan and one kill. */
static enum stage kill_one(const struct target *t, struct moment moment)
{
	pid_t pid = memscan(t->pid, moment.how);
	enum stage stage = TOO_LATE;
	uint64_t since = now_ms();
	siginfo_t ended;
	pid_t victim;

	ended.si_pid = 0;
	while (moment.when_held && is_free(t->pid) && now_ms() - since < LIMIT_MS) {
		ended.si_pid = 0;
		if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid)
			break;
	}
	usleep(moment.us);
	victim = victim_of(pid, moment.role);
	if (victim) {
		bool held = !is_free(t->pid);

		if (!kill(victim, SIGKILL))
			stage = held ? HELD : FREE;
	}
	return is_done(end_of(pid)) ? TOO_LATE : stage;
}

static void check_kills(unsigned long kills, unsigned seed)
{
	char path[PATH];
	char beat_ms[16];
	char live[16];
	char *argv[] = { path, beat_ms, live, NULL };
	unsigned long stages[STAGES] = { 0 };
	uint64_t began = now_ms();
	uint64_t whole = UINT64_MAX;
	unsigned long done = 0;
	static struct target t;
	int status;

	srandom(seed);
	snprintf(path, sizeof(path), "%s/targets/busy", build);
	snprintf(beat_ms, sizeof(beat_ms), "%d", BEAT_MS);
	snprintf(live, sizeof(live), "%d", LIVE);
	target_start(&t, argv);
	if (strncmp(target_line(&t), "READY", 5) != 0)
		harmed("the target is not ready");
	for (int i = 0; i < 3; i++) {
		uint64_t since = now_ms();

		scan(t.pid, "fork");
		whole = now_ms() - since < whole ? now_ms() - since : whole;
	}
	printf("kills: seed %u, a scan takes %llu ms\n", seed, (unsigned long long)whole);
	while (done < kills) {
		struct moment moment = { .how = hows[done % 2], .role = roles[done / 2 % ROLES] };
		enum stage stage;

		/*
		 * A collection process that dies while it leads a thread out of malloc leaves its
		 * breakpoints in the process: of a clone that is the clone.
		 */
		if (moment.role == roles[1])
			moment.how = "fork";
		moment.when_held = random() & 1;
		moment.us = (useconds_t)((uint64_t)random() %
		                         (moment.when_held ? HELD_MOST_US : whole * 1000 + 1));
		snprintf(doing, sizeof(doing), "%s killed (%s, %s), after %lu kills, seed %u",
		         moment.role, moment.how, moment.when_held ? "held" : "any time", done,
		         seed);
		stage = kill_one(&t, moment);
		stages[stage]++;
		check_unharmed(&t);
		done += stage != TOO_LATE;
		if (stage != TOO_LATE && done % EACH == 0)
			printf("kills: %lu after %llu s, %lu held, %lu too late\n", done,
			       (unsigned long long)(now_ms() - began) / 1000, stages[HELD],
			       stages[TOO_LATE]);
		if (stages[TOO_LATE] > 5 * kills + 30)
			harmed("hardly a kill finds its process");
	}
	snprintf(doing, sizeof(doing), "the end, seed %u", seed);
	scan(t.pid, "fork");
	check_unharmed(&t);
	printf("kills: %lu, %lu while the target was held; %lu came too late; epoll_wait returned EINTR %lu times\n",
	       done, stages[HELD], stages[TOO_LATE], next_beat(&t).eintr);
	status = target_end(&t);
	if (status)
		harmed("the target's status %#x", (unsigned)status);
}

int main(int argc, char **argv)
{
	unsigned long scans = argc > 2 ? strtoul(argv[2], NULL, 10) : 20;
	unsigned long kills = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;

	if (argc < 2)
		return 2;
	build = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	if (scans)
		check_calls(scans);
	if (kills)
		check_kills(kills,
		            argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : (unsigned)time(NULL));
	return 0;
}
