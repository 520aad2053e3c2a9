/* SPDX-License-Identifier: Apache-2.0 */
#include "target/run/tasks.h"

#include <assert.h>
#include <stdlib.h>

static struct ms_task **bucket(struct ms_run *run, pid_t tid)
{
	return &run->buckets[(unsigned)tid % MS_TASK_BUCKETS];
}

struct ms_task *ms_task_find(const struct ms_run *run, pid_t tid)
{
	struct ms_task *task = run->buckets[(unsigned)tid % MS_TASK_BUCKETS];

	while (task && task->tid != tid)
		task = task->chain;
	return task;
}

struct ms_process *ms_process_find(const struct ms_run *run, pid_t pid)
{
	struct ms_process *process = run->processes;

	while (process && process->pid != pid)
		process = process->next;
	return process;
}

struct ms_task *ms_task_add(struct ms_run *run, struct ms_process *process, pid_t tid)
{
	struct ms_task **head = bucket(run, tid);
	struct ms_task *task = calloc(1, sizeof(*task));

	if (!task)
		return NULL;
	task->tid = tid;
	task->process = process;
	task->next = process->tasks;
	process->tasks = task;
	task->chain = *head;
	*head = task;
	return task;
}

struct ms_process *ms_process_add(struct ms_run *run, pid_t pid)
{
	struct ms_process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process->pid = pid;
	process->next = run->processes;
	run->processes = process;
	return process;
}

void ms_task_drop(struct ms_run *run, struct ms_task *task)
{
	struct ms_task **at = bucket(run, task->tid);

	while (*at != task)
		at = &(*at)->chain;
	*at = task->chain;
	at = &task->process->tasks;
	while (*at != task)
		at = &(*at)->next;
	*at = task->next;
	if (task->process->doomed == task)
		task->process->doomed = NULL;
	free(task);
}

void ms_process_drop(struct ms_run *run, struct ms_process *process)
{
	struct ms_process **at = &run->processes;

	if (process->tasks || process->sweeper)
		return;
	assert(!process->frozen);
	while (*at != process)
		at = &(*at)->next;
	*at = process->next;
	free(process);
}
