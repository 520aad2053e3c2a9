/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_PROC_H
#define MS_TARGET_PROC_H

/*
 * Reading /proc without malloc.
 *
 * @id is a process or any of its threads: /proc/TID answers for every thread,
 * though it is not listed, and goes on doing so when the leader is a zombie.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MS_PROC_STATUS_BYTES = 4096, MS_PROC_LIST_BYTES = 64 * 1024 };

/* Open /proc/@id/@name. Returns the descriptor, or minus errno. */
int ms_proc_open(pid_t id, const char *name, int flags);

/*
 * Read /proc/@id/@name as a string, cut to @size - 1 bytes.
 *
 * Returns its length, or minus errno; @buf is "" then.
 */
ssize_t ms_proc_read(pid_t id, const char *name, char *buf, size_t size);

/* What /proc calls the process or thread @id; "" when it is gone. */
void ms_proc_name(pid_t id, char *buf, size_t size);

/* The same as ms_proc_read() of any file. */
ssize_t ms_proc_read_path(const char *path, char *buf, size_t size);

/* Resolve the link /proc/@id/@name as a string, cut to @size - 1 bytes; "" when it cannot be. */
void ms_proc_link(pid_t id, const char *name, char *buf, size_t size);

/* For oom_score_adj: a process with it ends first when memory runs out. */
#define MS_SCORE_FIRST "1000"

/* Write @text to /proc/@id/@name, as far as that is allowed. */
void ms_proc_write(pid_t id, const char *name, const char *text);

/*
 * Where the program of a process has its code, its first stack and the begin of its heap of brk():
 * other numbers when it has executed another program since. Zeros where the kernel does not say,
 * and of a thread that has ended.
 */
struct ms_proc_program {
	uint64_t code;
	uint64_t stack;
	uint64_t brk;
};

/* What /proc/ID/stat says. */
struct ms_proc_stat {
	char state;           /* 'R', 'S', 'D', 'T', 't', 'Z', 'X' … */
	uint32_t flags;       /* PF_* of the kernel */
	uint64_t cpu_ticks;   /* clock ticks that its threads have run */
	uint64_t start_ticks; /* clock ticks since boot */
	struct ms_proc_program program;
};

/* False when there is no such process. */
bool ms_proc_stat(pid_t id, struct ms_proc_stat *ret);

/* The state of thread @tid as in ms_proc_stat, 'X' when it is gone. */
char ms_proc_state(pid_t tid);

/* The process that traces thread @tid; 0 when there is none, or no such thread. */
pid_t ms_proc_tracer(pid_t tid);

/* Number after "\n@key:" in the text of a status file, in @base; 0 when there is none. */
uint64_t ms_proc_field(const char *status, const char *key, int base);

/*
 * Whether the process of thread @tid handles any signal, the C library's own two (of cancellation
 * and of set*id(), 32 and 33) aside. True when it cannot be asked.
 */
bool ms_proc_has_handlers(pid_t tid);

/* How deep pid namespaces can lie in one another; include/linux/pid_namespace.h. */
enum { MS_PROC_NAMESPACES = 33 };

/*
 * The ids in the line @key (NSpid, NStgid) of a status file's text: first the one that /proc
 * lists, then that of each pid namespace farther in, the thread's own last.
 *
 * Returns how many; 0 where the kernel does not say.
 */
size_t ms_proc_ns_ids(const char *status, const char *key, pid_t ret[MS_PROC_NAMESPACES]);

/* What /proc/@id/status says in that line. */
size_t ms_proc_ns_ids_of(pid_t id, const char *key, pid_t ret[MS_PROC_NAMESPACES]);

/* The entries of a /proc folder whose names are numbers: task, fd. */
struct ms_proc_list {
	int fd;
	size_t pos;
	size_t len;
	char *buf; /* MS_PROC_LIST_BYTES, the caller's */
};

/* Start listing /proc/@id/@name; with an id of 0, the processes. Returns 0, or minus errno. */
int ms_proc_list_open(struct ms_proc_list *list, pid_t id, const char *name, char *buf);

/* Start again from the first entry. */
void ms_proc_list_rewind(struct ms_proc_list *list);

/* False at the end of the list, and when the process ended. */
bool ms_proc_list_next(struct ms_proc_list *list, int32_t *ret);
void ms_proc_list_close(struct ms_proc_list *list);

/* A thread of @pid that is no zombie, or 0: the leader whenever it lives. */
pid_t ms_proc_living_thread(pid_t pid);

/* True when @pid has ended, or has given its memory back already on the way. */
bool ms_proc_is_over(pid_t pid);

/* A living thread of @pid, or @pid itself, to be named where nothing is found there. */
pid_t ms_proc_thread_of(pid_t pid);

#endif
