/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_KERNEL_ROOTS_H
#define MS_TARGET_KERNEL_ROOTS_H

#include "base/arena.h"
#include "engine/report.h"
#include "engine/source.h"
#include "target/collection.h"
#include "target/descriptors.h"

/*
 * Pointers of the frozen target that only the kernel holds: the user data of
 * epoll registrations and of io_uring's requests, the values of POSIX timers and of queued
 * signals, and where threads' signal stacks begin. A program that gives a pointer to epoll_ctl()
 * need not keep it anywhere else.
 *
 * What cannot be read is left out: there is no failure.
 *
 * @ret: its kernel_words, n_requests and unknown_stack_bytes
 *
 * @before: the descriptors before it was frozen; NULL: there is time to look at all now
 *
 * @warnings: signal stacks that are not known, and descriptors that were not looked at
 */
void ms_kernel_roots_find(const struct ms_collection *frozen, const struct ms_descriptors *before,
                          struct ms_arena *arena, struct ms_source *ret, struct ms_notes *warnings);

/* The words in the text of /proc/PID/fdinfo/FD of an epoll descriptor, and of /proc/PID/timers. */
void ms_kernel_roots_parse_epoll(const char *text, struct ms_arena *arena, struct ms_words *words);
void ms_kernel_roots_parse_timers(const char *text, struct ms_arena *arena, struct ms_words *words);

/*
 * The words in the text of /proc/PID/fdinfo/FD of an io_uring, which are those of requests that
 * it has not begun and of answers that were not read. Returns how many are in flight, whose
 * words it does not show; UINT32_MAX: not known.
 *
 * Its counters are of 32 bits: requests begun, and answers. A request that answers more than
 * once, or not at all, makes the difference less, or more; as a rule it waits to be polled, and
 * those are in a list.
 */
uint32_t ms_kernel_roots_parse_ring(const char *text, struct ms_arena *arena,
                                    struct ms_words *words);

/* Make of each word two of 32 bits. */
void ms_kernel_roots_halve(struct ms_arena *arena, struct ms_words *words);

#endif
