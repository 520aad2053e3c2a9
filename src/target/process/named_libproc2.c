/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libproc2 knows the list of processes; it allocates by malloc, so this runs in the original only,
 * long before anything is frozen.
 */
#include <libproc2/pids.h>
#include <stddef.h>

#include "target/process/named.h"

/* The order of the items asked of libproc2. */
enum { ITEM_PID, ITEM_COMM, ITEM_ARGV, ITEM_EXE, ITEMS };

enum ms_status ms_named_each(void (*see)(void *ctx, const struct ms_named_process *process),
                             void *ctx, struct ms_error *err)
{
	enum pids_item items[ITEMS] = {
		[ITEM_PID] = PIDS_ID_PID,
		[ITEM_COMM] = PIDS_CMD,
		[ITEM_ARGV] = PIDS_CMDLINE_V,
		[ITEM_EXE] = PIDS_EXE,
	};
	struct pids_info *info = NULL;
	const struct pids_stack *stack;
	int n = procps_pids_new(&info, items, ITEMS);

	if (n < 0)
		return ms_fail_sys(err, -n, "listing processes");
	while ((stack = procps_pids_get(info, PIDS_FETCH_TASKS_ONLY))) {
		char *const *argv = stack->head[ITEM_ARGV].result.strv;
		const char *comm = stack->head[ITEM_COMM].result.str;
		const struct ms_named_process process = { stack->head[ITEM_PID].result.s_int,
			                                  comm ? comm : "", argv ? argv[0] : NULL,
			                                  stack->head[ITEM_EXE].result.str };

		see(ctx, &process);
	}
	(void)procps_pids_unref(&info);
	return MS_OK;
}
