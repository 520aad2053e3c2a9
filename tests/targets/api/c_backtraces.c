/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where leaks were allocated, told by libmemunreachable when libmalloc_debug.so keeps
 * backtraces, and else not told; see api.h.
 */
#include "api.h"

#include <pthread.h>
#include <sys/mman.h>

#include "memunreachable/annotate.h"

void __lsan_ignore_object(const void *p);

enum { SIZE = 100, DEPTH = 40, THREADS = 3, ROUNDS = 6, TEXT_BYTES = 64 * 1024 };

/* What is called last may else leave no frame of its caller. */
#define KEEP_FRAME() __asm__ volatile("")

static bool kept;  /* backtraces are */
static bool exact; /* sizes are */

static void ask_environment(void)
{
	const char *options = getenv("LIBC_DEBUG_MALLOC_OPTIONS");
	const char *preload = getenv("LD_PRELOAD");

	exact = options && *options && preload && strstr(preload, "libmalloc_debug");
	kept = exact && strstr(options, "backtrace");
}

/* ---- who leaks ---- */

NOINLINE static void pool_grow(size_t i)
{
	hide_new(i, SIZE);
	KEEP_FRAME();
}

NOINLINE static void cache_fill(size_t i)
{
	pool_grow(i);
	KEEP_FRAME();
}

NOINLINE static void other_fill(size_t i)
{
	pool_grow(i);
	KEEP_FRAME();
}

NOINLINE static void sink(size_t i, unsigned depth)
{
	if (depth)
		sink(i, depth - 1);
	else
		pool_grow(i);
	KEEP_FRAME();
}

/* ---- what is told ---- */

/* The one leak listed, with @behind more like it. */
static struct UnreachableMemoryLeak only_leak(size_t behind)
{
	struct UnreachableMemoryInfo info = { 0 };
	struct UnreachableMemoryLeak leak;

	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.num_leaks == 1 + behind, "%zu leaks", info.num_leaks);
	EXPECT(info.num_listed == 1 + (kept ? 0 : behind), "%zu listed", info.num_listed);
	leak = info.leaks[0];
	FreeUnreachableMemory(&info);
	return leak;
}

static void frames(void)
{
	struct UnreachableMemoryLeak leak;
	char text[TEXT_BYTES];

	cache_fill(0);
	forget();
	leak = only_leak(0);
	EXPECT(is_hidden(0, leak.begin), "another block");
	EXPECT(!exact || leak.size == SIZE, "%zu bytes", leak.size);
	EXPECT(!kept == !leak.backtrace.num_frames, "%zu frames", leak.backtrace.num_frames);
	memunreachable_leak_text(&leak, false, text, sizeof(text));
	EXPECT(!kept == !strstr(text, "(cache_fill+"), "%s", text);
	if (!kept)
		return;
	EXPECT(leak.backtrace.num_frames > 4, "%zu frames", leak.backtrace.num_frames);
	EXPECT(leak.backtrace.frames[2] - (uintptr_t)pool_grow < 64, "not where it was allocated");
	EXPECT(strstr(text, "          #00  pc "), "%s", text);
	EXPECT(strstr(text, "/c_backtraces (fresh+") || strstr(text, "-archived (fresh+"), "%s",
	       text);
}

static void similar(void)
{
	struct UnreachableMemoryLeak leak;

	/* one call, whatever the compiler makes of loops */
	for (volatile size_t i = 0; i < 5; i++)
		cache_fill(i);
	forget();
	leak = only_leak(4);
	if (!kept)
		return;
	EXPECT(leak.similar_count == 4 && leak.similar_size == 4 * SIZE, "%zu similar, %zu bytes",
	       leak.similar_count, leak.similar_size);
	EXPECT(is_hidden(lowest_hidden(5), leak.begin), "not the lowest of them");
	EXPECT(leak.total_size == 5 * SIZE, "%zu bytes in all", leak.total_size);
}

static void not_similar(void)
{
	struct UnreachableMemoryInfo info = { 0 };

	cache_fill(0);
	other_fill(1);
	forget();
	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.num_listed == 2 && !info.leaks[0].similar_count, "%zu listed", info.num_listed);
	FreeUnreachableMemory(&info);
}

static void deeper_than_is_kept(void)
{
	struct UnreachableMemoryLeak leak;

	sink(0, DEPTH);
	forget();
	leak = only_leak(0);
	EXPECT(leak.backtrace.num_frames == (kept ? (size_t)MEMUNREACHABLE_FRAMES : 0),
	       "%zu frames", leak.backtrace.num_frames);
}

/* How often @what is in @text. */
static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		n++;
	return n;
}

static void string_twice(void)
{
	char *first, *second;

	cache_fill(0);
	cache_fill(1);
	forget();
	first = GetUnreachableMemoryString(false, LIMIT);
	EXPECT(first && count(first, "(cache_fill+") == (kept ? 2 : 0), "%s", first);
	forget();
	second = GetUnreachableMemoryString(false, LIMIT);
	EXPECT(second && !strcmp(first, second), "first %s\nthen %s", first, second);
	free(first);
	free(second);
}

static void log_to_stderr(void)
{
	static char text[TEXT_BYTES];
	int file = memfd_create("log", MFD_CLOEXEC);
	int saved = dup(STDERR_FILENO);

	cache_fill(0);
	dup2(file, STDERR_FILENO);
	forget();
	EXPECT(LogUnreachableMemory(false, LIMIT), "failed");
	dup2(saved, STDERR_FILENO);
	EXPECT(pread(file, text, sizeof(text) - 1, 0) > 0, "nothing logged");
	EXPECT(!kept == !strstr(text, "libmemunreachable:           #0"), "%s", text);
	EXPECT(!kept == !strstr(text, "(cache_fill+"), "%s", text);
	close(file);
	close(saved);
}

/* ---- suppressions ---- */

static const char *suppressions = "";

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return suppressions;
}

/* By its function alone one of two is left, and nothing is known of it without backtraces. */
static void suppressed_function(void)
{
	cache_fill(0);
	other_fill(1);
	suppressions = "leak:^cache_fill$\n";
	EXPECT_LEAKS(kept ? 1 : 2);
	suppressions = "leak:cache_fill_\nleak:ther_fi\n";
	EXPECT_LEAKS(kept ? 1 : 2);
	suppressions = "leak:pool_grow\n";
	EXPECT_LEAKS(kept ? 0 : 2);
	suppressions = "";
	EXPECT_LEAKS(2);
}

static void suppressed_module(void)
{
	cache_fill(0);
	suppressions = "leak:libnothing.so\n";
	EXPECT_LEAKS(1);
	suppressions = "leak:api/c_backtraces\n";
	EXPECT_LEAKS(kept ? 0 : 1);
	suppressions = "";
}

/* ---- annotations: the shim's block begins behind the allocator's ---- */

static void ignored(void)
{
	cache_fill(0);
	cache_fill(1);
	EXPECT_LEAKS(2);
	__lsan_ignore_object(revealed(0));
	EXPECT_LEAKS(1);
	free_hidden(0);
	EXPECT_LEAKS(1);
	free_hidden(1);
	EXPECT_LEAKS(0);
}

static void disabled(void)
{
	memunreachable_disable();
	cache_fill(0);
	memunreachable_enable();
	EXPECT_LEAKS(0);
	cache_fill(1);
	EXPECT_LEAKS(1);
	free_hidden(0);
	cache_fill(2);
	EXPECT_LEAKS(2);
}

static void root_region(void)
{
	static char *pages;

	pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(pages != MAP_FAILED, "mmap: %s", strerror(errno));
	cache_fill(0);
	*(void **)pages = revealed(0);
	memunreachable_register_root(pages, 4096);
	EXPECT_LEAKS(0);
	*(void **)pages = NULL;
	EXPECT_LEAKS(1);
	memunreachable_unregister_root(pages, 4096);
}

/* ---- threads and children ---- */

static volatile bool stop;

static void *allocate_and_free(void *arg)
{
	(void)arg;
	while (!stop) {
		void *p = malloc(200);
		void *q = calloc(1, 5000);

		p = realloc(p, 700);
		free(q);
		free(p);
	}
	return NULL;
}

/* Threads are stopped anywhere, inside the shim and inside malloc, too. */
static void among_threads(void)
{
	pthread_t threads[THREADS];

	cache_fill(0);
	for (int i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, allocate_and_free, NULL), "no thread");
	for (int i = 0; i < ROUNDS; i++) {
		struct UnreachableMemoryInfo info = { 0 };
		bool found = false;

		forget();
		EXPECT(GetUnreachableMemory(&info, LIMIT), "failed in round %d", i);
		for (size_t k = 0; k < info.num_listed; k++)
			found |= is_hidden(0, info.leaks[k].begin) &&
			         !kept == !info.leaks[k].backtrace.num_frames;
		EXPECT(found && info.num_leaks == 1, "round %d: %zu leaks", i, info.num_leaks);
		FreeUnreachableMemory(&info);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void wait_for(pid_t child)
{
	int status = 0;

	EXPECT(child > 0, "fork: %s", strerror(errno));
	EXPECT(waitpid(child, &status, 0) == child && !status, "the child ended with %x", status);
}

/* In a child that was forked while threads allocate, again and again. */
static void in_children(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, allocate_and_free, NULL), "no thread");
	for (int i = 0; i < ROUNDS; i++) {
		pid_t child = fork();

		if (!child) {
			struct UnreachableMemoryInfo info = { 0 };
			bool found = false;

			cache_fill(0);
			forget();
			EXPECT(GetUnreachableMemory(&info, SIZE_MAX), "failed");
			for (size_t k = 0; k < info.num_listed; k++)
				found |= is_hidden(0, info.leaks[k].begin) &&
				         !kept == !info.leaks[k].backtrace.num_frames;
			EXPECT(found, "not found among %zu", info.num_listed);
			_exit(0);
		}
		wait_for(child);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static const struct api_case cases[] = {
	{ "frames", frames },
	{ "similar", similar },
	{ "not_similar", not_similar },
	{ "deeper_than_is_kept", deeper_than_is_kept },
	{ "string_twice", string_twice },
	{ "log_to_stderr", log_to_stderr },
	{ "suppressed_function", suppressed_function },
	{ "suppressed_module", suppressed_module },
	{ "ignored", ignored },
	{ "disabled", disabled },
	{ "root_region", root_region },
	{ "among_threads", among_threads },
	{ "in_children", in_children },
};

int main(int argc, char **argv)
{
	ask_environment();
	return RUN_CASE(cases, argc, argv);
}
