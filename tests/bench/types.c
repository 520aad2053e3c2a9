/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which share of a process's live blocks, and of their bytes, gets a type, and of which kind; and
 * how long the search for types takes against the walk from the roots.
 *
 *	build/bench/types [--debug] [--draw N] [--unnamed] [--seed N] [--blocks FILE] PID
 *
 * The process is stopped by ptrace meanwhile, and read through its /proc/PID/mem. Nothing that a
 * file says is used, so it is as if it were stripped; with --debug a second table follows, by
 * debug information as well. --draw: as many blocks that have a name are drawn by chance, and
 * listed in front of each table with their addresses, to be held against a debugger's view
 * (tests/names); --unnamed: of those that have none. --blocks: the file gets a line for each
 * block, its address and size. As a part of `make bench-parts`, without arguments, it measures
 * itself.
 */

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
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
#include "cli/book/book.h"
#include "engine/decode.h"
#include "engine/kinds/kinds.h"
#include "engine/names/fields/fields.h"
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
	pid_t pid;
	int fd;
	int pagemap;
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

/* Of how many pages from @page on it is the same whether they are there; 0: nobody knows. */
static uint64_t alike(const struct stopped *s, uint64_t page, uint64_t n, bool *ret_there)
{
	uint64_t entries[512];
	size_t wanted = n < 512 ? (size_t)n : 512;
	ssize_t got = pread(s->pagemap, entries, wanted * sizeof(entries[0]),
	                    (off_t)(page * sizeof(entries[0])));
	uint64_t i = 0;

	if (got < (ssize_t)sizeof(entries[0]))
		return 0;
	/* In memory, or swapped. */
	*ret_there = entries[0] >> 62;
	while (i < (uint64_t)got / sizeof(entries[0]) && !!(entries[i] >> 62) == *ret_there)
		i++;
	return i;
}

static bool stopped_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	const uint64_t bytes = src->abi.page_bytes;
	uint64_t end = (within.end + bytes - 1) / bytes;
	uint64_t page = within.begin / bytes;
	uint64_t first = 0;
	bool there;

	for (uint64_t n; page < end; page += n) {
		n = alike((struct stopped *)src, page, end - page, &there);
		if (!n || (first && !there))
			break;
		if (there && !first)
			first = page;
	}
	if (!first || within.begin >= within.end)
		return false;
	*ret = ms_range_common((struct ms_range){ first * bytes, page * bytes }, within);
	return true;
}

static void stopped_close(struct ms_source *src)
{
	(void)close(((struct stopped *)src)->fd);
	(void)close(((struct stopped *)src)->pagemap);
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
	s->pid = pid;
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	s->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0 || s->pagemap < 0 || ms_maps_read(pid, &s->arena, &s->base.mappings, &err))
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

/* ---- what debug information says ---- */

static bool ask_book(void *ctx, const struct ms_report *asked, struct ms_error *err)
{
	(void)ctx;
	(void)asked;
	(void)err;
	return true;
}

static bool read_book(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
                      struct ms_book *ret, struct ms_error *err)
{
	const struct stopped *p = ctx;

	return ms_book_ask(&(struct ms_naming){ .pid = p->pid }, asked, arena, ret, err);
}

static void add_debug(struct scan *s, struct stopped *p)
{
	const struct ms_scan_options options = { .ask_book = ask_book,
		                                 .book = read_book,
		                                 .book_ctx = p };
	struct ms_typing typing = { .src = &p->base,
		                    .regions = &s->regions,
		                    .blocks = &s->blocks,
		                    .types = s->search.types,
		                    .options = &options,
		                    .arena = &p->arena,
		                    .report = &s->report };
	const struct ms_note *note;
	struct ms_error err;

	s->report.warnings.n = 0;
	if (ms_typing_ask(&typing, &err) || ms_typing_take(&typing, &err))
		give_up(err.text);
	ms_vec_for_each (note, &s->report.warnings)
		(void)fprintf(stderr, "types: %s\n", note->text);
}

/* ---- the table ---- */

static const char *const hows[MS_HOWS] = { "vtable", "functions", "debug",
	                                   "object", "container", "text" };

struct amount {
	uint64_t blocks;
	uint64_t bytes;
	uint32_t type;
};

struct drawn {
	ms_addr begin;
	uint64_t size;
	uint32_t type;
};

struct table {
	struct scan *scan;
	const char *title;
	struct amount all;
	struct amount named;
	struct amount by_how[MS_HOWS];
	struct amount types[MOST_TYPES + 1];
	struct drawn *drawn;
	uint64_t n_drawn; /* places */
	uint64_t tried;   /* blocks for them */
	bool unnamed;
	uint64_t chance;
};

/* One of @n, by chance. */
static uint64_t chosen(struct table *t, uint64_t n)
{
	t->chance ^= t->chance << 13;
	t->chance ^= t->chance >> 7;
	t->chance ^= t->chance << 17;
	return t->chance % n;
}

static void add(struct amount *amount, uint64_t size)
{
	amount->blocks++;
	amount->bytes += size;
}

static void count_block(struct table *t, ms_addr begin, uint64_t size)
{
	uint32_t number = ms_types_of_block(t->scan->search.types, begin, size);
	const struct ms_type *type = number ? ms_types_at(t->scan->search.types, number) : NULL;
	uint64_t place;

	add(&t->all, size);
	add(&t->types[number], size);
	t->types[number].type = number;
	if (type)
		add(&t->by_how[type->how], size);
	if (type && type->name[0])
		add(&t->named, size);
	if ((type && type->name[0]) == t->unnamed)
		return;
	/* Each block so far is in one of the places with the same chance. */
	place = t->tried++;
	if (place >= t->n_drawn)
		place = chosen(t, t->tried);
	if (place < t->n_drawn)
		t->drawn[place] = (struct drawn){ begin, size, number };
}

static void count(struct table *t, FILE *blocks)
{
	const struct ms_blocks *all = &t->scan->blocks;

	for (uint32_t i = 0; i < ms_blocks_numbers(all); i++) {
		struct ms_block block = ms_block_numbered(all, i);
		const struct ms_extent *extent = &all->extents.at[block.extent];
		uint64_t size = ms_block_size(all, extent, block.granule);
		ms_addr begin = ms_block_begin(extent, block.granule);

		if (extent->kind != MS_EXTENT_HEAP)
			continue;
		count_block(t, begin, size);
		if (blocks)
			(void)fprintf(blocks, "%#" PRIx64 " %" PRIu64 "\n", begin, size);
	}
}

static int larger(const void *a, const void *b)
{
	const struct amount *x = a;
	const struct amount *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void row(const char *name, const struct amount *a, const struct amount *all)
{
	printf("%9" PRIu64 " %5.1f%% %12" PRIu64 " %5.1f%%  %s\n", a->blocks,
	       100.0 * (double)a->blocks / (double)all->blocks, a->bytes,
	       100.0 * (double)a->bytes / (double)all->bytes, name);
}

static void print_drawn(const struct table *t)
{
	for (uint64_t i = 0; i < t->n_drawn && i < t->tried; i++) {
		const struct drawn *drawn = &t->drawn[i];
		const struct ms_type *type =
			drawn->type ? ms_types_at(t->scan->search.types, drawn->type) : NULL;
		const char *how = type ? hows[type->how] : "?";
		const char *sure = type && type->sure == MS_SURE_CERTAIN ? "certain" : "likely";

		printf("drawn %#" PRIx64 " %" PRIu64 " %s %s %s\n", drawn->begin, drawn->size, how,
		       sure, type ? type->name : "?");
	}
}

static void print_table(struct table *t)
{
	struct ms_types *types = t->scan->search.types;

	printf("== %s\n", t->title);
	print_drawn(t);
	row("all blocks", &t->all, &t->all);
	row("with a name", &t->named, &t->all);
	for (size_t i = 0; i < MS_HOWS; i++)
		row(hows[i], &t->by_how[i], &t->all);
	printf("search %.1f ms, walk %.1f ms\n", (double)t->scan->search_ns / 1e6,
	       (double)t->scan->walk_ns / 1e6);
	qsort(t->types, MOST_TYPES + 1, sizeof(t->types[0]), larger);
	for (size_t i = 0; i < LISTED && t->types[i].blocks; i++) {
		const struct ms_type *type =
			t->types[i].type ? ms_types_at(types, t->types[i].type) : NULL;

		row(!type ? "?" : type->name[0] ? type->name : type->module, &t->types[i], &t->all);
	}
}

struct wish {
	pid_t pid;
	bool debug;
	bool unnamed;
	uint64_t draw;
	uint64_t seed;
	const char *blocks;
};

static void tell(struct scan *scan, const char *title, const struct wish *wish, FILE *blocks)
{
	static struct table table;

	/* The seed's bits are spread: what a small one begins with is all zeros. */
	table = (struct table){ .scan = scan,
		                .title = title,
		                .n_drawn = wish->draw,
		                .unnamed = wish->unnamed,
		                .chance = (wish->seed + 1) * UINT64_C(0x9e3779b97f4a7c15) };
	table.drawn = calloc(wish->draw + 1, sizeof(*table.drawn));
	if (!table.drawn)
		give_up("no memory");
	count(&table, blocks);
	print_table(&table);
	free(table.drawn);
}

static void measure(const struct wish *wish)
{
	static struct stopped stopped;
	static struct scan scan;
	FILE *blocks = wish->blocks ? fopen(wish->blocks, "w") : NULL;

	if (wish->blocks && !blocks)
		give_up("the file of blocks cannot be written");
	stop(&stopped, wish->pid);
	search(&scan, &stopped);
	tell(&scan, "stripped", wish, blocks);
	if (blocks && fclose(blocks) != 0)
		give_up("the file of blocks cannot be written");
	if (wish->debug) {
		add_debug(&scan, &stopped);
		tell(&scan, "with debug information", wish, NULL);
	}
	/* The threads go on with the end of the tracer. */
}

static struct wish wish_of(int argc, char **argv)
{
	static const struct option options[] = { { "debug", no_argument, NULL, 'd' },
		                                 { "unnamed", no_argument, NULL, 'u' },
		                                 { "draw", required_argument, NULL, 'n' },
		                                 { "seed", required_argument, NULL, 's' },
		                                 { "blocks", required_argument, NULL, 'b' },
		                                 { NULL, 0, NULL, 0 } };
	struct wish wish = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'd')
			wish.debug = true;
		else if (option == 'u')
			wish.unnamed = true;
		else if (option == 'n')
			wish.draw = strtoull(optarg, NULL, 10);
		else if (option == 's')
			wish.seed = strtoull(optarg, NULL, 10);
		else if (option == 'b')
			wish.blocks = optarg;
		else
			exit(2);
	}
	wish.pid = optind < argc ? (pid_t)strtol(argv[optind], NULL, 10) : 0;
	return wish;
}

int main(int argc, char **argv)
{
	struct wish wish = wish_of(argc, argv);
	pid_t child;

	if (wish.pid) {
		measure(&wish);
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
	measure(&(struct wish){ .pid = child });
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	return 0;
}
