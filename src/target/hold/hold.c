/* SPDX-License-Identifier: Apache-2.0 */
#include "target/hold/hold.h"

#include <errno.h>
#include <fcntl.h>

#include "target/proc.h"
#include "target/target.h"

enum ms_status ms_hold_threads(const struct ms_collection *frozen, struct ms_arena *arena,
                               struct ms_threads *ret, struct ms_error *err)
{
	if (!ms_vec_reserve(arena, ret, frozen->n_threads))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of threads");
	for (uint32_t i = 0; i < frozen->n_threads; i++) {
		const struct ms_frozen_thread *from = &frozen->threads[i];

		ret->at[ret->n++] = (struct ms_thread){
			.tid = from->tid,
			.stopped = from->stopped,
			.pc = from->pc,
			.sp = from->sp,
			.tp = from->tp,
			.words = from->words,
			.n_words = from->n_words,
		};
	}
	return MS_OK;
}

enum ms_status ms_hold_open_mem(pid_t tid, int *ret, struct ms_error *err)
{
	int fd = ms_proc_open(tid, "mem", O_RDONLY);

	if (fd == -ENOENT || fd == -ESRCH)
		return ms_fail(err, MS_E_GONE, "process %d ended", tid);
	if (fd == -EACCES || fd == -EPERM)
		return ms_target_explain_denied(tid, err);
	if (fd < 0)
		return ms_fail_sys(err, -fd, "opening the memory of process %d", tid);
	*ret = fd;
	return MS_OK;
}
