/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diverted.h"
#include "held.h"
#include "target/inject/stopped/patch.h"
#include "target/maps.h"
#include "target/proc.h"

/* lsan: off */

/*
 * A child that allocates, and is led to each instruction for which something else is to stand,
 * or which stands for something else; there its functions are diverted, or given back.
 */
static struct ms_arena arena;
static struct ms_malloc_functions functions;
static struct ms_patch patch;
static struct ms_collection *shared;
static struct ms_freezer freezer;
static atomic_ulong *rounds; /* of the child's, in shared memory */
static pid_t child;
static struct libc libc; /* a sanitizer's malloc may stand in front of it */

enum { SIZE = 100, MOST_STEPS = 2000000 };

static void fill_and_free(unsigned char *block)
{
	if (!block)
		_exit(1);
	memset(block, 7, SIZE);
	libc.free(block);
}

/* Each function once. */
static void __attribute__((noinline)) use_all(void)
{
	void *volatile at = NULL;
	void *aligned = NULL;
	unsigned char *block = libc.realloc(at, SIZE / 2);

	block[10] = 9;
	block = libc.realloc(block, SIZE);
	if (block[10] != 9)
		_exit(2);
	fill_and_free(block);
	fill_and_free(libc.malloc(SIZE));
	block = libc.calloc(SIZE, 1);
	if (block[0] || block[SIZE - 1])
		_exit(3);
	fill_and_free(block);
	fill_and_free(libc.memalign(64, SIZE));
	fill_and_free(libc.aligned_alloc(64, 2 * SIZE));
	if (libc.posix_memalign(&aligned, 64, SIZE))
		_exit(4);
	fill_and_free(aligned);
	fill_and_free(libc.valloc(SIZE));
	fill_and_free(libc.pvalloc(SIZE));
}

static void use_all_for_ever(void *arg)
{
	(void)arg;
	child_ready();
	for (;; atomic_fetch_add(rounds, 1))
		use_all();
}

static void start_child(void)
{
	rounds = child_memory(sizeof(*rounds));
	child = child_start(use_all_for_ever, NULL);
	cr_assert_eq(ptrace(PTRACE_SEIZE, child, NULL, (uintptr_t)PTRACE_O_EXITKILL), 0);
}

static void map_agent(const struct ms_mappings *maps)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	void *at = (void *)(uintptr_t)ms_gap_find(maps, functions.text, 0, 1 << 20);
	uint8_t *text =
		mmap(at, ms_gap_bytes(), PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	struct ms_agent_data *data;
	struct ms_error err;

	cr_assert_eq(text, at);
	patch.text = (uintptr_t)text;
	memcpy(&patch.head, ms_agent_blob, sizeof(patch.head));
	cr_assert_eq(ms_patch_prepare(&patch, &err), MS_OK, "%s", err.text);
	memcpy(text, ms_agent_blob, ms_agent_blob_bytes);
	memcpy(text + MS_AGENT_SLOTS_AT, patch.slots, sizeof(patch.slots));
	data = (void *)(text + MS_AGENT_TEXT_BYTES);
	data->interval = 4096;
	data->left = ms_control_glibc.left;
	data->started = ms_control_glibc.started;
	cr_assert_eq(mprotect(text, MS_AGENT_TEXT_BYTES, PROT_READ | PROT_EXEC), 0);
}

static void setup(void)
{
	struct ms_mappings maps = { 0 };
	const struct ms_running in = { getpid(), open("/proc/self/mem", O_RDONLY), &maps };
	struct ms_tracee *tracee;
	struct ms_error err;

	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	cr_assert_eq(ms_malloc_functions_find(&in, &arena, &functions, &err), MS_OK, "%s",
	             err.text);
	patch = (struct ms_patch){ .functions = &functions, .words.pagemap_fd = -1 };
	map_agent(&maps);
	(void)close(in.mem_fd);
	libc_find(&libc);
	start_child();
	patch.pid = child;
	patch.mem_fd = ms_proc_open(child, "mem", O_RDWR);
	cr_assert_geq(patch.mem_fd, 0);
	cr_assert_eq(ms_collection_create(child, 1, &shared, &err), MS_OK);
	shared->n_threads = 1;
	freezer = (struct ms_freezer){ .shared = shared, .arch = &ms_native_arch };
	tracee = ms_vec_push(&arena, &freezer.tracees);
	*tracee = (struct ms_tracee){ .tid = child, .state = MS_TRACEE_STOPPED };
}

static void teardown(void)
{
	child_end(child);
	ms_arena_deinit(&arena);
}

TestSuite(patch, .init = setup, .fini = teardown, .timeout = 120);

/* ---- the child, led ---- */

static void await_stop(void)
{
	int status;

	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSTOPPED(status), "the child has ended: %#x", status);
	cr_assert_neq(WSTOPSIG(status), SIGSEGV);
	cr_assert_neq(WSTOPSIG(status), SIGILL);
}

static void stop(void)
{
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	await_stop();
}

static ms_addr pc(void)
{
	ms_addr at = 0;

	cr_assert(ms_native_arch.stepping->pc(child, &at));
	return at;
}

/* From one instruction to the next, until it is at @at. False when it never comes there. */
static bool step_to(ms_addr at)
{
	unsigned long last = atomic_load(rounds) + 2;

	for (int i = 0; i < MOST_STEPS && atomic_load(rounds) <= last; i++) {
		if (pc() == at)
			return true;
		cr_assert_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		await_stop();
	}
	return false;
}

/* The same by the processor's own breakpoints, where they work; one is met in each round. */
static bool lead_to(ms_addr at)
{
	const struct ms_arch_stepping *stepping = ms_native_arch.stepping;
	const ms_addr breaks[] = { at, (uintptr_t)use_all };
	int begun = 0;

	if (pc() == at)
		return true;
	if (!child_meets_breakpoints() || !stepping->set_breaks(child, breaks, 2))
		return step_to(at);
	while (pc() != at && begun <= 2) {
		cr_assert_eq(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
		await_stop();
		begun += pc() == breaks[1];
	}
	stepping->clear_breaks(child);
	return pc() == at;
}

/* It goes on for some rounds, in which it checks all that it gets, and stops. */
static void run_on(void)
{
	unsigned long last = atomic_load(rounds) + 3;

	cr_assert_eq(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	while (atomic_load(rounds) < last) {
		int status;

		cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "it is dead or stopped: %#x",
		             status);
	}
	stop();
}

static void look(void)
{
	struct ms_cpu cpu;

	cr_assert(freezer.arch->capture(child, MS_CAPTURED_ROOTS, &shared->threads[0], &cpu));
	shared->threads[0].tid = child;
	freezer.tracees.at[0].known = false;
}

/* As an attach does before the stop; here the child stands already. */
static void look_ahead(void)
{
	struct ms_error err = { 0 };

	ms_words_end(&patch.words);
	cr_assert_eq(ms_patch_look_ahead(&patch, 1, &arena, &err), MS_OK, "%s", err.text);
}

static void divert(void)
{
	struct ms_error err = { 0 };
	bool unknown;

	look();
	look_ahead();
	cr_assert_eq(ms_patch_divert(&patch, &freezer, &unknown, &err), MS_OK, "%s", err.text);
	cr_assert_eq(ms_patch_look(&patch).n_ours, ms_patch_look(&patch).n_found);
}

static void restore(void)
{
	struct ms_error err = { 0 };

	look();
	cr_assert_eq(ms_patch_restore(&patch, &freezer, &err), MS_OK, "%s", err.text);
	cr_assert_eq(ms_patch_look(&patch).n_ours, 0);
}

static bool in_text(ms_addr at)
{
	return at - patch.text < MS_AGENT_TEXT_BYTES;
}

Test(patch, diverts_a_thread_that_is_anywhere_in_a_beginning)
{
	unsigned n = 0;

	stop();
	for (unsigned i = 0; i < MS_AGENT_N; i++) {
		const struct ms_place *place = &functions.at[i].place;

		for (unsigned k = 0; functions.at[i].found && k < place->n_insns; k++) {
			ms_addr at = place->entry + place->at[k];

			if (!lead_to(at))
				continue;
			divert();
			cr_expect_eq(pc() == at, at < place->window, "%s+%u", ms_function_name(i),
			             place->at[k]);
			run_on();
			restore();
			run_on();
			n++;
		}
	}
	cr_expect_gt(n, 20, "%u places", n);
}

/* Where a thread in @i's stand-in may be, and where it is then. */
static void give_back_at(ms_addr at, ms_addr wanted, const char *what)
{
	divert();
	if (lead_to(at)) {
		restore();
		cr_expect_eq(pc(), wanted, "%s: %#lx, not %#lx", what, (unsigned long)pc(),
		             (unsigned long)wanted);
	} else {
		restore();
	}
	run_on();
}

Test(patch, gives_back_a_thread_that_is_anywhere_in_what_stands_for_a_beginning)
{
	stop();
	for (unsigned i = 0; i < MS_AGENT_N; i++) {
		const struct ms_place *place = &functions.at[i].place;
		ms_addr slot = patch.text + MS_AGENT_SLOTS_AT + i * MS_AGENT_SLOT_BYTES;

		if (!functions.at[i].found)
			continue;
		give_back_at(slot, place->n_undo ? place->window : place->entry, "glue");
		give_back_at(slot + place->n_undo, place->entry, "jump to the hook");
		give_back_at(patch.text + patch.head.functions[i].hook, place->entry, "hook");
		for (unsigned k = 0; k <= place->n_insns; k++)
			give_back_at(slot + MS_AGENT_MOVED_AT + patch.moved[i].at[k],
			             k < place->n_insns ? place->entry + place->at[k] : place->end,
			             ms_function_name(i));
	}
}

/* Every instruction between two rounds of the child, but the fast path's last ones are its own. */
Test(patch, is_right_wherever_a_thread_is_given_back)
{
	unsigned n_inside = 0;
	pid_t inside;

	stop();
	divert();
	for (unsigned n = 1; n < 600; n += 37) {
		unsigned steps = 0;

		for (int i = 0; steps < n && i < MOST_STEPS; i++) {
			cr_assert_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
			await_stop();
			steps += in_text(pc());
		}
		restore();
		look();
		look_ahead();
		n_inside += ms_patch_inside(&patch, shared, &inside) == MS_WORDS_FOUND;
		run_on();
		divert();
	}
	cr_expect_gt(n_inside, 0, "no thread was in the slow path");
}

Test(patch, refuses_what_another_tool_has_changed)
{
	const struct ms_place *place = &functions.at[MS_AGENT_MALLOC].place;
	const uint8_t trap = 0xcc;
	struct ms_error err = { 0 };

	stop();
	cr_assert(ms_code_write(patch.mem_fd, child, place->window + 1, &trap, 1));
	cr_expect_eq(ms_patch_check(&patch, &err), MS_E_UNSUPPORTED);
	cr_expect(strstr(err.text, "malloc") && strstr(err.text, "another tool"), "%s", err.text);
}

Test(patch, is_not_made_while_a_stack_leads_back_into_a_beginning)
{
	const struct ms_place *place = &functions.at[MS_AGENT_FREE].place;
	struct ms_error err = { 0 };
	ms_addr back = place->window + 1;
	bool unknown = false;

	stop();
	look();
	cr_assert_eq(pwrite(patch.mem_fd, &back, sizeof(back),
	                    (off_t)(ms_align_down(shared->threads[0].sp, 8) + 8)),
	             sizeof(back));
	look_ahead();
	cr_expect_eq(ms_patch_divert(&patch, &freezer, &unknown, &err), MS_E_BUSY);
	cr_expect_not(unknown);
	cr_expect_eq(ms_patch_look(&patch).n_ours, 0);
	look_ahead();
	patch.words.limit_ns = 0;
	cr_expect_eq(ms_patch_divert(&patch, &freezer, &unknown, &err), MS_E_BUSY);
	cr_expect(unknown && strstr(err.text, "look through the stacks"), "%s", err.text);
	cr_expect_eq(ms_patch_look(&patch).n_ours, 0);
}

/* Where the kernel lets nobody write to code through /proc. */
Test(patch, writes_code_by_the_word_across_pages_and_nothing_beside)
{
	enum { LEN = 201, ODD = 4096 - 13, ALL = 4096 + 1024 };
	static uint8_t before[ALL], after[ALL], wanted[LEN];

	stop();
	cr_assert_eq(pread(patch.mem_fd, before, ALL, (off_t)patch.text), ALL);
	for (unsigned len = 1; len <= LEN; len += 50) {
		memset(wanted, 0x90 + (int)len, len);
		cr_assert(ms_code_write(-1, child, patch.text + ODD, wanted, len));
		memcpy(before + ODD, wanted, len);
		cr_assert_eq(pread(patch.mem_fd, after, ALL, (off_t)patch.text), ALL);
		cr_expect_arr_eq(after, before, ALL, "%u bytes", len);
	}
}

Test(patch, writes_a_jump_at_once_wherever_in_a_page_it_is)
{
	static const uint8_t jump[MS_JUMP] = { 1, 2, 3, 4, 5 };
	uint8_t now[MS_JUMP];

	stop();
	for (ms_addr at = patch.text + 4096 - 12; at <= patch.text + 4096 - MS_JUMP; at++) {
		cr_assert(ms_code_write(-1, child, at, jump, sizeof(jump)));
		cr_assert_eq(pread(patch.mem_fd, now, sizeof(now), (off_t)at), sizeof(now));
		cr_expect_arr_eq(now, jump, sizeof(now));
	}
}
