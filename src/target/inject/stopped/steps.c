/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/stopped/steps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/clone/borrow.h"
#include "target/proc.h"

/* ---- the agent's memory ---- */

static bool write_data(const struct ms_attaching *a, size_t at, const void *bytes, size_t len)
{
	return pwrite(a->patch.mem_fd, bytes, len, (off_t)(ms_attach_data(a) + at)) == (ssize_t)len;
}

/*
 * What the table begins with: all of it when it is new or has stale blocks, else how far samples
 * lie apart, and that not all did so. The magic word makes it known to who reads it, and comes
 * last.
 */
static bool open_table(const struct ms_attaching *a)
{
	const struct ms_agent_data *table = a->table;
	const size_t begin = offsetof(struct ms_agent_data, interval);
	const uint64_t not_whole = 0;
	size_t len = (a->fresh ? offsetof(struct ms_agent_data, records)
	                       : begin + sizeof(table->interval)) -
	             begin;

	return write_data(a, begin, &table->interval, len) &&
	       (a->fresh || write_data(a, offsetof(struct ms_agent_data, whole), &not_whole,
	                               sizeof(not_whole))) &&
	       write_data(a, 0, table->magic, sizeof(table->magic));
}

/* Blocks that are freed soon stay in it, so it is nobody's to read. */
static void close_table(const struct ms_attaching *a)
{
	const char none[sizeof(((struct ms_agent_data *)0)->magic)] = "";

	(void)write_data(a, offsetof(struct ms_agent_data, magic), none, sizeof(none));
}

/* The magic word that says that all is there comes last. */
static bool write_text(const struct ms_attaching *a, pid_t tid)
{
	const struct ms_patch *patch = &a->patch;
	const size_t magic = sizeof(patch->head.magic);

	return ms_code_write(patch->mem_fd, tid, patch->text + magic, ms_agent_blob + magic,
	                     ms_agent_blob_bytes - magic) &&
	       ms_code_write(patch->mem_fd, tid, patch->text + MS_AGENT_SLOTS_AT, patch->slots,
	                     sizeof(patch->slots)) &&
	       ms_code_write(patch->mem_fd, tid, patch->text, ms_agent_blob, magic);
}

/* ---- mapping it, by one thread ---- */

static struct ms_call call_mmap(ms_addr at, uint64_t len, int prot, int flags)
{
	return (struct ms_call){ SYS_mmap,
		                 { at, len, (uint64_t)prot,
		                   (uint64_t)(MAP_PRIVATE | MAP_ANONYMOUS | flags), UINT64_MAX,
		                   0 } };
}

static struct ms_call call_munmap(ms_addr at, uint64_t len)
{
	return (struct ms_call){ SYS_munmap, { at, len } };
}

static enum ms_status explain_mmap(const struct ms_attaching *a, int64_t result,
                                   struct ms_error *err)
{
	if (result == -ENOMEM) {
		(void)ms_fail(err, MS_E_DENIED, "process %d may not map %llu MiB more",
		              a->call->pid, (unsigned long long)(ms_gap_bytes() >> 20));
		ms_advise(err,
		          "raise RLIMIT_AS or RLIMIT_DATA (prlimit --pid %d), or "
		          "vm.max_map_count",
		          a->call->pid);
		return err->status;
	}
	if (result == -EAGAIN) {
		(void)ms_fail(err, MS_E_DENIED,
		              "process %d may not lock %llu MB more, as it locks all of its memory "
		              "(mlockall) up to RLIMIT_MEMLOCK",
		              a->call->pid, (unsigned long long)(ms_gap_bytes() >> 20));
		ms_advise(err, "raise the limit: prlimit --memlock=SOFT:HARD --pid %d",
		          a->call->pid);
		return err->status;
	}
	if (result == -EEXIST || result >= 0) {
		a->answer->taken = true;
		return ms_fail(err, MS_E_BUSY, "process %d maps memory wherever the agent is to be",
		               a->call->pid);
	}
	(void)ms_fail_sys(err, (int)-result, "process %d could not map memory", a->call->pid);
	ms_advise(err, "a security module may forbid it to map code: see the kernel's log");
	return err->status;
}

enum { MAP_ALL, MAP_TEXT, UNMAP };

/* The calls of ms_attach_map(), in their order. The text replaces a part of what is mapped. */
static void list_calls(const struct ms_attaching *a, struct ms_named_call ret[3])
{
	const ms_addr text = a->patch.text;

	ret[MAP_ALL] =
		(struct ms_named_call){ "mmap",
		                        call_mmap(text, ms_gap_bytes(), PROT_READ | PROT_WRITE,
		                                  MAP_NORESERVE | MAP_FIXED_NOREPLACE) };
	ret[MAP_TEXT] =
		(struct ms_named_call){ "mmap", call_mmap(text, MS_AGENT_TEXT_BYTES,
		                                          PROT_READ | PROT_EXEC, MAP_FIXED) };
	ret[UNMAP] = (struct ms_named_call){ "munmap", call_munmap(text, ms_gap_bytes()) };
}

static enum ms_status fail_call(const struct ms_attaching *a, const struct ms_detour *detour,
                                struct ms_error *err)
{
	(void)ms_fail(err, MS_E_BUSY, "thread %d of process %d ended, or did not answer in time",
	              detour->in.tid, a->call->pid);
	ms_advise(err, "try again when the machine is less busy");
	return err->status;
}

/*
 * Map the agent's memory, or nothing. It is marked before it is code, so that another attach or
 * detach finds it should we be killed.
 */
static enum ms_status map_all(const struct ms_attaching *a, struct ms_detour *detour,
                              const struct ms_named_call *calls, struct ms_error *err)
{
	int64_t result = 0, ignored;

	if (!ms_detour_call(detour, &calls[MAP_ALL].call, &result))
		return fail_call(a, detour, err);
	if (detour->in.dispatched)
		return ms_fit_dispatched(err);
	if ((uint64_t)result != a->patch.text) {
		/* An old kernel takes the address as advice. */
		if (result > 0) {
			const struct ms_call back = call_munmap((uint64_t)result, ms_gap_bytes());

			(void)ms_detour_call(detour, &back, &ignored);
		}
		return explain_mmap(a, result, err);
	}
	if (write_data(a, 0, MS_AGENT_BEGUN, sizeof(MS_AGENT_BEGUN) - 1)) {
		if (!ms_detour_call(detour, &calls[MAP_TEXT].call, &result))
			return fail_call(a, detour, err);
	} else {
		result = -errno;
	}
	if ((uint64_t)result == a->patch.text)
		return MS_OK;
	(void)ms_detour_call(detour, &calls[UNMAP].call, &ignored);
	return explain_mmap(a, result, err);
}

static enum ms_status map_by(const struct ms_attaching *a, struct ms_detour *detour,
                             struct ms_error *err)
{
	struct ms_named_call calls[3];
	enum ms_status st;

	list_calls(a, calls);
	st = ms_detour_begin(detour, calls, sizeof(calls) / sizeof(calls[0]), err);
	if (st)
		return st;
	st = map_all(a, detour, calls, err);
	if (!st && !write_text(a, detour->in.tid))
		st = ms_fail_sys(err, errno, "the kernel does not let memscan write to process %d",
		                 a->call->pid);
	ms_detour_end(detour);
	return st;
}

/* ---- giving back one that was begun ---- */

/* Whether another process has a thread stand, perhaps to map what we have found. */
static bool is_traced_by_others(const struct ms_attaching *a, pid_t ours)
{
	char *buf = ms_arena_alloc(a->arena, MS_PROC_LIST_BYTES);
	struct ms_proc_list list;
	bool traced = false;
	int32_t tid;

	if (!buf || ms_proc_list_open(&list, a->call->pid, "task", buf) < 0)
		return true;
	while (!traced && ms_proc_list_next(&list, &tid))
		traced = tid != ours && ms_proc_tracer(tid);
	ms_proc_list_close(&list);
	return traced;
}

static enum ms_status remove_by(const struct ms_attaching *a, struct ms_detour *detour,
                                struct ms_error *err)
{
	const struct ms_named_call call = { "munmap", call_munmap(a->begun, ms_gap_bytes()) };
	const pid_t tid = detour->freezer->tracees.at[0].tid;
	int64_t result = 0;
	enum ms_status st;

	if (is_traced_by_others(a, tid))
		return ms_fail(err, MS_E_BUSY, "another process traces process %d", a->call->pid);
	if (!ms_gap_is_begun(a->patch.mem_fd, a->begun))
		return MS_OK;
	st = ms_detour_begin(detour, &call, 1, err);
	if (st)
		return st;
	if (!ms_detour_call(detour, &call.call, &result))
		return fail_call(a, detour, err);
	a->answer->unmapped = !result;
	ms_detour_end(detour);
	return MS_OK;
}

/* ---- by one thread ---- */

static enum ms_status change_by(void *ctx, struct ms_detour *detour, struct ms_error *err)
{
	const struct ms_attaching *a = ctx;

	return a->begun ? remove_by(a, detour, err) : map_by(a, detour, err);
}

enum ms_status ms_attach_map(struct ms_attaching *a, struct ms_error *err)
{
	const struct ms_borrowing borrowing = { a->shared, change_by, a };

	return ms_borrow_thread(&borrowing, err);
}

/* ---- what is done while all stand ---- */

/* Whether the agent is there yet, and is the one that was found. */
static enum ms_status check_agent(const struct ms_attaching *a, struct ms_error *err)
{
	struct ms_agent_head head;

	if (pread(a->patch.mem_fd, &head, sizeof(head), (off_t)a->patch.text) == sizeof(head) &&
	    !memcmp(&head, &a->patch.head, sizeof(head)))
		return MS_OK;
	return ms_fail(err, MS_E_GONE,
	               "the agent of process %d is gone; did it end, or execute "
	               "another program?",
	               a->call->pid);
}

static enum ms_status check_nobody_inside(struct ms_attaching *a, const struct ms_freezer *freezer,
                                          struct ms_error *err)
{
	enum ms_words_verdict verdict = MS_WORDS_NONE;

	if (a->agent_was)
		verdict = ms_patch_inside(&a->patch, freezer->shared, &a->answer->inside);
	if (verdict == MS_WORDS_NONE)
		return MS_OK;
	a->answer->unknown = verdict == MS_WORDS_UNKNOWN;
	if (a->answer->unknown)
		return ms_patch_fail_stacks(&a->patch, err);
	(void)ms_fail(err, MS_E_BUSY,
	              "thread %d of process %d has not come back from the agent that was detached "
	              "before",
	              a->answer->inside, a->call->pid);
	ms_advise(err, "try again later");
	return err->status;
}

/* Fill the table, which no thread uses yet. */
static enum ms_status fill(struct ms_attaching *a, const struct ms_freezer *freezer,
                           struct ms_error *err)
{
	enum ms_status st = MS_OK;

	if (a->fresh) {
		st = check_nobody_inside(a, freezer, err);
		a->table->stackblock = ms_patch_stackblock(&a->patch, freezer->shared);
		ms_patch_zero_counts(&a->patch, freezer->shared);
	}
	if (!st && !open_table(a))
		st = ms_fail_sys(err, errno, "cannot write to the agent of process %d",
		                 a->call->pid);
	return st;
}

static enum ms_status divert(struct ms_attaching *a, const struct ms_freezer *freezer,
                             struct ms_error *err)
{
	enum ms_status st = ms_patch_check_stand(freezer, err);

	if (st)
		return st;
	ms_control_blocks_read(&a->patch.blocks, freezer->shared);
	st = ms_patch_check_blocks(&a->patch, freezer, a->agent_was, err);
	if (!st)
		st = check_agent(a, err);
	if (!st)
		st = ms_patch_check(&a->patch, err);
	if (!st)
		st = fill(a, freezer, err);
	return st ? st : ms_patch_divert(&a->patch, freezer, &a->answer->unknown, err);
}

enum ms_status ms_attach_look_ahead(struct ms_attaching *a, struct ms_error *err)
{
	return ms_patch_look_ahead(&a->patch, a->shared->max_threads, a->arena, err);
}

enum ms_status ms_attach_divert(struct ms_attaching *a, struct ms_error *err)
{
	struct ms_freezer freezer;
	enum ms_status st = ms_freezer_init(&freezer, a->shared, 0, err);

	if (!st)
		st = ms_freeze(&freezer, err);
	if (!st)
		st = divert(a, &freezer, err);
	ms_freezer_release(&freezer);
	ms_arena_deinit(&freezer.arena);
	return st;
}

/* Have a thread give the agent's memory back. What is in the way of that leaves it there. */
static void unmap(struct ms_attaching *a, struct ms_detour *detour)
{
	const struct ms_named_call call = { "munmap", call_munmap(a->patch.text, ms_gap_bytes()) };
	struct ms_error ignored;
	int64_t result;

	if (ms_detour_begin(detour, &call, 1, &ignored))
		return;
	a->answer->unmapped = ms_detour_call(detour, &call.call, &result) && !result;
	ms_detour_end(detour);
}

static enum ms_status take_out(struct ms_attaching *a, const struct ms_freezer *freezer,
                               struct ms_detour *detour, struct ms_error *err)
{
	enum ms_status st = ms_patch_check_stand(freezer, err);
	enum ms_words_verdict verdict;

	if (!st)
		st = check_agent(a, err);
	if (!st)
		st = ms_patch_check(&a->patch, err);
	if (st)
		return st;
	close_table(a);
	st = ms_patch_restore(&a->patch, freezer, err);
	if (st)
		return st;
	if (a->agent_was) {
		ms_control_blocks_read(&a->patch.blocks, freezer->shared);
		ms_patch_zero_counts(&a->patch, freezer->shared);
	}
	verdict = ms_patch_inside(&a->patch, freezer->shared, &a->answer->inside);
	a->answer->unknown = verdict == MS_WORDS_UNKNOWN;
	if (verdict == MS_WORDS_NONE)
		unmap(a, detour);
	return MS_OK;
}

enum ms_status ms_attach_take_out(struct ms_attaching *a, struct ms_error *err)
{
	struct ms_freezer freezer;
	struct ms_detour detour;
	enum ms_status st = ms_freezer_init(&freezer, a->shared, 0, err);

	if (!st)
		st = ms_detour_init(&detour, &freezer, err);
	if (!st)
		st = ms_freeze(&freezer, err);
	if (!st)
		st = take_out(a, &freezer, &detour, err);
	ms_freezer_release(&freezer);
	ms_arena_deinit(&freezer.arena);
	return st;
}
