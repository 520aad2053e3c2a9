/* SPDX-License-Identifier: Apache-2.0 */
/* A process by its name. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "target/process/named.h"
#include "target/target.h"

enum { COMM_BYTES = 15 }; /* the kernel cuts comm to this, TASK_COMM_LEN - 1 */

struct matches {
	const char *name;
	pid_t first;
	unsigned n;
	size_t text_len;
	char text[MS_ERROR_TEXT / 2]; /* " 12 34 …": ids, as many as fit */
};

static bool has_name(const struct ms_named_process *process, const char *name)
{
	const char *comm = process->comm;

	if (!strcmp(comm, name))
		return true;
	if (strlen(comm) == COMM_BYTES && !strncmp(comm, name, COMM_BYTES) &&
	    strlen(name) > COMM_BYTES && !process->first)
		return true;
	if (process->first && !strcmp(ms_file_name(process->first), name))
		return true;
	return process->exe && !strcmp(ms_file_name(process->exe), name);
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

static void see(void *ctx, const struct ms_named_process *process)
{
	struct matches *matches = ctx;

	if (process->pid != getpid() && has_name(process, matches->name))
		add_match(matches, process->pid);
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
	struct matches matches = { .name = name };
	enum ms_status st = ms_named_each(see, &matches, err);

	return st ? st : judge(name, &matches, ret_pid, err);
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
