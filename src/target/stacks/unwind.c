/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind asks for registers, memory and unwind tables through callbacks; all of
 * them are answered from what was copied or is in memory, none by ptrace. The ready
 * callbacks of libunwind-ptrace are not used: they want the process stopped, and its
 * files to be where its mount namespace has them.
 */
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/page.h"
#include "target/arch/arch.h"
#include "target/maps.h"
#include "target/stacks/stacks.h"

/* Exported for users of remote tables (perf is one), but declared in no header. */
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t as, unw_word_t ip,
                                              unw_dyn_info_t *di, unw_proc_info_t *pi,
                                              int need_unwind_info, void *arg);

enum { CACHE_PAGES = 64 };

/* A page of tables or code: they are read a few bytes at a time. */
struct cached {
	ms_addr page;
	bool valid;
	char bytes[MS_PAGE_BYTES];
};

struct unwinder {
	const struct ms_frozen_stacks *stacks;
	uint64_t registers[MS_DWARF_REGISTERS]; /* to begin from */
	bool known[MS_DWARF_REGISTERS];
	uint64_t deadline_ns;
	bool cut;                               /* what was not copied of a stack was asked for */
	size_t next_name;                       /* likely of the thread that comes next */
	struct ms_unwind_table *tables;         /* one for each mapping */
	const struct ms_unwind_table *searched; /* that libunwind reads in now */
	struct cached *cache;                   /* CACHE_PAGES */
	struct ms_arena *arena;
	unw_addr_space_t space;
	struct ms_compat_unwinder *compat; /* of a program for another machine */
};

static bool is_code(const struct ms_frozen_stacks *stacks, ms_addr addr)
{
	const struct ms_mapping *map = ms_maps_find(&stacks->maps, addr);

	return map && map->prot & MS_PROT_EXEC;
}

/* A word as unwinding wants it: without the signature of an address that a call returns to. */
static uint64_t unsigned_word(const struct unwinder *u, uint64_t word)
{
	ms_addr code = ms_arch_code(&ms_native_arch, word);

	return code != word && is_code(u->stacks, code) ? code : word;
}

/* ---- what libunwind asks ---- */

static const char *cached_page(struct unwinder *u, ms_addr page)
{
	struct cached *cached = &u->cache[page / MS_PAGE_BYTES % CACHE_PAGES];

	if (cached->valid && cached->page == page)
		return cached->bytes;
	cached->page = page;
	cached->valid =
		ms_stacks_read(u->stacks, page, cached->bytes, MS_PAGE_BYTES) == MS_PAGE_BYTES;
	return cached->valid ? cached->bytes : NULL;
}

/* From the table that we made ourselves. */
static bool read_made(const struct ms_unwind_table *table, ms_addr addr, uint64_t *ret)
{
	uint64_t at = addr - MS_MADE_TABLE;

	if (!table || !table->made || at + sizeof(*ret) > table->n * sizeof(table->made[0]))
		return false;
	memcpy(ret, (const char *)table->made + at, sizeof(*ret));
	return true;
}

static bool read_word(struct unwinder *u, ms_addr addr, uint64_t *ret)
{
	ms_addr page = ms_align_down(addr, MS_PAGE_BYTES);
	const char *bytes = NULL;

	if (addr >= MS_MADE_TABLE)
		return read_made(u->searched, addr, ret);
	if (ms_range_find(&u->stacks->copied, addr))
		return ms_stacks_read(u->stacks, addr, ret, sizeof(*ret)) == sizeof(*ret);
	/* What it holds by now has nothing to do with the rest. */
	if (ms_range_find(&u->stacks->missing, addr)) {
		u->cut = true;
		return false;
	}
	if (addr - page <= MS_PAGE_BYTES - sizeof(*ret))
		bytes = cached_page(u, page);
	if (!bytes)
		return ms_stacks_read(u->stacks, addr, ret, sizeof(*ret)) == sizeof(*ret);
	memcpy(ret, bytes + (addr - page), sizeof(*ret));
	return true;
}

static int access_mem(unw_addr_space_t space, unw_word_t addr, unw_word_t *word, int write,
                      void *arg)
{
	struct unwinder *u = arg;

	(void)space;
	/* Tables are the target's to forge: no loop over them may last for ever. */
	if (write || ms_now_ns() > u->deadline_ns)
		return -UNW_ESTOPUNWIND;
	if (!read_word(u, addr, word))
		return -UNW_EINVAL;
	*word = unsigned_word(u, *word);
	return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *word, int write,
                      void *arg)
{
	const struct unwinder *u = arg;

	(void)space;
	if (write)
		return -UNW_EREADONLYREG;
	if (number < 0 || number >= ms_native_arch.n_dwarf || !u->known[number])
		return -UNW_EBADREG;
	*word = unsigned_word(u, u->registers[number]);
	return 0;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *pi,
                          int need_unwind_info, void *arg)
{
	struct unwinder *u = arg;
	const struct ms_mapping *map = ms_maps_find(&u->stacks->maps, ip);
	struct ms_unwind_table *table;
	unw_dyn_info_t info;

	if (!map)
		return -UNW_ENOINFO;
	table = &u->tables[map - u->stacks->maps.at];
	if (!table->looked)
		ms_unwind_table_find(u->stacks, map, u->arena, table);
	if (!table->found)
		return -UNW_ENOINFO;
	u->searched = table;
	memset(&info, 0, sizeof(info));
	info.format = UNW_INFO_FORMAT_REMOTE_TABLE;
	info.start_ip = map->range.begin;
	info.end_ip = map->range.end;
	info.u.rti.segbase = table->base;
	info.u.rti.table_data = table->entries;
	info.u.rti.table_len = table->n; /* in words; an entry has as many bytes */
	return UNW_OBJ(dwarf_search_unwind_table)(space, ip, &info, pi, need_unwind_info, arg);
}

/* What find_proc_info() gives is libunwind's own. */
static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *pi, void *arg)
{
	(void)space;
	(void)pi;
	(void)arg;
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *list, void *arg)
{
	(void)space;
	(void)arg;
	*list = 0;
	return -UNW_ENOINFO;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
	(void)space;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

/* ---- walking a stack ---- */

static void set_register(struct unwinder *u, int number, uint64_t value)
{
	u->registers[number] = value;
	u->known[number] = true;
}

static void fail(struct ms_backtrace *trace, const char *why)
{
	(void)snprintf(trace->failure, sizeof(trace->failure), "%s", why);
}

/*
 * A call through a bad pointer: pc leads nowhere, but where it came from was pushed. Go on
 * from there. False when this is no such case.
 */
static bool step_over_bad_call(struct unwinder *u, unw_cursor_t *cursor)
{
	uint64_t caller = 0;
	unw_word_t pc = 0;
	unw_word_t sp = 0;

	(void)unw_get_reg(cursor, UNW_REG_IP, &pc);
	(void)unw_get_reg(cursor, UNW_REG_SP, &sp);
	if (!ms_native_arch.pushes_returns || is_code(u->stacks, pc) ||
	    !read_word(u, sp, &caller) || !is_code(u->stacks, caller))
		return false;
	for (int i = 0; i < ms_native_arch.n_dwarf; i++)
		u->known[i] = unw_get_reg(cursor, i, &u->registers[i]) == 0;
	set_register(u, ms_native_arch.dwarf_pc, caller);
	set_register(u, ms_native_arch.dwarf_sp, sp + sizeof(caller));
	return unw_init_remote(cursor, u->space, u) == 0;
}

/* Whether there is one more call; the reason goes to trace->failure when that is not known. */
static bool step(struct unwinder *u, unw_cursor_t *cursor, struct ms_backtrace *trace)
{
	unw_word_t before[2] = { 0, 0 };
	unw_word_t after[2] = { 0, 0 };
	int n = 1;

	(void)unw_get_reg(cursor, UNW_REG_IP, &before[0]);
	(void)unw_get_reg(cursor, UNW_REG_SP, &before[1]);
	if (!step_over_bad_call(u, cursor))
		n = unw_step(cursor);
	if (ms_now_ns() > u->deadline_ns) {
		fail(trace, "the time for it ran out");
		return false;
	}
	if (n < 0)
		fail(trace, u->cut ? "the stack is larger than what is copied" : unw_strerror(n));
	if (n <= 0)
		return false;
	(void)unw_get_reg(cursor, UNW_REG_IP, &after[0]);
	(void)unw_get_reg(cursor, UNW_REG_SP, &after[1]);
	if (!after[0])
		return false;
	if (memcmp(before, after, sizeof(before)) == 0) {
		fail(trace, "the stack leads back to itself");
		return false;
	}
	return true;
}

/*
 * Add where @cursor is. A return address stands behind its call; but the trampoline of a
 * signal handler, and what the signal interrupted, were not called from in front of
 * where they are. libunwind reports such a frame when it has come to the second.
 */
static bool add_frame(unw_cursor_t *cursor, struct ms_arena *arena, struct ms_backtrace *trace)
{
	bool interrupted = unw_is_signal_frame(cursor) > 0;
	bool first = trace->frames.n == 0;
	struct ms_frame *frame = ms_vec_push(arena, &trace->frames);

	if (!frame)
		return false;
	(void)unw_get_reg(cursor, UNW_REG_IP, &frame->pc);
	if (first)
		return true;
	if (!interrupted)
		frame->pc--;
	else if (trace->frames.n > 2)
		frame[-1].pc++;
	return true;
}

/* Follow the calls from u->registers on. False without memory. */
static bool walk(struct unwinder *u, struct ms_arena *arena, struct ms_backtrace *trace)
{
	unw_cursor_t cursor;
	int n = unw_init_remote(&cursor, u->space, u);

	if (n < 0) {
		fail(trace, unw_strerror(n));
		return true;
	}
	do {
		if (trace->frames.n == MS_MAX_FRAMES) {
			fail(trace, "the stack is deeper than what is shown");
			return true;
		}
		if (!add_frame(&cursor, arena, trace))
			return false;
	} while (step(u, &cursor, trace));
	return true;
}

/* Threads are frozen mostly in the order of their ids, in which they are unwound. */
static void name_thread(struct unwinder *u, struct ms_backtrace *trace)
{
	const struct ms_threads *threads = &u->stacks->threads;

	for (size_t n = 0; n < threads->n; n++) {
		size_t i = (u->next_name + n) % threads->n;

		if (threads->at[i].tid != trace->tid)
			continue;
		memcpy(trace->name, u->stacks->names[i], MS_THREAD_NAME);
		u->next_name = i + 1;
		return;
	}
}

/* Of a thread that sleeps in the kernel and did not stop only its call's arguments are known. */
static void set_registers(struct unwinder *u, const struct ms_thread *thread)
{
	const struct ms_arch *arch = &ms_native_arch;

	memset(u->known, 0, sizeof(u->known));
	for (int i = 0; thread->stopped && i < arch->n_dwarf; i++)
		set_register(u, i, thread->words[arch->dwarf[i]]);
	for (size_t i = 0; !thread->stopped && i < thread->n_words && i < 6; i++)
		set_register(u, arch->dwarf_args[i], thread->words[i]);
	set_register(u, arch->dwarf_pc, thread->pc);
	set_register(u, arch->dwarf_sp, thread->sp);
}

static bool unwind_thread(struct unwinder *u, const struct ms_thread *thread,
                          struct ms_arena *arena, struct ms_backtrace *trace)
{
	u->cut = false;
	trace->tid = thread->tid;
	name_thread(u, trace);
	if (!thread->pc && !thread->sp) {
		fail(trace, "it sleeps in the kernel, its registers are not known");
		return true;
	}
	if (u->compat)
		return ms_compat_unwind(u->compat, thread, arena, trace);
	set_registers(u, thread);
	return walk(u, arena, trace);
}

/* ---- all threads ---- */

static int by_tid(const void *a, const void *b)
{
	const struct ms_thread *left = a;
	const struct ms_thread *right = b;

	return (left->tid > right->tid) - (left->tid < right->tid);
}

/* The process's own thread, then the others by their ids. */
static bool order(const struct ms_frozen_stacks *stacks, struct ms_arena *arena,
                  struct ms_threads *ret)
{
	const struct ms_thread *thread;
	size_t leaders = 0;

	if (!ms_vec_reserve(arena, ret, stacks->threads.n))
		return false;
	ms_vec_for_each (thread, &stacks->threads)
		if (thread->tid == stacks->pid) {
			ret->at[ret->n++] = *thread;
			leaders = 1;
		}
	ms_vec_for_each (thread, &stacks->threads)
		if (thread->tid != stacks->pid)
			ret->at[ret->n++] = *thread;
	if (ret->n)
		qsort(ret->at + leaders, ret->n - leaders, sizeof(ret->at[0]), by_tid);
	return true;
}

static bool unwind_all(struct unwinder *u, const struct ms_threads *threads, struct ms_arena *arena,
                       struct ms_backtraces *ret)
{
	const struct ms_thread *thread;

	ms_vec_for_each (thread, threads) {
		struct ms_backtrace *trace = ms_vec_push(arena, ret);

		if (!trace || !unwind_thread(u, thread, arena, trace))
			return false;
	}
	return true;
}

enum ms_status ms_stacks_unwind(const struct ms_frozen_stacks *stacks, uint64_t deadline_ns,
                                struct ms_arena *arena, struct ms_backtraces *ret,
                                struct ms_error *err)
{
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info_list_addr,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.resume = resume,
	};
	struct unwinder u = { .stacks = stacks, .deadline_ns = deadline_ns, .arena = arena };
	struct ms_threads threads = { 0 };
	bool enough = order(stacks, arena, &threads);

	u.tables = ms_arena_alloc(arena, (stacks->maps.n + 1) * sizeof(u.tables[0]));
	u.cache = ms_arena_alloc(arena, CACHE_PAGES * sizeof(u.cache[0]));
	u.space = unw_create_addr_space(&accessors, 0);
	if (stacks->arch != &ms_native_arch) {
		u.compat = ms_compat_unwinder_new(stacks, arena);
		enough = enough && u.compat;
	}
	enough = enough && u.tables && u.cache && u.space;
	if (enough) {
		(void)unw_set_caching_policy(u.space, UNW_CACHE_GLOBAL);
		enough = unwind_all(&u, &threads, arena, ret);
	}
	if (u.space)
		unw_destroy_addr_space(u.space);
	return enough ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for the stacks");
}
