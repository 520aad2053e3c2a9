/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MALLOC_DEBUG_MALLOC_DEBUG_H
#define MALLOC_DEBUG_MALLOC_DEBUG_H

/*
 * What libmalloc_debug.so offers to the programs that it is preloaded to, as Android's C
 * library does. A program that shall run without it, too, looks these up by dlsym().
 *
 *	LD_PRELOAD=libmalloc_debug.so LIBC_DEBUG_MALLOC_OPTIONS="guard backtrace" program
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * List the live blocks that were allocated while backtraces were captured.
 *
 * @info:           records of @info_size bytes: size_t size; size_t count; then
 *                  @backtrace_size addresses, filled up with zeros. To be given to
 *                  free_malloc_leak_info(). NULL when there is nothing to list.
 * @overall_size:   bytes of all records
 * @total_memory:   bytes of all blocks
 * @backtrace_size: the frames that the option backtrace asks for
 *
 * Blocks of the same size and stack are one record; those of which no stack could be had,
 * or which are filtered out, have one of zeros. Larger ones come first. Without the option,
 * or with a parameter that is NULL, that is logged and nothing listed.
 */
void get_malloc_leak_info(uint8_t **info, size_t *overall_size, size_t *info_size,
                          size_t *total_memory, size_t *backtrace_size);
void free_malloc_leak_info(uint8_t *info);

/*
 * Write the heap dump, v1.2, to @stream's descriptor, behind what is buffered. False
 * without a backtrace option, or when writing fails.
 */
bool write_malloc_leak_info(FILE *stream);

/* The same to the file @path, which is replaced. */
bool debug_dump_heap(const char *path);

/* As Android names it: what get_malloc_leak_info() gives. */
typedef struct {
	uint8_t *buffer;
	size_t overall_size;
	size_t info_size;
	size_t total_memory;
	size_t backtrace_size;
} android_mallopt_leak_info_t;

enum {
	M_WRITE_MALLOC_LEAK_INFO_TO_FILE = 5,
	M_GET_MALLOC_LEAK_INFO = 6,
	M_FREE_MALLOC_LEAK_INFO = 7,
};

/*
 * What the functions above do, for programs that are written for Android.
 *
 * @arg: for 5 a FILE *, and @arg_size is the size of that pointer; for 6 and 7 a pointer to an
 *       android_mallopt_leak_info_t, and @arg_size is its size
 *
 * False with EINVAL when they are anything else; with ENOTSUP for other opcodes, without
 * Malloc Debug, and when nothing can be written: then the FILE gets a text that says so.
 */
bool android_mallopt(int opcode, void *arg, size_t arg_size);

/*
 * The stack of the allocation of @pointer: its @frame_count innermost frames at most. Their
 * number, 0 when the block is not known or has no stack.
 */
size_t malloc_backtrace(const void *pointer, uintptr_t *frames, size_t frame_count);

/*
 * Call @callback for each live block, with its usable size. @base and @size are ignored.
 *
 * Returns 0; -1 with ENOTSUP when no option has the blocks tracked.
 */
int malloc_iterate(uintptr_t base, size_t size,
                   void (*callback)(uintptr_t base, size_t size, void *arg), void *arg);

/*
 * Make all threads wait that allocate or free, until malloc_enable(). A thread that does
 * so between its own two calls waits for ever, and so does one that calls fork() there, or
 * malloc_disable() again; as on Android (libmemunreachable, tests/DisableMalloc_test.cpp).
 * Without options for Malloc Debug both do nothing.
 */
void malloc_disable(void);
void malloc_enable(void);

/*
 * Malloc Hooks: with LIBC_HOOKS_ENABLE=1, and no option of Malloc Debug, functions of the
 * program's own are called in the place of malloc (calloc, too), realloc, free and memalign
 * (and all others that align); @caller is where that was called. A hook has what the variable
 * held before to allocate with; one that calls malloc itself is called again by that.
 * Without a hook, or with NULL, the C library's are called.
 *
 * C libraries before 2.34 declare them in malloc.h, and call them themselves.
 */
#if __GLIBC__ > 2 || __GLIBC_MINOR__ >= 34
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
extern void *(*volatile __malloc_hook)(size_t size, const void *caller);
extern void *(*volatile __realloc_hook)(void *pointer, size_t size, const void *caller);
extern void (*volatile __free_hook)(void *pointer, const void *caller);
extern void *(*volatile __memalign_hook)(size_t alignment, size_t size, const void *caller);
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */
#else
#include <malloc.h>
#endif

#ifdef __cplusplus
}
#endif

#endif
