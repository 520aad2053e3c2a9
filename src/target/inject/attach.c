/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/here.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/follow.h"
#include "target/code/gadgets.h"
#include "target/inject/reserve.h"
#include "target/inject/sharing.h"
#include "target/inject/stopped/steps.h"
#include "target/inject/turn.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/room.h"
#include "target/target.h"
#include "target/urgent.h"

enum {
	MOST_TRIES = 60,   /* of a stop that met a process in the wrong moment */
	MOST_UNKNOWN = 5,  /* whose stacks could not be looked through in time */
	MOST_LOADING = 20, /* of what maps other memory all the time */
	LEAST_ADDRESS = 1 << 20,
	NAP_FIRST_NS = 1000000,
	NAP_MOST_NS = 20000000,
	NAP_LOADING_NS = 5000000,
};

/* What a stop takes longer than its own time limit before it is ended from outside. */
static const uint64_t grace_ns = UINT64_C(3000000000);

/* The same when a signal is to end us. */
static const uint64_t ending_grace_ns = UINT64_C(500000000);

/* ---- a process for a stop ---- */

static int be_stopper(struct ms_attaching *a, ms_attach_step *body)
{
	struct ms_error *err = &a->answer->err;
	int urgency;

	if (!ms_collection_begin(a->shared))
		return 1;
	if (body != ms_attach_map && ms_attach_look_ahead(a, err))
		return 0;
	urgency = ms_urgent_begin();
	ms_collection_set_tick(true);
	err->status = body(a, err);
	ms_collection_set_tick(false);
	ms_urgent_end(urgency);
	a->answer->pause_ns = a->shared->pause_ns;
	if (body != ms_attach_map)
		ms_words_end(&a->patch.words);
	return 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Wait for its end; its death is what frees the target. */
static int await(const struct ms_attaching *a, pid_t pid)
{
	uint64_t deadline_ns = ms_now_ns() + a->call->timeout_ns + grace_ns;
	uint64_t nap_ns = 50000;
	bool ended = false;
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (!a->was_ended && !ended && ms_ending_is_pending()) {
			ended = true;
			deadline_ns = earlier(deadline_ns, ms_now_ns() + ending_grace_ns);
		}
		if (ms_now_ns() > deadline_ns)
			(void)kill(pid, SIGKILL);
		ms_sleep_ns(nap_ns);
		if (nap_ns < 1000000)
			nap_ns *= 2;
	}
	return status;
}

/* Have @body done in a process of its own: whatever it leaves traced or stopped goes with it. */
static enum ms_status have_done(struct ms_attaching *a, ms_attach_step *body, struct ms_error *err)
{
	pid_t original = getpid();
	pid_t pid;
	int status;

	*a->answer = (struct ms_stop_answer){ .err = { .status = MS_E_DIED } };
	pid = fork();
	if (pid < 0)
		return ms_fail_sys(err, errno, "cannot start a process");
	if (pid == 0) {
		if (!ms_follow_parent(original))
			_exit(0);
		(void)prctl(PR_SET_NAME, "memscan-attach");
		_exit(be_stopper(a, body));
	}
	status = await(a, pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		(void)ms_fail(
			err, MS_E_DIED,
			"the process that stopped process %d ended unexpectedly; that runs on",
			a->call->pid);
		ms_advise(err, "see memscan attach --status %d, and try again", a->call->pid);
		return err->status;
	}
	ms_error_take(err, &a->answer->err);
	return err->status;
}

/* Whether to try once more. A signal that is to end us is held back until it is answered. */
static bool has_time(const struct ms_attaching *a)
{
	if (!a->was_ended && ms_ending_is_pending())
		return false;
	return ms_now_ns() < a->call->begun_ns + a->call->timeout_ns;
}

/* Another memscan is there, which goes in a moment; of the two each may have met the other. */
static bool met_memscan(const struct ms_error *err)
{
	return err->status == MS_E_DENIED && strstr(err->text, "(memscan");
}

/* The same again while it comes in a moment in which nothing can be done. */
static enum ms_status have_done_in_time(struct ms_attaching *a, ms_attach_step *body,
                                        struct ms_attached *ret, struct ms_error *err)
{
	/* Two of us are not to meet again. */
	uint64_t nap_ns = NAP_FIRST_NS + (uint64_t)(getpid() % 8) * (NAP_FIRST_NS / 4);
	enum ms_status st;

	for (int i = 0;; i++) {
		st = have_done(a, body, err);
		ret->n_looks++;
		ret->n_unknown += a->answer->unknown;
		if (a->answer->pause_ns > ret->pause_ns)
			ret->pause_ns = a->answer->pause_ns;
		if ((st != MS_E_BUSY && !met_memscan(err)) || a->answer->taken || i == MOST_TRIES ||
		    ret->n_unknown == MOST_UNKNOWN || !has_time(a))
			return st;
		ms_sleep_ns(nap_ns);
		if (nap_ns < NAP_MOST_NS)
			nap_ns *= 2;
	}
}

static void note_taken_out(const struct ms_attaching *a, struct ms_attached *ret)
{
	ret->inside = a->answer->inside;
	ret->unknown = a->answer->unknown;
	ret->kept = !a->answer->unmapped;
}

/* Whether its memory may be given back when all are stopped once more. */
static bool is_to_be_tried(const struct ms_attaching *a, const struct ms_attached *ret)
{
	return ret->kept && (ret->inside || ret->unknown) && ret->n_unknown < MOST_UNKNOWN &&
	       ret->n_looks < MS_ATTACH_MOST_LOOKS && has_time(a);
}

/* Take it out, and look again until no thread is in it. */
static enum ms_status take_out_all(struct ms_attaching *a, struct ms_attached *ret,
                                   struct ms_error *err)
{
	uint64_t nap_ns = NAP_FIRST_NS;
	enum ms_status st = have_done_in_time(a, ms_attach_take_out, ret, err);
	struct ms_error ignored;

	if (st)
		return st;
	note_taken_out(a, ret);
	while (is_to_be_tried(a, ret)) {
		ms_sleep_ns(nap_ns);
		if (nap_ns < NAP_MOST_NS)
			nap_ns *= 2;
		/* It is detached, whether it can be looked at again or not. */
		if (have_done_in_time(a, ms_attach_take_out, ret, &ignored))
			break;
		note_taken_out(a, ret);
	}
	return MS_OK;
}

/* ---- what is known before ---- */

static enum ms_status check_calls(struct ms_error *err)
{
	if (ms_room_is_allowed())
		return MS_OK;
	(void)ms_fail(err, MS_E_DENIED,
	              "a filter forbids process_vm_readv() or process_vm_writev() here");
	ms_advise(err, "allow both to memscan (in a container: --cap-add SYS_PTRACE), or run it "
	               "outside of what confines it");
	return err->status;
}

static enum ms_status check_alive(pid_t pid, struct ms_error *err)
{
	if (!ms_proc_is_over(pid))
		return MS_OK;
	return ms_fail(err, MS_E_GONE, "process %d ended", pid);
}

static enum ms_status check_state(pid_t pid, struct ms_error *err)
{
	char state = ms_proc_state(ms_proc_thread_of(pid));

	if (state != 'T' && !ms_target_is_frozen(pid))
		return MS_OK;
	if (state != 'T') {
		(void)ms_fail(err, MS_E_DENIED, "process %d does not run", pid);
		ms_target_advise_frozen(pid, err);
		return err->status;
	}
	(void)ms_fail(err, MS_E_DENIED, "process %d is stopped by a signal", pid);
	ms_advise(err, "let it go on (kill -CONT %d) and try again", pid);
	return err->status;
}

/* A child of vfork() is gone in a moment. */
static enum ms_status check_sharing(const struct ms_attaching *a, struct ms_error *err)
{
	uint64_t nap_ns = NAP_FIRST_NS;
	enum ms_status st = ms_sharing_check(a->call->pid, err);

	for (int i = 1; st == MS_E_BUSY && i < MOST_TRIES && has_time(a); i++) {
		ms_sleep_ns(nap_ns);
		if (nap_ns < NAP_MOST_NS)
			nap_ns *= 2;
		st = ms_sharing_check(a->call->pid, err);
	}
	return st;
}

static enum ms_status open_memory(struct ms_attaching *a, int flags, struct ms_error *err)
{
	pid_t tid = ms_proc_thread_of(a->call->pid);
	int fd = ms_proc_open(tid, "mem", flags | O_CLOEXEC);

	if (fd == -EACCES || fd == -EPERM)
		return ms_target_explain_denied(a->call->pid, err);
	if (fd < 0)
		return ms_fail(err, MS_E_GONE, "process %d ended", a->call->pid);
	a->patch.mem_fd = fd;
	return MS_OK;
}

/* The target, once its maps were read. */
static struct ms_running running(const struct ms_attaching *a)
{
	return (struct ms_running){ ms_proc_thread_of(a->call->pid), a->patch.mem_fd, &a->maps };
}

static ms_addr find_begun(const struct ms_attaching *a)
{
	int fd = ms_proc_open(ms_proc_thread_of(a->call->pid), "pagemap", O_RDONLY | O_CLOEXEC);
	ms_addr at = fd < 0 ? 0 : ms_gap_find_begun(a->patch.mem_fd, fd, &a->maps);

	if (fd >= 0)
		(void)close(fd);
	return at;
}

static enum ms_status find_all(struct ms_attaching *a, struct ms_attached *ret,
                               struct ms_error *err)
{
	enum ms_status st = ms_maps_read(ms_proc_thread_of(a->call->pid), a->arena, &a->maps, err);
	struct ms_running in;

	if (st)
		return st;
	a->patch.text = ms_gap_find_agent(a->patch.mem_fd, &a->maps, &a->patch.head);
	a->agent_was = a->patch.text;
	a->begun = a->agent_was ? 0 : find_begun(a);
	ret->begun = a->begun;
	ret->mapped = a->agent_was || a->begun;
	in = running(a);
	return ms_malloc_functions_find(&in, a->arena, a->functions, err);
}

/* Whether all functions are diverted that make blocks; then what is no sample was no choice. */
static bool is_whole(const struct ms_malloc_functions *functions)
{
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		const struct ms_malloc_function *function = &functions->at[i];

		if (ms_function_makes((enum ms_agent_function)i) && !function->found &&
		    !function->is_other_name && !function->is_absent)
			return false;
	}
	return true;
}

/* Functions whose blocks others make, a bit for each. */
static uint64_t find_outer(const struct ms_malloc_functions *functions)
{
	uint64_t outer = 0;

	for (size_t i = 0; i < MS_AGENT_N; i++)
		if (functions->at[i].found && functions->at[i].is_outer)
			outer |= UINT64_C(1) << i;
	return outer;
}

/* An empty table. */
static enum ms_status make_table(struct ms_attaching *a, struct ms_error *err)
{
	struct ms_agent_data *table =
		ms_arena_alloc(a->arena, offsetof(struct ms_agent_data, records));
	const struct ms_mapping *map;

	if (!table)
		return ms_fail(err, MS_E_NOMEM, "no memory for the agent's table");
	memcpy(table->magic, MS_AGENT_MAGIC, sizeof(table->magic));
	table->interval = a->call->interval;
	table->random = ms_now_ns();
	table->passed_on = a->functions->passed_on;
	table->whole = is_whole(a->functions);
	table->outer = find_outer(a->functions);
	table->find_object = a->functions->find_object;
	table->left = a->functions->control->left;
	table->started = a->functions->control->started;
	ms_vec_for_each (map, &a->maps) {
		if (strcmp(map->name, "[stack]") != 0)
			continue;
		table->main_begin = map->range.begin;
		table->main_end = map->range.end;
	}
	a->table = table;
	return MS_OK;
}

/* Memory that is shared with who stops the target. */
static enum ms_status share(struct ms_attaching *a, struct ms_error *err)
{
	pid_t pid = a->call->pid;
	struct ms_proc_stat stat;
	struct ms_running in;
	enum ms_status st = ms_collection_create(pid, a->call->timeout_ns, &a->shared, err);
	void *page;

	if (st)
		return st;
	page = mmap(NULL, sizeof(*a->answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	            -1, 0);
	if (page == MAP_FAILED)
		return ms_fail_sys(err, errno, "no shared memory");
	a->answer = page;
	if (!ms_proc_stat(ms_proc_thread_of(pid), &stat))
		return ms_fail(err, MS_E_GONE, "process %d ended", pid);
	a->shared->program = stat.program;
	a->shared->captured = MS_CAPTURED_GENERAL;
	a->shared->clone_wanted = true; /* that is: threads are not led out of malloc */
	a->shared->libc_code[a->shared->n_libc_code++] = a->functions->libc_text;
	in = running(a);
	ms_gadgets_find(&in, a->shared, a->arena);
	return MS_OK;
}

/* All that can be known while the process runs. @flags: how its memory is opened. */
static enum ms_status look_up(struct ms_attaching *a, int flags, struct ms_attached *ret,
                              struct ms_error *err)
{
	enum ms_status st;

	*ret = (struct ms_attached){ 0 };
	a->functions = &ret->functions;
	a->patch =
		(struct ms_patch){ .pid = a->call->pid, .mem_fd = -1, .functions = a->functions };
	if (strcmp(ms_native_arch.name, "x86_64") != 0)
		return ms_fail(err, MS_E_UNSUPPORTED, "attach is known for x86-64 alone");
	st = ms_target_check_native(a->call->pid, "attach has code for 64-bit ones only", err);
	if (st) {
		ms_advise(err, "scan it without stacks: memscan --pid %d", a->call->pid);
		return st;
	}
	st = open_memory(a, flags, err);
	if (!st)
		st = find_all(a, ret, err);
	if (!st && a->patch.text)
		st = ms_patch_prepare(&a->patch, err);
	return st;
}

/* The same, when the process can be changed at all. */
static enum ms_status begin(struct ms_attaching *a, struct ms_attached *ret, struct ms_error *err)
{
	enum ms_status st = check_calls(err);

	if (!st)
		st = check_alive(a->call->pid, err);
	if (!st)
		st = check_state(a->call->pid, err);
	if (!st)
		st = check_sharing(a, err);
	if (st)
		return st;
	/* The rest is for what there is to do. */
	a->turn = ms_turn_take(a->call->pid, a->call->begun_ns + a->call->timeout_ns / 2);
	return look_up(a, O_RDWR, ret, err);
}

static void close_all(const struct ms_attaching *a)
{
	if (a->patch.mem_fd >= 0)
		(void)close(a->patch.mem_fd);
	if (a->turn >= 0)
		(void)close(a->turn);
	if (a->answer)
		(void)munmap(a->answer, sizeof(*a->answer));
	if (a->shared)
		ms_collection_destroy(a->shared);
}

/*
 * Whether the process has executed another program since: the memory that was opened is gone then,
 * and is read as a file that has ended. Where memory is there, but not at this address, the kernel
 * says so.
 */
static bool is_replaced(const struct ms_attaching *a)
{
	uint8_t byte;

	return a->patch.mem_fd >= 0 && pread(a->patch.mem_fd, &byte, 1, LEAST_ADDRESS) == 0;
}

static bool are_same(const struct ms_mappings *a, const struct ms_mappings *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->at[i].range.begin != b->at[i].range.begin)
			return false;
	return true;
}

static bool are_maps_other(const struct ms_attaching *a)
{
	struct ms_arena arena = { 0 };
	struct ms_mappings now = { 0 };
	struct ms_error ignored;
	bool other = ms_maps_read(ms_proc_thread_of(a->call->pid), &arena, &now, &ignored) ||
	             !are_same(&a->maps, &now);

	ms_arena_deinit(&arena);
	return other;
}

/*
 * Whether the process maps other memory than when it was looked up: perhaps its libraries were
 * being loaded. While they are it does not sleep, but may wait for a processor.
 */
static bool is_loading(const struct ms_attaching *a)
{
	for (int i = 0; a->maps.n && i < MOST_TRIES && has_time(a); i++) {
		if (are_maps_other(a))
			return true;
		if (ms_proc_state(ms_proc_thread_of(a->call->pid)) == 'S')
			return false;
		ms_sleep_ns(NAP_LOADING_NS);
	}
	return false;
}

/*
 * Foreign code may be the unfinished work of another memscan: that of one whose turn it is, or of
 * one that has waited for ours in vain, and whose agent the next look finds.
 */
static bool is_being_changed(const struct ms_attaching *a)
{
	return (a->turn < 0 || !a->is_again) && a->functions && a->patch.mem_fd >= 0 &&
	       ms_patch_look(&a->patch).foreign;
}

/*
 * What failed may have done so because the process ended meanwhile, or executed a program, or has
 * just begun one.
 */
static enum ms_status conclude(struct ms_attaching *a, enum ms_status st, struct ms_error *err)
{
	a->loading = st == MS_E_UNSUPPORTED && (is_being_changed(a) || is_loading(a));
	/* The agent may be gone, when a memscan that was killed had begun to give it back. */
	a->replaced = st && (st == MS_E_GONE || is_replaced(a));
	close_all(a);
	if (!st)
		return MS_OK;
	if (check_alive(a->call->pid, err))
		a->replaced = a->loading = a->unfinished = false;
	if (!a->replaced)
		return err->status;
	(void)ms_fail(err, MS_E_BUSY, "process %d executed another program while memscan looked",
	              a->call->pid);
	ms_advise(err, "try again when it runs one for longer");
	return err->status;
}

/* ---- the outside ---- */

/* A place for an agent that is not there yet. */
static enum ms_status choose_place(struct ms_attaching *a, struct ms_error *err)
{
	const struct ms_reserve wanted = { a->call->pid, a->maps.n, ms_gap_bytes(),
		                           a->call->interval };
	struct ms_proc_stat stat = { 0 };

	if (ms_reserve_check(&wanted, err))
		return err->status;
	(void)ms_proc_stat(ms_proc_thread_of(a->call->pid), &stat);
	a->patch.text = ms_gap_find(&a->maps, a->functions->text, stat.program.brk, LEAST_ADDRESS);
	if (!a->patch.text) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "process %d has no room for %llu MB within 2 GB of its malloc",
		              a->call->pid, (unsigned long long)(ms_gap_bytes() >> 20));
		ms_advise(err, "start the program with libmalloc_debug instead");
		return err->status;
	}
	memcpy(&a->patch.head, ms_agent_blob, sizeof(a->patch.head));
	a->fresh = true;
	return ms_patch_prepare(&a->patch, err);
}

/* The agent that is there already is to be this memscan's, slots included. */
static enum ms_status check_same(const struct ms_attaching *a, struct ms_error *err)
{
	uint8_t *text = ms_arena_alloc(a->arena, MS_AGENT_TEXT_BYTES);

	if (!text)
		return ms_fail(err, MS_E_NOMEM, "no memory for the agent's text");
	if (pread(a->patch.mem_fd, text, MS_AGENT_TEXT_BYTES, (off_t)a->patch.text) ==
	            MS_AGENT_TEXT_BYTES &&
	    !memcmp(text, ms_agent_blob, ms_agent_blob_bytes) &&
	    !memcmp(text + MS_AGENT_SLOTS_AT, a->patch.slots, sizeof(a->patch.slots)))
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has the agent of another memscan version",
	              a->call->pid);
	ms_advise(err, "memscan detach %d, and try again later: its memory may still be in use",
	          a->call->pid);
	return err->status;
}

/* Whether others read it; a detach that was killed may have closed it. */
static bool has_table(const struct ms_attaching *a)
{
	char magic[sizeof(((struct ms_agent_data *)0)->magic)] = "";

	return pread(a->patch.mem_fd, magic, sizeof(magic), (off_t)ms_attach_data(a)) ==
	               sizeof(magic) &&
	       !memcmp(magic, MS_AGENT_MAGIC, sizeof(MS_AGENT_MAGIC));
}

static enum ms_status reuse(struct ms_attaching *a, struct ms_attached *ret, struct ms_error *err)
{
	struct ms_patch_state state = ms_patch_look(&a->patch);

	ret->reused = true;
	a->fresh = !state.frees;
	if (state.n_ours == state.n_found && has_table(a)) {
		(void)ms_fail(err, MS_E_BUSY, "process %d is attached already", a->call->pid);
		ms_advise(err,
		          "see memscan attach --status %d; to sample otherwise, memscan detach %d "
		          "first",
		          a->call->pid, a->call->pid);
		return err->status;
	}
	a->unfinished = a->turn < 0;
	if (!a->unfinished)
		return check_same(a, err);
	(void)ms_fail(err, MS_E_BUSY, "another memscan is attaching to process %d, or detaching",
	              a->call->pid);
	ms_advise(err, "try again in a moment");
	return err->status;
}

/* Take back what was mapped in vain. */
static void undo(struct ms_attaching *a)
{
	struct ms_attached ignored = { 0 };
	struct ms_error err;

	a->was_ended = true; /* nothing is to be left behind */
	(void)have_done_in_time(a, ms_attach_take_out, &ignored, &err);
}

/* Map it; somewhere else when the process has mapped memory there since we looked. */
static enum ms_status map(struct ms_attaching *a, struct ms_attached *ret, struct ms_error *err)
{
	pid_t tid = ms_proc_thread_of(a->call->pid);
	enum ms_status st = have_done_in_time(a, ms_attach_map, ret, err);

	for (int i = 0; a->answer->taken && i < MOST_TRIES && has_time(a); i++) {
		st = ms_maps_read(tid, a->arena, &a->maps, err);
		if (!st)
			st = choose_place(a, err);
		if (st)
			break;
		st = have_done_in_time(a, ms_attach_map, ret, err);
	}
	return st;
}

/* Give back what an attach has left that was killed. */
static enum ms_status remove_begun(struct ms_attaching *a, struct ms_attached *ret,
                                   struct ms_error *err)
{
	enum ms_status st = MS_OK;

	/* Out of turn it may be that of another memscan, which is at work. */
	if (a->turn >= 0)
		st = have_done_in_time(a, ms_attach_map, ret, err);
	ret->kept = !a->answer->unmapped;
	a->begun = 0;
	return st;
}

static enum ms_status map_and_divert(struct ms_attaching *a, struct ms_attached *ret,
                                     struct ms_error *err)
{
	enum ms_status st = a->begun ? remove_begun(a, ret, err) : MS_OK;

	if (!st && !a->agent_was) {
		st = map(a, ret, err);
		ret->map_ns = a->answer->pause_ns;
		ret->pause_ns = 0;
		ret->n_looks = 0;
	}
	if (st)
		return st;
	ret->mapped = true;
	st = have_done_in_time(a, ms_attach_divert, ret, err);
	ret->inside = a->answer->inside;
	if (st && !a->agent_was && st != MS_E_DIED)
		undo(a);
	return st;
}

static void count(struct ms_attached *ret, const struct ms_patch *patch)
{
	struct ms_patch_state state = ms_patch_look(patch);

	ret->n_functions = state.n_found;
	ret->n_diverted = state.n_ours;
}

/* From now on it is better to go on to the end of what is begun. */
static void set_changing(const struct ms_attach_call *call)
{
	if (call->changing)
		atomic_store(call->changing, true);
}

static enum ms_status attach(struct ms_attaching *a, struct ms_attached *ret, struct ms_error *err)
{
	enum ms_status st = begin(a, ret, err);

	if (!st)
		st = a->agent_was ? reuse(a, ret, err) : choose_place(a, err);
	if (!st)
		st = ms_patch_check(&a->patch, err);
	if (!st)
		st = make_table(a, err);
	if (!st)
		st = share(a, err);
	if (!st) {
		set_changing(a->call);
		st = map_and_divert(a, ret, err);
	}
	if (!st)
		count(ret, &a->patch);
	return conclude(a, st, err);
}

static enum ms_status detach(struct ms_attaching *a, struct ms_attached *ret, struct ms_error *err)
{
	enum ms_status st = begin(a, ret, err);

	if (!st && ret->mapped)
		st = share(a, err);
	if (!st && ret->mapped) {
		set_changing(a->call);
		st = a->begun ? remove_begun(a, ret, err) : take_out_all(a, ret, err);
	}
	return conclude(a, st, err);
}

static enum ms_status fail_loading(const struct ms_attaching *a, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_BUSY, "process %d seems to load its program or a library",
	              a->call->pid);
	ms_advise(err, "try again in a moment");
	return err->status;
}

/* All of it once more while the process executes another program, or begins one. */
static enum ms_status have_whole(const struct ms_attach_call *call, struct ms_arena *arena,
                                 enum ms_status (*whole)(struct ms_attaching *,
                                                         struct ms_attached *, struct ms_error *),
                                 struct ms_attached *ret, struct ms_error *err)
{
	const bool was_ended = ms_ending_is_pending();
	uint64_t nap_ns = NAP_FIRST_NS;

	for (int i = 0;; i++) {
		struct ms_attaching a = { .call = call,
			                  .arena = arena,
			                  .patch.mem_fd = -1,
			                  .turn = -1,
			                  .is_again = i > 0,
			                  .was_ended = was_ended };
		enum ms_status st = whole(&a, ret, err);

		if (!(a.replaced && i < MOST_TRIES) &&
		    !((a.loading || a.unfinished) && i < MOST_LOADING))
			return st;
		if (!has_time(&a))
			return a.loading ? fail_loading(&a, err) : st;
		ms_sleep_ns(nap_ns);
		if (nap_ns < NAP_MOST_NS)
			nap_ns *= 2;
	}
}

enum ms_status ms_attach_here(const struct ms_attach_call *call, struct ms_arena *arena,
                              struct ms_attached *ret, struct ms_error *err)
{
	return have_whole(call, arena, attach, ret, err);
}

enum ms_status ms_detach_here(const struct ms_attach_call *call, struct ms_arena *arena,
                              struct ms_attached *ret, struct ms_error *err)
{
	return have_whole(call, arena, detach, ret, err);
}

enum ms_status ms_attach_status_here(const struct ms_attach_call *call, struct ms_arena *arena,
                                     struct ms_attached *ret, struct ms_error *err)
{
	struct ms_attaching a = { .call = call, .arena = arena, .patch.mem_fd = -1, .turn = -1 };
	struct ms_agent_data *data = ms_arena_alloc(arena, offsetof(struct ms_agent_data, records));
	enum ms_status st = data ? look_up(&a, O_RDONLY, ret, err)
	                         : ms_fail(err, MS_E_NOMEM, "no memory for the agent's table");

	if (!st && a.agent_was) {
		count(ret, &a.patch);
		ret->is_open = has_table(&a);
		(void)!pread(a.patch.mem_fd, data, offsetof(struct ms_agent_data, records),
		             (off_t)ms_attach_data(&a));
		ret->interval = data->interval;
		ret->n_samples = data->n_samples;
		ret->n_dropped = data->n_dropped;
		for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
			ret->n_live += data->slots[i] != 0;
	}
	return conclude(&a, st, err);
}
