/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/borrow.h"

#include "target/proc.h"

enum { MOST_LOOKS = 256 /* threads that are looked at for a fit one */ };

static enum ms_status borrow(const struct ms_borrowing *b, struct ms_detour *detour,
                             struct ms_error *err)
{
	pid_t pid = b->shared->pid;

	if (!detour->freezer->tracees.at[0].group_stop)
		return b->body(b->ctx, detour, err);
	(void)ms_fail(err, MS_E_DENIED, "process %d is stopped by a signal", pid);
	ms_advise(err, "let it go on (kill -CONT %d) and try again", pid);
	return err->status;
}

/* Try one thread. @ret_again: another may do. */
static enum ms_status try_thread(const struct ms_borrowing *b, pid_t tid, enum ms_standing worst,
                                 bool *ret_again, struct ms_error *err)
{
	struct ms_freezer freezer;
	struct ms_detour detour;
	enum ms_status st = ms_freezer_init(&freezer, b->shared, tid, err);

	ms_collection_clear(b->shared);
	*ret_again = false;
	if (!st)
		st = ms_detour_init(&detour, &freezer, err);
	detour.worst = worst;
	if (!st)
		st = ms_freeze_thread(&freezer, tid, err);
	detour.until_ns = freezer.deadline_ns; /* the others run meanwhile */
	/* One that has not stopped would stop later: only our end lets it go. */
	*ret_again = st == MS_E_GONE;
	if (!st) {
		st = borrow(b, &detour, err);
		*ret_again = st == MS_E_UNSUPPORTED || (st == MS_E_BUSY && !detour.in.tid);
	}
	ms_freezer_release(&freezer);
	ms_arena_deinit(&freezer.arena);
	return st;
}

/* Which threads are tried, one after the other. */
struct turn {
	bool asleep; /* these, or the others */
	enum ms_standing worst;
};

/* Returns whether others may do. @st: what came of the last one that was tried. */
static bool try_threads(const struct ms_borrowing *b, const struct turn *turn, char *buf,
                        enum ms_status *st, struct ms_error *err)
{
	struct ms_proc_list list;
	bool again = true;
	int32_t tid;

	if (ms_proc_list_open(&list, b->shared->pid, "task", buf) < 0)
		return false;
	for (int i = 0; again && i < MOST_LOOKS && ms_proc_list_next(&list, &tid); i++) {
		char state = ms_proc_state(tid);

		if (state != 'D' && state != 'Z' && turn->asleep == (state == 'S'))
			*st = try_thread(b, tid, turn->worst, &again, err);
	}
	ms_proc_list_close(&list);
	return again;
}

/* Those asleep stop at once, and are in the middle of nothing. */
enum ms_status ms_borrow_thread(const struct ms_borrowing *borrowing, struct ms_error *err)
{
	static const struct turn turns[] = { { true, MS_STANDS_ASLEEP },
		                             { false, MS_STANDS_AT_WORK },
		                             { true, MS_STANDS_RESTARTED },
		                             { false, MS_STANDS_RESTARTED } };
	pid_t pid = borrowing->shared->pid;
	enum ms_status st =
		ms_fail(err, MS_E_BUSY, "no thread of process %d can be stopped now", pid);
	struct ms_arena arena = { 0 };
	char *buf = ms_arena_alloc(&arena, MS_PROC_LIST_BYTES);

	if (!buf)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of threads");
	for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++)
		if (!try_threads(borrowing, &turns[i], buf, &st, err))
			break;
	ms_arena_deinit(&arena);
	if (st && ms_proc_is_over(pid))
		return ms_fail(err, MS_E_GONE, "process %d ended", pid);
	return st;
}
