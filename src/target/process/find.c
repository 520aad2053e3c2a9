/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process by its name. libproc2 knows the list of processes; it allocates by
 * malloc, so this runs in the original only, long before anything is frozen.
 */
#include <libproc2/pids.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "target/target.h"

enum { COMM_BYTES = 15 }; /* the kernel cuts comm to this, TASK_COMM_LEN - 1 */

/* The order of the items asked of libproc2. */
enum { ITEM_PID, ITEM_COMM, ITEM_ARGV, ITEM_EXE, ITEMS };

struct matches {
	pid_t first;
	unsigned n;
	size_t text_len;
	char text[MS_ERROR_TEXT / 2]; /* " 12 34 …": ids, as many as fit */
};

static bool matches_name(const struct pids_stack *stack, const char *name)
{
	const char *comm = stack->head[ITEM_COMM].result.str;
	char *const *argv = stack->head[ITEM_ARGV].result.strv;
	const char *exe = stack->head[ITEM_EXE].result.str;

	if (comm && !strcmp(comm, name))
		return true;
	if (comm && strlen(comm) == COMM_BYTES && !strncmp(comm, name, COMM_BYTES) &&
	    strlen(name) > COMM_BYTES && !argv)
		return true;
	if (argv && argv[0] && !strcmp(ms_file_name(argv[0]), name))
		return true;
	return exe && !strcmp(ms_file_name(exe), name);
}

static void add_match(struct matches *matches, pid_t pid)
{
	size_t room = sizeof(matches->text) - matches->text_len;
	int n = snprintf(matches->text + matches->text_len, room, " %d", pid);

	if (n > 0 && (size_t)n < room)
		matches->text_len += (size_t)n;
	else
		matches->text[matches->text_len] = '\0';
	if (!matches->n++)
		matches->first = pid;
}

/* Processes that ended but are not reaped yet have no memory and do not count. */
static void collect(struct pids_info *info, const char *name, struct matches *matches)
{
	struct pids_stack *stack;

	while ((stack = procps_pids_get(info, PIDS_FETCH_TASKS_ONLY))) {
		pid_t pid = stack->head[ITEM_PID].result.s_int;

		if (pid != getpid() && matches_name(stack, name))
			add_match(matches, pid);
	}
}

static enum ms_status judge(const char *name, const struct matches *matches, pid_t *ret_pid,
                            struct ms_error *err)
{
	enum ms_status st;

	if (matches->n == 1) {
		*ret_pid = matches->first;
		return MS_OK;
	}
	if (!matches->n) {
		st = ms_fail(err, MS_E_GONE, "no process is named \"%.64s\"", name);
		ms_advise(err, "give the name as in ps -e, without a path, or a number by --pid");
		return st;
	}
	st = ms_fail(err, MS_E_BUSY, "%u processes are named \"%.64s\":%s", matches->n, name,
	             matches->text);
	ms_advise(err, "choose one of them by --pid");
	return st;
}

enum ms_status ms_target_find_by_name(const char *name, pid_t *ret_pid, struct ms_error *err)
{
	enum pids_item items[ITEMS] = {
		[ITEM_PID] = PIDS_ID_PID,
		[ITEM_COMM] = PIDS_CMD,
		[ITEM_ARGV] = PIDS_CMDLINE_V,
		[ITEM_EXE] = PIDS_EXE,
	};
	struct matches matches = { 0 };
	struct pids_info *info = NULL;
	int n = procps_pids_new(&info, items, ITEMS);

	if (n < 0)
		return ms_fail_sys(err, -n, "listing processes");
	collect(info, name, &matches);
	(void)procps_pids_unref(&info);
	return judge(name, &matches, ret_pid, err);
}

enum ms_status ms_target_choose(const struct ms_choice *choice, struct ms_chosen *ret,
                                struct ms_error *err)
{
	struct ms_chosen chosen = { .pid = choice->id };
	enum ms_status st = MS_OK;

	if (choice->name)
		st = ms_target_find_by_name(choice->name, &chosen.pid, err);
	else if (choice->ns)
		st = ms_target_find_in_namespace(choice->ns, choice->id, &chosen, err);
	if (!st)
		st = ms_target_check(chosen.pid, &chosen.pid, err);
	if (!st)
		*ret = chosen;
	return st;
}
