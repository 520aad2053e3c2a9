/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks are sorted by their stack pointers and read in one sweep: up to the next stack pointer
 * a piece of memory belongs to the thread whose stack pointer is the last one below.
 *
 * A handler that runs on a signal stack leaves the stack that it interrupted out of this way; the
 * kernel's frame says where that is. Such stacks are looked through in another sweep.
 *
 * A page that is not in memory was never written to, and reading it might wait for whoever fills
 * it: a thread that stands, or a file system. Of memory that is shared a page can be missing though
 * it was written to; that of a thread that sleeps is read before the stop.
 */
#include "target/inject/stopped/words.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/page.h"
#include "base/sort.h"
#include "engine/signal_frame.h"
#include "target/arch/arch.h"
#include "target/freeze/sleepers.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/room.h"

enum {
	PIECE_WORDS = 16384,
	PIECE_BYTES = 8 * PIECE_WORDS,
	PIECE_PAGES = PIECE_BYTES / MS_PAGE_BYTES + 1,
	MOST_SWEEPS = 8, /* deeper than handlers nest */
	MORE_STACKS = 256,
	MOST_HITS = 256,
	OTHER_FILES = 64,
	MS_NS = 1000000,
};

/* ---- how far a stack reaches ---- */

/* Whether the control block at @tp says that @sp is on the stack that the C library gave. */
static bool is_libc_stack(const struct ms_words_search *search, pid_t tid, ms_addr tp, ms_addr sp)
{
	uint64_t stack[2];

	return search->stack_at &&
	       ms_room_read(tid, tp + search->stack_at, stack, sizeof(stack)) == sizeof(stack) &&
	       sp - stack[0] < stack[1] && tp - stack[0] <= stack[1];
}

/* @tp: 0 when not known. Nothing of a stack is above the control block that lies on it. */
static ms_addr end_of(const struct ms_words_search *search, pid_t tid, ms_addr sp, ms_addr tp)
{
	const struct ms_mapping *map = ms_maps_find(&search->maps, sp);
	ms_addr end = sp + MS_WORDS_COROUTINE;

	if (map && (!strcmp(map->name, "[stack]") || ms_range_len(map->range) <= MS_WORDS_MAPPING ||
	            end > map->range.end))
		end = map->range.end;
	if (tp > sp && (tp < end || is_libc_stack(search, tid, tp, sp)))
		end = tp;
	return end > sp ? ms_align_down(end, 8) : sp;
}

/* ---- what is found ---- */

static bool has_time(struct ms_words_search *search)
{
	if (ms_now_ns() < search->until_ns)
		return true;
	search->unknown = true;
	return false;
}

static bool is_wanted(const struct ms_words_search *search, uint64_t word)
{
	if (!ms_range_has(search->hull, word))
		return false;
	for (size_t i = 0; i < search->wanted->n; i++)
		if (ms_range_has(search->wanted->at[i], word))
			return true;
	return false;
}

/* Before the stop: who has it on the stack is looked at again. */
static void note_hit(struct ms_words_search *search, ms_addr at, ms_addr end)
{
	if (search->hits.n == search->hits.cap)
		search->unknown = true;
	else
		search->hits.at[search->hits.n++] = (struct ms_range){ at, end };
}

/* Another stack of @thread's, which a signal has interrupted. */
static void add_interrupted(struct ms_words_search *search, const struct ms_words_stack *thread,
                            ms_addr sp)
{
	struct ms_words_stacks *stacks = &search->stacks;

	for (size_t i = search->n_threads; i < stacks->n; i++)
		if (stacks->at[i].sp == sp)
			return;
	if (stacks->n == 2 * search->n_threads + MORE_STACKS)
		search->unknown = true;
	else if (has_time(search))
		stacks->at[stacks->n++] =
			(struct ms_words_stack){ sp, end_of(search, thread->tid, sp, 0),
			                         thread->tid };
}

/* The words of @part, of @n that were read at @at: they are on the stack of @thread. */
static void look_at(struct ms_words_search *search, const struct ms_words_stack *thread,
                    struct ms_range part, size_t n, ms_addr at)
{
	const struct ms_signal_layout *layout = &ms_native_arch.abi.signal_frame;
	const uint64_t *words = search->words;
	ms_addr interrupted;

	for (size_t i = part.begin; i < part.end && !search->found && !search->unknown; i++) {
		if (is_wanted(search, words[i])) {
			if (search->before)
				note_hit(search, at + 8 * i, at + 8 * i + 8);
			else
				search->found = thread->tid;
		}
		if (i + layout->words > n ||
		    (words[i + layout->mark] & layout->mark_mask) != layout->mark_value ||
		    !ms_signal_frame_at(layout, words + i, at + 8 * i, thread->sp, &interrupted))
			continue;
		if (search->before)
			note_hit(search, at + 8 * i, at + 8 * i + 8);
		else
			add_interrupted(search, thread, interrupted);
	}
}

static ms_addr begin_of(const struct ms_words_stack *stack)
{
	return ms_align_down(stack->sp, 8);
}

/* All @n words that were read at @at. */
static void look_at_all(struct ms_words_search *search, size_t n, ms_addr at)
{
	for (size_t i = 0; i < n && !search->found && !search->unknown;) {
		size_t end = n;

		while (search->owner + 1 < search->owners_end &&
		       begin_of(search->owner + 1) <= at + 8 * i)
			search->owner++;
		if (search->owner + 1 < search->owners_end)
			end = (size_t)(begin_of(search->owner + 1) - at) / 8;
		end = end < n ? end : n;
		look_at(search, search->owner, (struct ms_range){ i, end }, n, at);
		i = end;
	}
}

/* ---- pages ---- */

enum page { PAGE_ABSENT, PAGE_PRESENT, PAGE_SWAPPED };

/* Source: the kernel's Documentation/admin-guide/mm/pagemap.rst */
static enum page page_of(uint64_t entry)
{
	if (entry >> 63 & 1)
		return PAGE_PRESENT;
	return entry >> 62 & 1 ? PAGE_SWAPPED : PAGE_ABSENT;
}

/* The end of the pages from that of @at on that are alike, up to @end. @ret: which they are. */
static ms_addr alike(const struct ms_words_search *search, ms_addr at, ms_addr end, enum page *ret)
{
	ms_addr page = ms_align_down(at, MS_PAGE_BYTES);
	uint64_t entries[PIECE_PAGES];
	size_t wanted = (size_t)((end - page + MS_PAGE_BYTES - 1) / MS_PAGE_BYTES);
	ssize_t len = -1;
	size_t n;

	if (search->pagemap_fd >= 0)
		len = pread(search->pagemap_fd, entries, wanted * sizeof(*entries),
		            (off_t)(page / MS_PAGE_BYTES * sizeof(*entries)));
	n = len > 0 ? (size_t)len / sizeof(*entries) : 0;
	*ret = n ? page_of(entries[0]) : PAGE_PRESENT;
	if (!n)
		return end;
	for (size_t i = 1; i < n; i++)
		if (page_of(entries[i]) != *ret)
			return page + i * MS_PAGE_BYTES;
	return end;
}

/* Whether what is not in memory can be brought there: not while the program stands. */
static bool is_readable(const struct ms_words_search *search, ms_addr at, enum page page)
{
	const struct ms_mapping *map;

	if (page == PAGE_PRESENT || !search->before)
		return page == PAGE_PRESENT;
	map = ms_maps_find(&search->maps, at);
	return page == PAGE_SWAPPED || (map && map->shared);
}

/* ---- sweeps ---- */

/* As much from @at on as is read at once. Returns where the next piece begins. */
static ms_addr look_from(struct ms_words_search *search, ms_addr at, ms_addr end)
{
	const size_t overlap = ms_native_arch.abi.signal_frame.words;
	enum page page;
	size_t len, n;

	end = end - at > PIECE_BYTES ? at + PIECE_BYTES : end;
	end = alike(search, at, end, &page);
	if (!is_readable(search, at, page)) {
		if (page == PAGE_SWAPPED)
			search->unknown = true;
		return end;
	}
	len = (size_t)(end - at);
	n = ms_room_read(search->owner->tid, at, search->words, len) / 8;
	search->n_bytes += 8 * n;
	search->n_reads++;
	look_at_all(search, n, at);
	if (8 * n < len) {
		ms_addr behind = ms_align_up(at + 8 * n + 1, MS_PAGE_BYTES);

		if (search->before)
			note_hit(search, at + 8 * n, behind);
		return behind;
	}
	/* A signal's frame may lie across two pieces. */
	return len == PIECE_BYTES ? end - 8 * overlap : end;
}

/* Returns how far it came. */
static ms_addr look_through(struct ms_words_search *search, struct ms_range range)
{
	ms_addr at = range.begin;

	while (at < range.end && !search->found && has_time(search)) {
		ms_addr next = look_from(search, at, range.end);

		if (search->unknown)
			break;
		at = next;
	}
	return at;
}

static bool is_below(const void *a, const void *b)
{
	return ((const struct ms_words_stack *)a)->sp < ((const struct ms_words_stack *)b)->sp;
}

/* Those from @first on. */
static bool sort_stacks(struct ms_words_search *search, size_t first)
{
	struct ms_words_stacks *stacks = &search->stacks;

	if (!ms_sort(search->arena, stacks->at + first, stacks->n - first, sizeof(*stacks->at),
	             is_below))
		search->unknown = true;
	return !search->unknown;
}

static void note_done(struct ms_words_search *search, struct ms_range range)
{
	if (search->done.n < search->done.cap)
		search->done.at[search->done.n++] = range;
}

/* Leave out of a stack what an earlier sweep has looked through. */
static void skip_done(const struct ms_words_search *search, struct ms_words_stack *stack)
{
	for (size_t i = 0; i < search->done.n; i++)
		if (ms_range_has(search->done.at[i], stack->sp))
			stack->sp = search->done.at[i].end;
	if (stack->end < stack->sp)
		stack->end = stack->sp;
}

/* The memory from the sorted stack *@i on that is one piece; *@i is moved behind its stacks. */
static struct ms_range unite(struct ms_words_search *search, size_t *i)
{
	const struct ms_words_stack *stacks = search->stacks.at;
	struct ms_range range = { begin_of(&stacks[*i]), stacks[*i].end };

	for (++*i; *i < search->stacks.n && begin_of(&stacks[*i]) <= range.end; ++*i)
		if (stacks[*i].end > range.end)
			range.end = stacks[*i].end;
	return range;
}

/* Look through the stacks from @first on, each byte once. Returns how far it came. */
static ms_addr sweep(struct ms_words_search *search, size_t first)
{
	const size_t n = search->stacks.n;
	ms_addr at = 0;

	for (size_t i = first; i < n; i++)
		skip_done(search, &search->stacks.at[i]);
	(void)sort_stacks(search, first);
	for (size_t i = first; i < n && !search->found && !search->unknown;) {
		struct ms_range range;

		search->owner = &search->stacks.at[i];
		range = unite(search, &i);
		search->owners_end = &search->stacks.at[i];
		at = look_through(search, range);
		note_done(search, range);
	}
	return search->found || search->unknown ? at : UINT64_MAX;
}

static void begin_look(struct ms_words_search *search, const struct ms_ranges *wanted)
{
	const struct ms_range *range;

	search->wanted = wanted;
	search->hull = (struct ms_range){ UINT64_MAX, 0 };
	ms_vec_for_each (range, wanted) {
		if (range->begin < search->hull.begin)
			search->hull.begin = range->begin;
		if (range->end > search->hull.end)
			search->hull.end = range->end;
	}
	if (!wanted->n)
		search->hull.begin = 0;
	search->stacks.n = search->n_threads = search->done.n = search->hits.n = 0;
	search->n_bytes = search->n_reads = 0;
	search->found = 0;
	search->unknown = false;
}

/* ---- before the stop ---- */

/* "NUMBER ARG1 … ARG6 SP PC" of a thread that is asleep in a call; "running", or "-1 SP PC". */
static bool read_call(pid_t tid, int64_t *ret_call, ms_addr *ret_sp)
{
	enum { SP = 7 };
	char text[256];
	char *at = text, *end;

	(void)ms_proc_read(tid, "syscall", text, sizeof(text));
	*ret_call = strtoll(text, &end, 10);
	if (end == text || *ret_call < 0)
		return false;
	for (int i = 0; i < SP; i++) {
		at = end;
		*ret_sp = strtoull(at, &end, 16);
	}
	return end != at;
}

static void note_sleeper(struct ms_words_search *search, pid_t tid)
{
	struct ms_words_sleeper sleeper = {
		.stack.tid = tid,
		.schedstat = ms_proc_open(tid, "schedstat", O_RDONLY | O_CLOEXEC),
	};

	if (sleeper.schedstat < 0)
		return;
	sleeper.runs = ms_sleepers_runs(sleeper.schedstat);
	if (!sleeper.runs || search->sleepers.n == search->sleepers.cap ||
	    !read_call(tid, &sleeper.call, &sleeper.stack.sp)) {
		(void)close(sleeper.schedstat);
		return;
	}
	sleeper.stack.end = end_of(search, tid, sleeper.stack.sp, 0);
	search->sleepers.at[search->sleepers.n++] = sleeper;
	search->stacks.at[search->stacks.n++] = sleeper.stack;
}

static bool is_hit(const struct ms_words_search *search, const struct ms_words_stack *stack)
{
	const struct ms_range *hit;

	ms_vec_for_each (hit, &search->hits)
		if (hit->begin < stack->end && hit->end > stack->sp)
			return true;
	return false;
}

static bool is_before(const void *a, const void *b)
{
	return ((const struct ms_words_sleeper *)a)->stack.tid <
	       ((const struct ms_words_sleeper *)b)->stack.tid;
}

static void forget_sleepers(struct ms_words_search *search)
{
	const struct ms_words_sleeper *sleeper;

	ms_vec_for_each (sleeper, &search->sleepers)
		(void)close(sleeper->schedstat);
	search->sleepers.n = 0;
}

/* Each sleeper has a file open. */
static void allow_files(size_t n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= n + OTHER_FILES)
		return;
	limit.rlim_cur = limit.rlim_max < n + OTHER_FILES ? limit.rlim_max : n + OTHER_FILES;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void look_before(struct ms_words_search *search, const struct ms_ranges *wanted)
{
	char *buf = ms_arena_alloc(search->arena, MS_PROC_LIST_BYTES);
	struct ms_words_sleepers *sleepers = &search->sleepers;
	struct ms_words_sleeper *sleeper;
	struct ms_proc_list list;
	ms_addr reached;
	int32_t tid;

	begin_look(search, wanted);
	allow_files(search->sleepers.cap);
	search->before = true;
	search->until_ns = ms_now_ns() + (uint64_t)MS_WORDS_BEFORE_MS * MS_NS;
	if (buf && ms_proc_list_open(&list, search->pid, "task", buf) >= 0) {
		while (ms_proc_list_next(&list, &tid) && has_time(search))
			note_sleeper(search, tid);
		ms_proc_list_close(&list);
	}
	reached = sweep(search, 0);
	ms_vec_for_each (sleeper, sleepers)
		sleeper->clear = sleeper->stack.end <= reached && !is_hit(search, &sleeper->stack);
	if (!ms_sort(search->arena, sleepers->at, sleepers->n, sizeof(*sleepers->at), is_before))
		forget_sleepers(search);
	search->before = false;
	search->until_ns = 0;
}

enum ms_status ms_words_prepare(struct ms_words_search *search, pid_t pid,
                                const struct ms_ranges *wanted, struct ms_arena *arena,
                                struct ms_error *err)
{
	const pid_t tid = ms_proc_thread_of(pid);
	const size_t most = 2 * (size_t)search->max_threads + MORE_STACKS;
	enum ms_status st = ms_maps_read(tid, arena, &search->maps, err);

	search->pid = pid;
	search->arena = arena;
	search->pagemap_fd = -1;
	search->limit_ns = (uint64_t)MS_WORDS_LIMIT_MS * MS_NS;
	if (st)
		return st;
	search->words = ms_arena_alloc(arena, PIECE_BYTES);
	if (!search->words || !ms_vec_reserve(arena, &search->stacks, most) ||
	    !ms_vec_reserve(arena, &search->done, most) ||
	    !ms_vec_reserve(arena, &search->hits, MOST_HITS) ||
	    !ms_vec_reserve(arena, &search->sleepers, search->max_threads))
		return ms_fail(err, MS_E_NOMEM, "no memory to look through stacks");
	search->pagemap_fd = ms_proc_open(tid, "pagemap", O_RDONLY | O_CLOEXEC);
	if (wanted->n)
		look_before(search, wanted);
	return MS_OK;
}

void ms_words_end(struct ms_words_search *search)
{
	forget_sleepers(search);
	if (search->pagemap_fd >= 0)
		(void)close(search->pagemap_fd);
}

/* ---- while all stand ---- */

/*
 * Whether a thread has slept since its stack, up to @end, was found clear: it was given a processor
 * once, to stop, and is in the same call.
 */
static bool has_slept(const struct ms_words_search *search, const struct ms_frozen_thread *thread,
                      ms_addr end)
{
	const struct ms_words_sleepers *sleepers = &search->sleepers;
	const struct ms_words_sleeper *sleeper;
	size_t at = ms_lower_bound(0, sleepers->n, i, sleepers->at[i].stack.tid < thread->tid);

	if (at == sleepers->n)
		return false;
	sleeper = &sleepers->at[at];
	return sleeper->clear && sleeper->stack.tid == thread->tid &&
	       sleeper->stack.sp == thread->sp && sleeper->stack.end >= end &&
	       sleeper->call == thread->call &&
	       ms_sleepers_runs(sleeper->schedstat) == sleeper->runs + 1;
}

/* All but those that have slept: to ask that is a quarter of the work of reading a stack. */
static void add_threads(struct ms_words_search *search, const struct ms_collection *frozen)
{
	search->stacks.n = 0;
	assert(2 * (size_t)frozen->n_threads + MORE_STACKS <= search->stacks.cap);
	for (uint32_t i = 0; i < frozen->n_threads && has_time(search); i++) {
		const struct ms_frozen_thread *thread = &frozen->threads[i];
		ms_addr end = end_of(search, thread->tid, thread->sp, thread->tp);

		if (has_slept(search, thread, end))
			continue;
		search->stacks.at[search->stacks.n++] =
			(struct ms_words_stack){ thread->sp, end, thread->tid };
	}
	search->n_threads = search->stacks.n;
}

/* Where it takes long to stop so many threads, to look at each may take as long. */
static uint64_t limit_of(const struct ms_words_search *search, const struct ms_collection *frozen)
{
	const uint64_t most = MS_WORDS_LIMITS * search->limit_ns;
	uint64_t ns = frozen->freeze_ns < most ? frozen->freeze_ns : most;

	return ns > search->limit_ns ? ns : search->limit_ns;
}

enum ms_words_verdict ms_words_find(struct ms_words_search *search,
                                    const struct ms_collection *frozen,
                                    const struct ms_ranges *wanted, pid_t *ret)
{
	size_t first = 0;

	begin_look(search, wanted);
	if (!search->until_ns)
		search->until_ns = ms_now_ns() + limit_of(search, frozen);
	add_threads(search, frozen);
	for (int i = 0; first < search->stacks.n && !search->found && !search->unknown; i++) {
		const size_t n = search->stacks.n;

		if (i == MOST_SWEEPS)
			search->unknown = true;
		else
			(void)sweep(search, first);
		first = n;
	}
	*ret = search->found;
	if (search->found)
		return MS_WORDS_FOUND;
	return search->unknown ? MS_WORDS_UNKNOWN : MS_WORDS_NONE;
}
