/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The walk against a plain chase of the same pointers, and against reading.
 *
 * A binary tree of N blocks of 48 bytes, laid out in random order, is
 * followed once by plain C with a stack of pointers, and once by the engine. Aim: the
 * engine takes at most 1.5 times as long.
 *
 * Then blocks of 64 bytes in chunks of 80 are read through the memory file of a
 * copy-on-write clone, which cannot be viewed: edges are gathered, and followed. Both are compared
 *with reading the heap once in pieces of 1 MiB. Prints the best of three runs of each.
 *
 * On both heaps the whole graph is gathered as rows, too, and the walk that notes by which
 * chain each block is held goes over them; both are compared with the quick walk, with what
 * that has gathered before.
 *
 *	build/bench/walk [MILLIONS...]
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/graph/walk.h"
#include "engine/holding/chains.h"
#include "target/arch/arch.h"

enum { STRIDE = 64, USABLE = 48, CHUNK = 80, PAYLOAD = 72, RUNS = 3, DEFAULTS = 3, WORKERS = 2 };

static const struct ms_mangling mangling = { .guard = 0x9d1f3a5b7c2e4f60, .rotate = 17 };

struct node {
	struct node *child[2];
};

struct heap {
	struct ms_source base;
	unsigned char *bytes;
	size_t len;
	size_t n;
	size_t stride;
	size_t usable;
	int mem_fd; /* of the clone */
};

static size_t heap_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	struct heap *heap = (struct heap *)src;

	memcpy(buf, heap->bytes + (addr - (uintptr_t)heap->bytes), len);
	return len;
}

static const void *heap_view(struct ms_source *src, ms_addr addr, size_t len)
{
	struct heap *heap = (struct heap *)src;

	(void)len;
	return heap->bytes + (addr - (uintptr_t)heap->bytes);
}

static size_t clone_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	ssize_t got = pread(((struct heap *)src)->mem_fd, buf, len, (off_t)addr);

	return got > 0 ? (size_t)got : 0;
}

static bool heap_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	(void)src;
	*ret = within;
	return within.end > within.begin;
}

static const struct ms_source_ops heap_ops = {
	.name = "bench", .read = heap_read, .view = heap_view, .present = heap_present
};

static const struct ms_source_ops clone_ops = { .name = "bench clone",
	                                        .read = clone_read,
	                                        .present = heap_present };

static void *must_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("walk: mmap");
		exit(1);
	}
	return p;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct node *node_at(const struct heap *heap, uint32_t place)
{
	return (struct node *)(void *)(heap->bytes + (size_t)place * heap->stride);
}

/* Node i of the tree stands at a random place. */
static void plant(struct heap *heap)
{
	uint32_t *place = must_map(heap->n * sizeof(*place));
	uint64_t state = 88172645463325252;

	for (uint32_t i = 0; i < heap->n; i++) {
		uint32_t j = (uint32_t)(next_random(&state) % (i + 1));

		place[i] = place[j];
		place[j] = i;
	}
	for (size_t i = 0; i < heap->n; i++)
		for (size_t c = 0; c < 2; c++)
			if (2 * i + c + 1 < heap->n)
				node_at(heap, place[i])->child[c] =
					node_at(heap, place[2 * i + c + 1]);
	/* The root is where the first block is, for both to begin at. */
	heap->base.kernel_words.n = place[0];
	munmap(place, heap->n * sizeof(*place));
}

static uint64_t chase(const struct heap *heap, struct node **stack)
{
	uint64_t since = ms_now_ns();
	size_t depth = 0;
	size_t n = 0;

	stack[depth++] = node_at(heap, (uint32_t)heap->base.kernel_words.n);
	while (depth) {
		struct node *node = stack[--depth];

		n++;
		for (int c = 0; c < 2; c++)
			if (node->child[c])
				stack[depth++] = node->child[c];
	}
	if (n != heap->n)
		abort();
	return ms_now_ns() - since;
}

static uint64_t walk(const struct heap *heap, struct ms_blocks *blocks, struct ms_arena *arena,
                     struct ms_walk_options options)
{
	struct ms_error err;
	struct ms_walk *walk;
	uint64_t since;

	ms_blocks_unmark(blocks);
	walk = ms_walk_new(blocks, &options, arena);
	since = ms_now_ns();
	ms_walk_word(walk, (uintptr_t)node_at(heap, (uint32_t)heap->base.kernel_words.n));
	if (ms_walk_finish(walk, &err) || ms_walk_count(walk).blocks != heap->n)
		abort();
	return ms_now_ns() - since;
}

static void make_table(struct heap *heap, struct ms_blocks *blocks, struct ms_arena *arena)
{
	struct ms_range range = { (uintptr_t)heap->bytes, (uintptr_t)heap->bytes + heap->len };
	uint32_t extent;

	ms_blocks_init(blocks, &heap->base, arena);
	if (ms_blocks_open(blocks, range, 4, &extent))
		abort();
	for (size_t i = 0; i < heap->n; i++)
		if (ms_blocks_put(blocks, extent, range.begin + i * heap->stride, heap->usable))
			abort();
	if (ms_blocks_sort(blocks) || ms_blocks_seal(blocks))
		abort();
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t read_all(const struct heap *heap)
{
	static unsigned char piece[1 << 20];
	uint64_t since = ms_now_ns();

	for (size_t at = 0; at < heap->len; at += sizeof(piece))
		if (pread(heap->mem_fd, piece, sizeof(piece),
		          (off_t)((uintptr_t)heap->bytes + at)) <= 0)
			abort();
	return ms_now_ns() - since;
}

/* Rows and chains of the heap, whose quick walk took @quick_ns. */
static void measure_holding(struct heap *heap, uint64_t quick_ns)
{
	uint64_t root = (uintptr_t)node_at(heap, (uint32_t)heap->base.kernel_words.n);
	struct ms_source src = heap->base;
	const struct ms_roots roots = { .src = &src };
	uint64_t best_rows = UINT64_MAX;
	uint64_t best_chains = UINT64_MAX;
	struct ms_error err;

	src.kernel_words = (struct ms_words){ &root, 1, 1 };
	for (int i = 0; i < RUNS; i++) {
		struct ms_walk_options like = { .mangling = mangling };
		struct ms_arena arena = { 0 };
		struct ms_blocks blocks;
		struct ms_chains chains;
		struct ms_rows rows;
		uint64_t since;

		make_table(heap, &blocks, &arena);
		since = ms_now_ns();
		if (ms_rows_gather(&blocks, &like, &arena, &rows, &err) || rows.to.n != heap->n - 1)
			abort();
		best_rows = least(best_rows, ms_now_ns() - since);
		since = ms_now_ns();
		if (ms_chains_walk(&rows, &roots, &arena, &chains, &err))
			abort();
		best_chains = least(best_chains, ms_now_ns() - since);
		for (size_t k = 0; k < heap->n; k++)
			if (!ms_chains_held(&chains, ms_block_numbered(&blocks, (uint32_t)k)))
				abort();
		ms_arena_deinit(&arena);
	}
	printf("%10zu blocks: rows %9.1f ms, %.2f quick walks; chains %7.1f ms, %.2f quick walks\n",
	       heap->n, (double)best_rows / 1e6, (double)best_rows / (double)quick_ns,
	       (double)best_chains / 1e6, (double)best_chains / (double)quick_ns);
}

static uint64_t measure_edges(struct heap *heap, unsigned n_workers)
{
	struct ms_edge_options options = { .mangling = mangling };
	uint64_t best_read = UINT64_MAX;
	uint64_t best_gather = UINT64_MAX;
	uint64_t best_walk = UINT64_MAX;
	struct ms_workers *workers;
	struct ms_error err;

	if (ms_workers_start(n_workers, &workers, &err))
		abort();
	for (int i = 0; i < RUNS; i++) {
		struct ms_edges edges = { 0 };
		struct ms_arena arena = { 0 };
		struct ms_blocks blocks;
		uint64_t since;

		make_table(heap, &blocks, &arena);
		best_read = least(best_read, read_all(heap));
		since = ms_now_ns();
		if (ms_edges_gather(&blocks, &options, workers, &edges, &err))
			abort();
		best_gather = least(best_gather, ms_now_ns() - since);
		best_walk = least(best_walk, walk(heap, &blocks, &arena,
		                                  (struct ms_walk_options){ .edges = &edges,
		                                                            .workers = workers }));
		ms_arena_deinit(&arena);
	}
	ms_workers_stop(workers);
	printf("%10zu blocks, %u workers: read %7.1f ms; gather %7.1f ms, %.2f reads; "
	       "walk %7.1f ms, %.2f reads\n",
	       heap->n, n_workers, (double)best_read / 1e6, (double)best_gather / 1e6,
	       (double)best_gather / (double)best_read, (double)best_walk / 1e6,
	       (double)best_walk / (double)best_read);
	return best_gather + best_walk;
}

/* The heap in a process of its own, which never runs. */
static void measure_clone(struct heap *heap)
{
	pid_t pid = fork();
	char path[64];

	if (pid < 0)
		abort();
	while (!pid)
		pause();
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	heap->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (heap->mem_fd < 0)
		abort();
	measure_holding(heap, measure_edges(heap, 1));
	for (unsigned n = 2; n <= WORKERS; n++)
		(void)measure_edges(heap, n);
	close(heap->mem_fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void measure_view(struct heap *heap)
{
	struct node **stack = must_map(heap->n * sizeof(struct node *));
	struct ms_arena arena = { 0 };
	struct ms_blocks blocks;
	uint64_t best_chase = UINT64_MAX;
	uint64_t best_walk = UINT64_MAX;

	make_table(heap, &blocks, &arena);
	for (int i = 0; i < RUNS; i++) {
		best_chase = least(best_chase, chase(heap, stack));
		best_walk = least(best_walk,
		                  walk(heap, &blocks, &arena, (struct ms_walk_options){ 0 }));
	}
	printf("%10zu blocks: chase %8.1f ms, walk %8.1f ms, ratio %.2f\n", heap->n,
	       (double)best_chase / 1e6, (double)best_walk / 1e6,
	       (double)best_walk / (double)best_chase);
	measure_holding(heap, best_walk);
	ms_arena_deinit(&arena);
	munmap(stack, heap->n * sizeof(struct node *));
}

static void measure(size_t n)
{
	struct heap viewed = { .base.ops = &heap_ops,
		               .base.abi = ms_native_arch.abi,
		               .len = n * STRIDE,
		               .n = n,
		               .stride = STRIDE,
		               .usable = USABLE };
	struct heap cloned = { .base.ops = &clone_ops,
		               .base.abi = ms_native_arch.abi,
		               .len = n * CHUNK,
		               .n = n,
		               .stride = CHUNK,
		               .usable = PAYLOAD };

	viewed.bytes = must_map(viewed.len);
	plant(&viewed);
	measure_view(&viewed);
	munmap(viewed.bytes, viewed.len);
	cloned.bytes = must_map(cloned.len);
	plant(&cloned);
	measure_clone(&cloned);
	munmap(cloned.bytes, cloned.len);
}

int main(int argc, char **argv)
{
	static const size_t defaults[DEFAULTS] = { 1000000, 5000000, 20000000 };

	printf("walk of a shuffled tree, best of %d (aim: ratio at most 1.5)\n", RUNS);
	for (int i = 1; i < argc; i++)
		measure(strtoul(argv[i], NULL, 10) * 1000000);
	for (int i = 0; argc == 1 && i < DEFAULTS; i++)
		measure(defaults[i]);
	return 0;
}
