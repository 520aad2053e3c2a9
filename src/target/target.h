/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_TARGET_H
#define MS_TARGET_TARGET_H

/*
 * The room's outside: what can be asked about a process before it is frozen, and
 * how its memory is held. Freezing itself: collection.h.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "engine/report.h"
#include "engine/source.h"
#include "target/collection.h"

/*
 * Refuse where /proc is not what the kernel's calls go by: not mounted, or that of another
 * pid namespace than ours, in which a number is another process.
 */
ms_must_check enum ms_status ms_target_check_proc(struct ms_error *err);

/*
 * Look at @id without touching it and refuse what cannot be scanned, with advice:
 * no such process, a kernel thread, ourselves, a zombie (a zombie leader with
 * living threads is fine), traced already (the tracer's pid and name), another
 * user's process, a program for a machine that this memscan does not know.
 *
 * @ret_pid: the process that thread or process @id belongs to.
 */
ms_must_check enum ms_status ms_target_check(pid_t id, pid_t *ret_pid, struct ms_error *err);

/* The part of it that asks for the machine: MS_E_UNSUPPORTED for a program of another. */
ms_must_check enum ms_status ms_target_check_machine(pid_t pid, struct ms_error *err);

/* That of the program that the process or thread @id runs; this machine's when it is not known. */
const struct ms_arch *ms_target_arch(pid_t id);

/*
 * Refuse a program that is not of this machine itself, though its kernel runs it.
 *
 * @what: what cannot be done with it, a sentence for the message
 */
ms_must_check enum ms_status ms_target_check_native(pid_t pid, const char *what,
                                                    struct ms_error *err);

/* Explain a refused ptrace of @pid (EPERM): Yama's ptrace_scope, the capability, the uid, a tracer.
 */
enum ms_status ms_target_explain_denied(pid_t pid, struct ms_error *err);

/* MS_E_DENIED, as process @tracer traces @pid. */
enum ms_status ms_target_refuse_traced(pid_t pid, pid_t tracer, struct ms_error *err);

/* Whether a cgroup holds the threads of @pid still (a container that is paused). */
bool ms_target_is_frozen(pid_t pid);
void ms_target_advise_frozen(pid_t pid, struct ms_error *err);

/* Open /proc/@tid/mem for reading. Returns MS_E_GONE, MS_E_DENIED with advice, MS_E_SYS. */
ms_must_check enum ms_status ms_target_open_mem(pid_t tid, int *ret, struct ms_error *err);

/* The one process of that name (comm, or the basename of argv[0] or exe), through libproc2. */
ms_must_check enum ms_status ms_target_find_by_name(const char *name, pid_t *ret_pid,
                                                    struct ms_error *err);

/* What is said of the process that is to be looked at. */
struct ms_choice {
	const char *name; /* NULL: it is chosen by the id */
	pid_t id;         /* of any of its threads */
	const char *ns;   /* where it has that id: a process in that pid namespace, or its file;
	                     NULL: in ours */
};

struct ms_chosen {
	pid_t pid;
	pid_t ns_pid; /* the process in the namespace that was given; 0: none was */
};

/*
 * Find what has the number @id in a pid namespace: that of a process, when @ns is a number, or
 * of a file (/proc/PID/ns/pid, or where that is mounted).
 *
 * @ret: the pid is that of a thread
 *
 * Returns MS_E_GONE, MS_E_DENIED, MS_E_UNSUPPORTED when it is none, MS_E_SYS; with advice.
 */
ms_must_check enum ms_status ms_target_find_in_namespace(const char *ns, pid_t id,
                                                         struct ms_chosen *ret,
                                                         struct ms_error *err);

/* Find that process, and look whether it can be scanned, as ms_target_check() does. */
ms_must_check enum ms_status ms_target_choose(const struct ms_choice *choice, struct ms_chosen *ret,
                                              struct ms_error *err);

/* What /proc says of @pid and of this host; fields that cannot be read stay empty. */
void ms_target_facts(pid_t pid, struct ms_target_facts *target, struct ms_host_facts *host);

/*
 * Find the instructions of malloc in the running @pid, so that threads can be
 * led out of it, and write them to shared->malloc_code and libc_code; and the code by
 * which one of them can be made to clone the process, to shared->gadgets. A process
 * without any is not an error: nothing is written.
 *
 * @arena: for all that is read, the code of a whole program perhaps; not needed any more then
 */
void ms_malloc_code_find(pid_t pid, struct ms_collection *shared, struct ms_arena *arena);

/* The same of malloc in what @src shows, which no process has to be there for. */
void ms_malloc_code_find_in(struct ms_source *src, struct ms_collection *shared,
                            struct ms_arena *arena);

/*
 * Hold the frozen target by copying its memory. Everything the source owns is in
 * @arena or ended by close(). Call between ms_collection_freeze() and _release().
 *
 * @warnings: what could not be read
 */
ms_must_check enum ms_status ms_copy_open(const struct ms_collection *frozen,
                                          struct ms_arena *arena, struct ms_notes *warnings,
                                          struct ms_source **ret, struct ms_error *err);

/*
 * The same in two steps, for a pause several times shorter: a page fault on fresh
 * memory costs more than copying the page. Prepare while @pid runs, then fill
 * between ms_collection_freeze() and _release(). What changed meanwhile costs
 * as much as without preparation, and nothing else.
 *
 * @ret: no source yet; give it to ms_copy_fill(), or to close(). A fill that
 *       fails has closed it.
 *
 * Returns MS_E_UNSUPPORTED when there is more to copy than @most_bytes.
 */
ms_must_check enum ms_status ms_copy_prepare(pid_t pid, uint64_t most_bytes, struct ms_arena *arena,
                                             struct ms_source **ret, struct ms_error *err);
ms_must_check enum ms_status ms_copy_fill(struct ms_source *prepared,
                                          const struct ms_collection *frozen,
                                          struct ms_notes *warnings, struct ms_error *err);

/* Bytes of the target that the copy read, and those it holds of memory that no file has. */
uint64_t ms_copy_bytes(const struct ms_source *copy);
uint64_t ms_copy_private_bytes(const struct ms_source *copy);

/*
 * Hold the target by a clone of it, in three steps: prepare while it runs; hold while it
 * is frozen and cloned (ms_collection_clone()); open when it runs again. The clone must
 * live until close(). A step that fails has closed the source.
 *
 * @ret:      no source until it is opened
 * @warnings: what is not as it was at the clone's moment
 */
ms_must_check enum ms_status ms_fork_prepare(pid_t pid, struct ms_arena *arena,
                                             struct ms_source **ret, struct ms_error *err);
ms_must_check enum ms_status ms_fork_hold(struct ms_source *prepared,
                                          const struct ms_collection *frozen,
                                          struct ms_notes *warnings, struct ms_error *err);
ms_must_check enum ms_status ms_fork_open(struct ms_source *held,
                                          const struct ms_collection *released,
                                          struct ms_notes *warnings, struct ms_error *err);

/*
 * The clone, as which the rest is called, is the process that reads: the source looks at
 * memory in place. Call before ms_fork_hold().
 *
 * @own: what in this address space is not the target's, sorted; what the source
 *       allocates, and all else in its arena, need not be in it. Borrowed.
 */
void ms_fork_set_self(struct ms_source *prepared, const struct ms_ranges *own);

/*
 * Read a target that stands, and stands until close(), where it is: no copy and no clone,
 * so that it takes next to no memory. Its bytes are counted and its wholeness is asked
 * for as of a clone.
 */
ms_must_check enum ms_status ms_standing_open(const struct ms_collection *standing,
                                              struct ms_arena *arena, struct ms_notes *warnings,
                                              struct ms_source **ret, struct ms_error *err);

/* Bytes that were read so far, and those it holds of memory that no file has. */
uint64_t ms_fork_bytes(const struct ms_source *fork);
uint64_t ms_fork_private_bytes(const struct ms_source *fork);

/* Bytes that the memory cgroups of a process leave it; UINT64_MAX when there is no limit. */
uint64_t ms_fork_room(pid_t pid);

/*
 * Refuse what is known beforehand to make a clone impossible or unwise: an init of its
 * pid namespace, a frozen process, private huge pages, a cgroup without room for all that it may
 * write to. Returns MS_E_UNSUPPORTED with the reason.
 *
 * @ret_least: when so many bytes of ms_fork_room() are left the clone is to end; 0: never
 */
ms_must_check enum ms_status ms_fork_check(pid_t pid, uint64_t *ret_least, struct ms_error *err);

/* The same for private memory of hugetlbfs alone, which no fork of the process may share. */
ms_must_check enum ms_status ms_fork_check_huge_pages(pid_t pid, struct ms_error *err);

/* Bytes that a copy would have to move in the pause and a clone has not. */
uint64_t ms_fork_saves(pid_t pid);

/* The descriptor that a copy, or a clone, is still read through; -1: none. */
int ms_copy_descriptor(const struct ms_source *copy);
int ms_fork_descriptor(const struct ms_source *fork);

#endif
