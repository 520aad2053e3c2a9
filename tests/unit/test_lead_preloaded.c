/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads caught inside an allocator that a library brings, and led out of it. The program
 * is this one, run once more with the library preloaded. lsan: off; check: alone
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"
#include "sanitized.h"
#include "target/freeze/inside.h"

/* How often a thread is caught inside depends on the machine: so often, or until enough were. */
enum { CLONES = 8, MOST_CLONES = 200, ENOUGH = 5 };
enum { THREADS = 4, SLOTS = 512, PATIENCE_MS = 20000 };

#define FOLDER "/usr/lib/x86_64-linux-gnu/"

struct library {
	char path[64];
	char setting[48]; /* of the environment */
};

static struct library libraries[] = {
	{ FOLDER "libjemalloc.so.2", "" },
	{ FOLDER "libjemalloc.so.2", "MALLOC_CONF=narenas:1,tcache:false" },
	{ FOLDER "libjemalloc.so.2", "MALLOC_CONF=background_thread:true" },
	{ FOLDER "libtcmalloc.so.4", "" },
	{ FOLDER "libtcmalloc_minimal.so.4", "" },
	{ FOLDER "libmimalloc.so.2", "" },
};

TestSuite(lead_preloaded, .timeout = 120);

/* ---- the program ---- */

static void *allocate(void *arg)
{
	void **slots = calloc(SLOTS, sizeof(*slots));
	unsigned random = (unsigned)(uintptr_t)arg + 1;

	for (;;) {
		size_t i = (random = random * 1103515245 + 12345) >> 8 & (SLOTS - 1);
		size_t size = random & 0x700000 ? random >> 16 & 0xfff : random >> 13;

		free(slots[i]);
		slots[i] = malloc(size);
		if (size)
			memset(slots[i], 1, size < 64 ? size : 64);
	}
	return arg;
}

static void *sleep_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Before Criterion: be the program, when asked to. */
static void __attribute__((constructor)) be_program(void)
{
	const char *what = getenv("LEAD_PRELOADED");
	pthread_t thread;

	if (!what)
		return;
	for (uintptr_t i = 1; i < THREADS; i++)
		(void)pthread_create(&thread, NULL, *what == 'a' ? allocate : sleep_for_ever,
		                     (void *)i);
	(void)setpgid(0, 0); /* which is how the test knows that all of them are there */
	(void)(*what == 'a' ? allocate : sleep_for_ever)(NULL);
}

struct start {
	struct library *library;
	const char *what;
};

static void exec_program(void *arg)
{
	const struct start *start = arg;

	child_ready();
	(void)setenv("LD_PRELOAD", start->library->path, 1);
	if (start->library->setting[0])
		(void)putenv(start->library->setting);
	(void)setenv("LEAD_PRELOADED", start->what, 1);
	(void)execl("/proc/self/exe", "lead_preloaded", NULL);
}

static pid_t start_program(struct library *library, const char *what)
{
	struct start start = { library, what };
	pid_t pid = child_start(exec_program, &start);

	for (int i = 0; i < PATIENCE_MS && getpgid(pid) != pid; i++)
		(void)usleep(1000);
	cr_assert_eq(getpgid(pid), pid, "%s does not run", library->path);
	return pid;
}

/* ---- what is seen of it ---- */

struct sum {
	unsigned inside; /* caught there */
	unsigned led;
	unsigned left; /* at work inside still */
};

/* @enough: to be caught inside, and to be led out, if need be by more clones */
static struct sum clone_often(pid_t pid, unsigned enough)
{
	struct sum sum = { 0 };

	for (int i = 0;
	     i < CLONES || (i < MOST_CLONES && (sum.inside < enough || sum.led < enough)); i++) {
		const struct ms_thread *t;
		struct ms_source *source;
		struct held held;

		cr_assert_eq(held_fork(&held, pid, &source), MS_OK, "%s", held.err.text);
		ms_inside_mark(held.shared, source);
		ms_vec_for_each (t, &source->threads)
			sum.left += t->in_malloc == MS_MALLOC_WORKS;
		sum.inside += held.shared->n_inside;
		sum.led += held.shared->n_rolled;
		source->ops->close(source);
		held_end(&held);
	}
	child_end(pid);
	return sum;
}

static bool is_missing(const struct library *library)
{
	bool missing = access(library->path, R_OK);

	/* Criterion counts a skipped case of a table as a failed one. */
	if (missing)
		fprintf(stderr, "%s is not installed; tools/install-deps check\n", library->path);
	return missing || SANITIZED;
}

ParameterizedTestParameters(lead_preloaded, who_allocates_is_led_out)
{
	return cr_make_param_array(struct library, libraries,
	                           sizeof(libraries) / sizeof(libraries[0]));
}

ParameterizedTest(struct library *library, lead_preloaded, who_allocates_is_led_out)
{
	struct sum sum;

	if (is_missing(library))
		return;
	sum = clone_often(start_program(library, "allocates"), ENOUGH);
	cr_expect_geq(sum.inside, ENOUGH, "%s: hardly ever caught inside", library->path);
	cr_expect_geq(sum.led, ENOUGH, "%s: hardly ever led out", library->path);
	/* One may be about to start jemalloc's thread in the background, which no clone may. */
	cr_expect_leq(sum.left, 1, "%s %s", library->path, library->setting);
}

ParameterizedTestParameters(lead_preloaded, who_sleeps_is_outside)
{
	return cr_make_param_array(struct library, libraries,
	                           sizeof(libraries) / sizeof(libraries[0]));
}

ParameterizedTest(struct library *library, lead_preloaded, who_sleeps_is_outside)
{
	struct sum sum;

	if (is_missing(library))
		return;
	sum = clone_often(start_program(library, "sleeps"), 0);
	cr_expect_eq(sum.inside, 0, "%s", library->path);
	cr_expect_eq(sum.led, 0, "%s", library->path);
	cr_expect_eq(sum.left, 0, "%s", library->path);
}

/* The program itself, where it cannot be cloned: it must live on. */
ParameterizedTestParameters(lead_preloaded, who_allocates_is_rolled)
{
	return cr_make_param_array(struct library, libraries,
	                           sizeof(libraries) / sizeof(libraries[0]));
}

ParameterizedTest(struct library *library, lead_preloaded, who_allocates_is_rolled)
{
	unsigned rolled = 0;
	unsigned stuck = 0;
	pid_t pid;

	if (is_missing(library))
		return;
	pid = start_program(library, "allocates");
	for (int i = 0; i < CLONES || (i < MOST_CLONES && rolled < ENOUGH); i++) {
		struct held held;

		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		rolled += held.shared->n_rolled;
		stuck += held.shared->n_unrolled;
		cr_assert_eq(held_release(&held), MS_OK);
	}
	cr_expect_geq(rolled, ENOUGH, "%s: hardly ever caught inside", library->path);
	if (child_meets_breakpoints())
		cr_expect_eq(stuck, 0, "%s %s", library->path, library->setting);
	cr_expect_eq(waitpid(pid, NULL, WNOHANG), 0, "%s: it is gone", library->path);
	child_end(pid);
}
