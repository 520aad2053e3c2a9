/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which share of a process's live blocks, and of their bytes, gets a type, and of which kind; and
 * how long the search for types takes against the walk from the roots.
 *
 *	build/bench/types PID [EXAMPLES]
 *
 * The process is stopped by ptrace meanwhile, and read through its /proc/PID/mem. With
 * EXAMPLES, as many blocks of each type are listed with their addresses, to be held against a
 * debugger's view. As a part of `make bench-parts`, without arguments, it measures itself.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/decoders.h"
#include "base/clock.h"
#include "engine/decode.h"
#include "engine/kinds/kinds.h"
#include "target/maps.h"

enum { MOST_TYPES = MS_TYPES_MOST, LISTED = 60, REGISTERS = sizeof(struct user_regs_struct) / 8 };

static void give_up(const char *what)
{
	(void)fprintf(stderr, "types: %s\n", what);
	exit(1);
}

/* ---- the process ---- */

struct stopped {
	struct ms_source base;
	struct ms_arena arena;
	int fd;
};

static size_t stopped_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t got = pread(((struct stopped *)src)->fd, (char *)buf + done, len - done,
		                    (off_t)(addr + done));

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static bool stopped_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	(void)src;
	*ret = within;
	return within.end > within.begin;
}

static void stopped_close(struct ms_source *src)
{
	(void)close(((struct stopped *)src)->fd);
}

static const struct ms_source_ops stopped_ops = {
	.name = "bench", .read = stopped_read, .present = stopped_present, .close = stopped_close
};

static void stop_thread(struct stopped *s, pid_t tid)
{
	struct user_regs_struct *regs = ms_arena_alloc(&s->arena, sizeof(*regs));
	struct ms_thread *thread = ms_vec_push(&s->arena, &s->base.threads);

	if (!regs || !thread || ptrace(PTRACE_SEIZE, tid, NULL, NULL) ||
	    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) || waitpid(tid, NULL, __WALL) != tid ||
	    ptrace(PTRACE_GETREGS, tid, NULL, regs))
		give_up("the process cannot be stopped");
	*thread = (struct ms_thread){ .tid = tid,
		                      .stopped = true,
		                      .pc = regs->rip,
		                      .sp = regs->rsp,
		                      .tp = regs->fs_base,
		                      .words = (const uint64_t *)(const void *)regs,
		                      .n_words = REGISTERS };
}

static void stop_threads(struct stopped *s, pid_t pid)
{
	const struct dirent *entry;
	char path[64];
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			stop_thread(s, (pid_t)strtol(entry->d_name, NULL, 10));
	if (tasks)
		(void)closedir(tasks);
}

static void stop(struct stopped *s, pid_t pid)
{
	struct ms_error err;
	char path[64];

	ms_arena_init(&s->arena);
	stop_threads(s, pid);
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0 || ms_maps_read(pid, &s->arena, &s->base.mappings, &err))
		give_up("its memory cannot be read");
	s->base.ops = &stopped_ops;
	s->base.abi = (struct ms_abi){ .page_bytes = 4096, .red_zone_bytes = 128, .word_bytes = 8 };
}

/* ---- the search ---- */

struct scan {
	struct ms_report report;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_origins origins;
	struct ms_decoding decoding;
	struct ms_libc_view libc;
	struct ms_roots roots;
	struct ms_kinds_search search;
	uint64_t walk_ns;
	uint64_t search_ns;
};

static void mark(struct scan *s, struct ms_arena *arena)
{
	struct ms_walk_options options = { .mangling = s->libc.mangling };
	struct ms_edges edges = { 0 };
	struct ms_error err;
	uint64_t since = ms_now_ns();
	struct ms_walk *walk;

	if (ms_edges_wanted(&s->blocks)) {
		struct ms_edge_options like = { .mangling = s->libc.mangling };

		if (ms_edges_gather(&s->blocks, &like, NULL, &edges, &err))
			give_up("no memory");
		options.edges = &edges;
	}
	walk = ms_walk_new(&s->blocks, &options, arena);
	if (!walk)
		give_up("no memory");
	ms_roots_walk(&s->roots, walk);
	if (ms_walk_finish(walk, &err))
		give_up("no memory");
	s->walk_ns = ms_now_ns() - since;
}

static void search(struct scan *s, struct stopped *p)
{
	struct ms_error err;
	uint64_t since;

	ms_blocks_init(&s->blocks, &p->base, &p->arena);
	s->decoding = (struct ms_decoding){ .src = &p->base,
		                            .regions = &s->regions,
		                            .arena = &p->arena,
		                            .decoders = ms_decoders,
		                            .blocks = &s->blocks,
		                            .heaps = &s->report.heaps,
		                            .evidence = &s->report.evidence,
		                            .warnings = &s->report.warnings,
		                            .origins = &s->origins };
	if (ms_classify(&p->base, &p->arena, &s->regions, &err) ||
	    ms_decode(&s->decoding, NULL, &err))
		give_up(err.text);
	s->libc = ms_libc_find(&p->base, ms_libcs);
	if (!ms_ranges_tidy(&p->arena, &s->decoding.owned) ||
	    !ms_ranges_tidy(&p->arena, &s->decoding.own_words) ||
	    ms_roots_find(&s->decoding, &s->libc, &s->roots) || ms_blocks_sort(&s->blocks) ||
	    ms_blocks_seal(&s->blocks))
		give_up("no memory");
	mark(s, &p->arena);
	s->search =
		(struct ms_kinds_search){ .types = ms_types_new(&p->base, &s->regions, &p->arena),
		                          .blocks = &s->blocks,
		                          .roots = &s->roots };
	since = ms_now_ns();
	if (!s->search.types || ms_kinds_find(&s->search, true))
		give_up("no memory");
	s->search_ns = ms_now_ns() - since;
}

/* ---- the table ---- */

struct amount {
	uint64_t blocks;
	uint64_t bytes;
	uint32_t type;
};

static struct amount amounts[MOST_TYPES + 1];
static struct amount by_how[MS_HOWS];

static int larger(const void *a, const void *b)
{
	const struct amount *x = a;
	const struct amount *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void count(struct scan *s, struct amount *all, uint64_t examples)
{
	for (uint32_t i = 0; i < ms_blocks_numbers(&s->blocks); i++) {
		struct ms_block block = ms_block_numbered(&s->blocks, i);
		const struct ms_extent *extent = &s->blocks.extents.at[block.extent];
		uint64_t size = ms_block_size(&s->blocks, extent, block.granule);
		ms_addr begin = ms_block_begin(extent, block.granule);
		uint32_t type;

		if (extent->kind != MS_EXTENT_HEAP)
			continue;
		type = ms_types_of_block(s->search.types, begin, size);
		all->blocks++;
		all->bytes += size;
		amounts[type].type = type;
		if (amounts[type].blocks++ < examples)
			printf("%#" PRIx64 " %" PRIu64 " %s\n", begin, size,
			       type ? ms_types_at(s->search.types, type)->name : "?");
		amounts[type].bytes += size;
		if (type) {
			uint8_t how = ms_types_at(s->search.types, type)->how;

			by_how[how].blocks++;
			by_how[how].bytes += size;
		}
	}
}

static void row(const char *name, const struct amount *a, const struct amount *all)
{
	printf("%9" PRIu64 " %5.1f%% %12" PRIu64 " %5.1f%%  %s\n", a->blocks,
	       100.0 * (double)a->blocks / (double)all->blocks, a->bytes,
	       100.0 * (double)a->bytes / (double)all->bytes, name);
}

static void print_table(struct scan *s, const struct amount *all)
{
	static const char *const hows[MS_HOWS] = { "vtable", "functions", "debug",
		                                   "object", "container", "text" };
	struct amount named = { .blocks = all->blocks - amounts[0].blocks - by_how[1].blocks,
		                .bytes = all->bytes - amounts[0].bytes - by_how[1].bytes };

	row("all blocks", all, all);
	row("with a name", &named, all);
	for (size_t i = 0; i < MS_HOWS; i++)
		row(hows[i], &by_how[i], all);
	printf("search %.1f ms, walk %.1f ms\n", (double)s->search_ns / 1e6,
	       (double)s->walk_ns / 1e6);
	qsort(amounts, MOST_TYPES + 1, sizeof(amounts[0]), larger);
	for (size_t i = 0; i < LISTED && amounts[i].blocks; i++) {
		const struct ms_type *type =
			amounts[i].type ? ms_types_at(s->search.types, amounts[i].type) : NULL;

		row(!type ? "?" : type->name[0] ? type->name : type->module, &amounts[i], all);
	}
}

static void measure(pid_t pid, uint64_t examples)
{
	static struct stopped stopped;
	static struct scan scan;
	struct amount all = { 0 };

	stop(&stopped, pid);
	search(&scan, &stopped);
	count(&scan, &all, examples);
	print_table(&scan, &all);
	/* The threads go on with the end of the tracer. */
}

int main(int argc, char **argv)
{
	pid_t child;

	if (argc > 1) {
		measure((pid_t)strtol(argv[1], NULL, 10),
		        argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
		return 0;
	}
	child = fork();
	if (!child) {
		for (int i = 0; i < 1000; i++)
			(void)!strdup("a text that a process has");
		(void)pause();
		_exit(0);
	}
	(void)usleep(100000);
	measure(child, 0);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	return 0;
}
