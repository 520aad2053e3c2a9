/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share. They search their own memory by
 * libmemunreachable: `PROGRAM CASE` tries one case, prints "ok" or what was wrong, and
 * ends with 0 or 1; `PROGRAM list` names the cases.
 *
 * A block is lost by keeping its address inverted, in `hidden`. Before each search
 * forget() clears what the compiler left of it in dead stack and registers (truth.h).
 *
 * After each case nothing of the library's may be left: no descriptor, no child, no
 * thread, and repeated searches need no more mappings than the first.
 */
#ifndef MEMSCAN_TESTS_TARGETS_API_H
#define MEMSCAN_TESTS_TARGETS_API_H

#include "../truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "memunreachable/memunreachable.h"

enum { BLOCK = 256, LIMIT = 100, N_HIDDEN = 1024, MAX_FDS = 4096, NOBODY = 65534 };

#if defined(__aarch64__)
#define ABI_NAME "arm64"
#else
#define ABI_NAME "x86_64"
#endif

struct api_case {
	const char *name;
	void (*run)(void);
};

/* Inverted addresses; 0: none. */
static volatile uintptr_t hidden[N_HIDDEN];

/*
 * Blocks behind them, which stay alive. The header of the chunk behind a block begins in
 * the block's last word, so malloc and whoever called it for the next block may have an
 * address in their frames that points into the hidden one.
 */
static void *volatile fences[N_HIDDEN];

/* Set by a case that says "ok" itself, later. */
static volatile bool ends_later;

/* Search this process and count what is unreachable; each language in its own way. */
static bool search(size_t *ret_leaks);

__attribute__((format(printf, 2, 3), noreturn, cold)) static void fail(int line, const char *format,
                                                                       ...)
{
	va_list args;

	dprintf(STDOUT_FILENO, "line %d: ", line);
	va_start(args, format);
	vdprintf(STDOUT_FILENO, format, args);
	va_end(args);
	say_text("\n");
	_exit(1);
}

#define EXPECT(condition, ...)                       \
	do {                                         \
		if (!(condition))                    \
			fail(__LINE__, __VA_ARGS__); \
	} while (0)

/* ---- blocks that only this file could find ---- */

NOINLINE UNUSED static void hide_new(size_t i, size_t size)
{
	hidden[i] = ~(uintptr_t)fresh(size);
	fences[i] = fresh(8);
}

NOINLINE UNUSED static void *revealed(size_t i)
{
	return (void *)~hidden[i];
}

NOINLINE UNUSED static size_t usable_size(size_t i)
{
	return malloc_usable_size(revealed(i));
}

/* In one call, so that nobody holds the address between. */
NOINLINE UNUSED static void point_to(size_t from, size_t word, size_t to)
{
	((void **)revealed(from))[word] = revealed(to);
}

/* All its bytes @byte, and then @text at its beginning. */
NOINLINE UNUSED static void fill_hidden(size_t i, int byte, const char *text)
{
	char *at = (char *)memset(revealed(i), byte, usable_size(i));

	memcpy(at, text, strlen(text));
}

NOINLINE UNUSED static size_t lowest_hidden(size_t n)
{
	size_t lowest = 0;

	for (size_t i = 1; i < n; i++)
		if (~hidden[i] < ~hidden[lowest])
			lowest = i;
	return lowest;
}

NOINLINE UNUSED static bool is_hidden(size_t i, uintptr_t address)
{
	return ~address == hidden[i];
}

NOINLINE UNUSED static void free_hidden(size_t i)
{
	free(revealed(i));
	hidden[i] = 0;
	free(fences[i]);
	fences[i] = NULL;
}

/* ---- searching ---- */

NOINLINE UNUSED static void expect_leaks_at(int line, size_t wanted)
{
	size_t found = 0;

	if (!search(&found))
		fail(line, "the search failed");
	if (found != wanted)
		fail(line, "%zu leaks, not %zu", found, wanted);
}

/* Forgets in the case's own frame: one that is made later would have old words in it. */
#define EXPECT_LEAKS(n) (forget(), expect_leaks_at(__LINE__, n))

NOINLINE UNUSED static void expect_refusal_at(int line)
{
	size_t found = 12345;

	if (search(&found))
		fail(line, "the search did not fail");
	if (found != 12345)
		fail(line, "a failed search told %zu leaks", found);
}

#define EXPECT_REFUSAL() (forget(), expect_refusal_at(__LINE__))

/* A user without privileges, who may be searched until he forbids it. */
UNUSED static void become_nobody(void)
{
	if (!geteuid())
		EXPECT(!setuid(NOBODY), "setuid: %s", strerror(errno));
	EXPECT(!prctl(PR_SET_DUMPABLE, 1), "prctl: %s", strerror(errno));
}

/* ---- what is left behind ---- */

/* By number, because a list would need a descriptor. */
UNUSED static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < MAX_FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Of this thread's task: the leader's says nothing once it ended. */
UNUSED static int count_mappings(void)
{
	static char text[4096];
	int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	ssize_t len;
	int n = 0;

	EXPECT(fd >= 0, "maps: %s", strerror(errno));
	while ((len = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < len; i++)
			n += text[i] == '\n';
	close(fd);
	return n;
}

/* A thread that was joined is listed a moment longer. */
UNUSED static int count_threads_but(int wanted)
{
	struct stat folder;
	int n = 0;

	for (int i = 0; i < 1000; i++) {
		EXPECT(!stat("/proc/self/task", &folder), "task: %s", strerror(errno));
		n = (int)folder.st_nlink - 2;
		if (n == wanted)
			break;
		usleep(1000);
	}
	return n;
}

/* A shim before malloc maps each part of its table when the first block is there. */
UNUSED static void allocate_here_and_there(void)
{
	static void *volatile p[4096];

	for (int i = 0; i < 4096; i++)
		p[i] = malloc(16);
	for (int i = 0; i < 4096; i++) {
		free(p[i]);
		p[i] = NULL;
	}
}

UNUSED static void expect_nothing_left(int fds, int threads)
{
	int status, before, after;
	pid_t child;
	size_t found;

	allocate_here_and_there();
	(void)search(&found);
	before = count_mappings();
	for (int i = 0; i < 5; i++)
		(void)search(&found);
	after = count_mappings();
	EXPECT(before == after, "%d mappings after a search, %d after six", before, after);
	child = waitpid(-1, &status, __WALL | WNOHANG);
	EXPECT(child == -1 && errno == ECHILD, "a child is left: %d", (int)child);
	EXPECT(count_fds() == fds, "%d descriptors, not %d", count_fds(), fds);
	EXPECT(count_threads_but(threads) == threads, "%d threads, not %d",
	       count_threads_but(threads), threads);
}

UNUSED static int run_case(const struct api_case *cases, size_t n, int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "list";
	int fds = count_fds();

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(name, "list")) {
			say_text(cases[i].name);
			say_text("\n");
		} else if (!strcmp(name, cases[i].name)) {
			cases[i].run();
			if (ends_later)
				return 0;
			expect_nothing_left(fds, 1);
			say_text("ok\n");
			return 0;
		}
	}
	EXPECT(!strcmp(name, "list"), "no case %s", name);
	return 0;
}

#define RUN_CASE(cases, argc, argv) run_case(cases, sizeof(cases) / sizeof((cases)[0]), argc, argv)

#ifndef __cplusplus
static bool search(size_t *ret_leaks)
{
	struct UnreachableMemoryInfo info = { 0 };

	if (!GetUnreachableMemory(&info, LIMIT))
		return false;
	*ret_leaks = info.num_leaks;
	FreeUnreachableMemory(&info);
	return true;
}
#endif

#endif
