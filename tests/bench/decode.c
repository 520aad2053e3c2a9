/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decoding against reading.
 *
 * A child (grown.c) allocates N blocks; its memory is copied, and the same copy is decoded
 * (every chunk walked, checked and entered into the table) and read once, word by
 * word. Then the child's own memory, which stands still, is decoded through
 * /proc/PID/mem, by one thread and by two, and read once in pieces of 1 MiB. Prints
 * the best of several runs of each. Aim for glibc: at most 3 times one read of a copy; by two
 * threads not longer than one read through /proc, 1.3 times with many free chunks. For the
 * others: 3 times one read through /proc, which is how a clone is read.
 *
 *	build/bench/decode            each allocator
 *	build/bench/decode ALLOCATOR  the one that is preloaded, or "musl mallocng"
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/decoders.h"
#include "base/clock.h"
#include "base/workers.h"
#include "engine/decode.h"
#include "target/target.h"

enum { RUNS = 5 };

struct shape {
	const char *name;
	size_t n;
	size_t least; /* bytes of a block */
	size_t most;
	unsigned int freed; /* of 16 blocks, so many are freed again */
};

static const struct shape shapes[] = {
	{ "5 M blocks of 48 bytes", 5000000, 48, 48, 0 },
	{ "5 M blocks of 64 bytes", 5000000, 64, 64, 0 },
	{ "5 M blocks of 16 to 200 bytes, 1 of 4 freed", 5000000, 16, 200, 4 },
	{ "1 M blocks of 16 to 2000 bytes, 1 of 8 freed", 1000000, 16, 2000, 2 },
	{ "3 M blocks of 64 bytes, 1 of 3 in fastbins", 3000000, 64, 64, 5 },
	{ "200 k blocks of 4 KiB", 200000, 4096, 4096, 0 },
	{ "10 k blocks of 65 to 128 KiB", 10000, 66000, 131000, 0 },
	{ "800 blocks of 1 MiB, mapped", 800, 1 << 20, 1 << 20, 0 },
};

static void die(const char *what)
{
	fprintf(stderr, "decode: %s\n", what);
	exit(1);
}

/* Start tests/bench/grown.c, built for the C library that the allocator is of. */
static void grow(const char *allocator, const struct shape *shape)
{
	char program[4096];
	char numbers[4][24];
	size_t given[4] = { shape->n, shape->least, shape->most, shape->freed };
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[n < 0 ? 0 : n] = 0;
	(void)snprintf(strrchr(program, '/') + 1, sizeof("grown-musl"), "%s",
	               strcmp(allocator, "musl mallocng") == 0 ? "grown-musl" : "grown");
	for (size_t i = 0; i < 4; i++)
		(void)snprintf(numbers[i], sizeof(numbers[i]), "%zu", given[i]);
	execl(program, program, numbers[0], numbers[1], numbers[2], numbers[3], NULL);
	_exit(127);
}

static pid_t start(const char *allocator, const struct shape *shape)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		die("no pipe");
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && dup2(ready[1], STDOUT_FILENO) >= 0)
			grow(allocator, shape);
		_exit(1);
	}
	close(ready[1]);
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		die("no child");
	close(ready[0]);
	return pid;
}

/* Freeze and copy @pid. */
static struct ms_source *hold(pid_t pid, struct ms_arena *arena)
{
	struct ms_collection *shared;
	struct ms_source *copy;
	struct ms_notes warnings = { 0 };
	struct ms_error err;
	int channel[2];
	pid_t collection;

	if (ms_collection_create(pid, UINT64_C(30000000000), &shared, &err) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel))
		die("no shared memory");
	collection = fork();
	if (collection == 0) {
		close(channel[0]);
		_exit(ms_collection_serve(shared, channel[1]));
	}
	close(channel[1]);
	if (ms_collection_freeze(shared, channel[0], &err) ||
	    ms_copy_open(shared, arena, &warnings, &copy, &err) ||
	    ms_collection_release(shared, channel[0], &err))
		die(err.text);
	close(channel[0]);
	waitpid(collection, NULL, 0);
	return copy;
}

/* A stopped process's memory as it is, which nobody can be shown but by a copy. */
struct direct {
	struct ms_source base;
	struct ms_source *copy; /* tells what is present */
	int fd;
};

static size_t direct_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	ssize_t n = pread(((struct direct *)src)->fd, buf, len, (off_t)addr);

	return n < 0 ? 0 : (size_t)n;
}

static bool direct_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	return ms_source_present(((struct direct *)src)->copy, within, ret);
}

static void direct_close(struct ms_source *src)
{
	close(((struct direct *)src)->fd);
}

static const struct ms_source_ops direct_ops = {
	.name = "direct", .read = direct_read, .present = direct_present, .close = direct_close
};

static struct direct open_direct(pid_t pid, struct ms_source *copy)
{
	struct direct direct = { .base = *copy, .copy = copy };
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	direct.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (direct.fd < 0 || kill(pid, SIGSTOP))
		die(path);
	direct.base.ops = &direct_ops;
	return direct;
}

/* What decoding told. */
struct outcome {
	const char *allocator; /* whose blocks these are to be */
	uint64_t ns;
	uint64_t blocks;
	struct ms_arena arena;  /* of owned */
	struct ms_ranges owned; /* heap memory */
};

static void keep_owned(struct outcome *out, const struct ms_decoding *d)
{
	const struct ms_range *r;

	if (out->owned.n)
		return;
	ms_vec_for_each (r, &d->owned)
		if (!ms_ranges_add(&out->arena, &out->owned, r->begin, r->end))
			die("no memory");
	if (!ms_ranges_tidy(&out->arena, &out->owned))
		die("no memory");
}

/* The C library's own heap is beside one that is preloaded. */
static void check_heaps(const struct ms_report *report, const char *allocator)
{
	const struct ms_heap *heap, *largest = NULL;

	ms_vec_for_each (heap, &report->heaps) {
		if (!heap->verified)
			die("a heap was not verified");
		if (!largest || heap->allocations > largest->allocations)
			largest = heap;
	}
	if (!largest || strcmp(largest->allocator, allocator) != 0)
		die("the blocks are not of that allocator's");
}

static void decode(struct ms_source *src, struct ms_workers *workers, struct outcome *out)
{
	struct ms_arena arena = { 0 };
	struct ms_regions regions = { 0 };
	struct ms_blocks blocks;
	struct ms_report report = { 0 };
	struct ms_decoding d = { .src = src,
		                 .workers = workers,
		                 .decoders = ms_decoders,
		                 .regions = &regions,
		                 .arena = &arena,
		                 .blocks = &blocks,
		                 .heaps = &report.heaps,
		                 .evidence = &report.evidence,
		                 .warnings = &report.warnings };
	struct ms_error err;
	uint64_t since;

	if (ms_classify(src, &arena, &regions, &err))
		die(err.text);
	ms_blocks_init(&blocks, src, &arena);
	since = ms_now_ns();
	if (ms_decode(&d, NULL, &err) || ms_blocks_seal(&blocks))
		die(err.text);
	since = ms_now_ns() - since;
	check_heaps(&report, out->allocator);
	out->ns = since < out->ns ? since : out->ns;
	out->blocks = blocks.n;
	keep_owned(out, &d);
	ms_arena_deinit(&arena);
}

/* Read all of @owned; words when they can be seen, else pieces of 1 MiB. */
static uint64_t read_once(struct ms_source *src, const struct ms_ranges *owned, uint64_t *ret_bytes)
{
	enum { PIECE = 1 << 20 };
	static volatile uint64_t sink;
	static uint8_t buffer[PIECE];
	uint64_t since = ms_now_ns();
	const struct ms_range *r;
	uint64_t sum = 0;

	*ret_bytes = 0;
	ms_vec_for_each (r, owned) {
		const uint64_t *words = ms_source_view(src, r->begin, ms_range_len(*r));

		for (size_t i = 0; words && i < ms_range_len(*r) / 8; i++)
			sum += words[i];
		for (ms_addr at = r->begin; !words && at < r->end; at += PIECE)
			sum += ms_source_read(src, at, buffer,
			                      r->end - at < PIECE ? (size_t)(r->end - at)
			                                          : (size_t)PIECE);
		*ret_bytes += ms_range_len(*r);
	}
	sink = sum;
	(void)sink;
	return ms_now_ns() - since;
}

static void compare(const char *allocator, const char *how, struct ms_source *src,
                    struct ms_workers *workers)
{
	struct outcome out = { .allocator = allocator, .ns = UINT64_MAX };
	uint64_t best_read = UINT64_MAX;
	uint64_t bytes = 0;

	for (int i = 0; i < RUNS; i++) {
		uint64_t was_read;

		decode(src, workers, &out);
		was_read = read_once(src, &out.owned, &bytes);
		best_read = was_read < best_read ? was_read : best_read;
	}
	printf("  %-24s %6.1f M blocks/s, %5.0f MB: decode %7.1f ms, read %6.1f ms, ratio %.2f\n",
	       how, (double)out.blocks * 1e3 / (double)out.ns, (double)bytes / 1e6,
	       (double)out.ns / 1e6, (double)best_read / 1e6, (double)out.ns / (double)best_read);
	ms_arena_deinit(&out.arena);
}

static void measure(const char *allocator, const struct shape *shape, struct ms_workers *two)
{
	struct ms_arena arena = { 0 };
	pid_t pid = start(allocator, shape);
	struct ms_source *copy = hold(pid, &arena);
	struct direct direct = open_direct(pid, copy);

	printf("%s\n", shape->name);
	compare(allocator, "copy", copy, NULL);
	compare(allocator, "copy, 2 threads", copy, two);
	compare(allocator, "/proc/PID/mem", &direct.base, NULL);
	compare(allocator, "/proc/PID/mem, 2 threads", &direct.base, two);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	direct.base.ops->close(&direct.base);
	copy->ops->close(copy);
	ms_arena_deinit(&arena);
}

/* The allocators that can stand in front of the C library's, by what a report calls them. */
static const char *const libraries[][2] = {
	{ "glibc", NULL },
	{ "jemalloc", "libjemalloc.so.2" },
	{ "tcmalloc", "libtcmalloc_minimal.so.4" },
	{ "mimalloc", "libmimalloc.so.2" },
	{ "musl mallocng", NULL },
};

static int measure_each(const char *self)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		pid_t pid = fork();
		int status = 1;

		if (pid == 0) {
			if (libraries[i][1])
				(void)setenv("LD_PRELOAD", libraries[i][1], 1);
			execl(self, self, libraries[i][0], NULL);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			failed = 1;
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct ms_workers *two;
	struct ms_error err;

	if (argc == 1)
		return measure_each("/proc/self/exe");
	if (ms_workers_start(2, &two, &err))
		die(err.text);
	printf("decoding a heap of %s against one read of it, best of %d\n", argv[1], RUNS);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		measure(argv[1], &shapes[i], two);
	ms_workers_stop(two);
	return 0;
}
