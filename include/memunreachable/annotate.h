/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMUNREACHABLE_ANNOTATE_H
#define MEMUNREACHABLE_ANNOTATE_H

/*
 * What a program knows better than a search of its memory: blocks that are left on
 * purpose, and memory that holds references where none would be looked for.
 *
 * All of it holds for searches from inside (memunreachable.h) and from outside
 * (memscan --pid) alike. Any thread may call, also inside constructors and signal handlers
 * that did not interrupt malloc.
 *
 * LeakSanitizer's names, declared by <sanitizer/lsan_interface.h>, do the same:
 * __lsan_ignore_object, __lsan_disable, __lsan_enable, __lsan_register_root_region,
 * __lsan_unregister_root_region, __lsan_do_leak_check, __lsan_do_recoverable_leak_check;
 * a program's own __lsan_default_suppressions() and __lsan_is_turned_off() are asked. Of
 * LSAN_OPTIONS and __lsan_default_options(), exitcode, detect_leaks, leak_check_at_exit,
 * suppressions and use_unaligned count.
 */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Never report the block that @p points to, nor what it leads to, until it is freed. */
void memunreachable_ignore(const void *p);

/*
 * Ignore every block that this thread allocates between the two. They nest. Works with a
 * malloc that this library can stand in front of: not in a statically linked program,
 * where the first call says so on standard error.
 */
void memunreachable_disable(void);
void memunreachable_enable(void);

/*
 * Take @size bytes at @p for references, although they are in no mapping that would be
 * searched otherwise, or stop doing so. What is unregistered must have been registered
 * with the same @p and @size.
 */
void memunreachable_register_root(const void *p, size_t size);
void memunreachable_unregister_root(const void *p, size_t size);

#ifdef __cplusplus
}
#endif

#endif
