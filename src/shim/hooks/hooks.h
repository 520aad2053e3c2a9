/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_HOOKS_HOOKS_H
#define MS_SHIM_HOOKS_HOOKS_H

/*
 * Malloc Hooks: functions of the program's own in the place of malloc. Nothing of the rest
 * of the shim is on with them; a variable without a hook leads to the next allocator.
 *
 * @caller: the code that called malloc
 */

#include <stddef.h>

/* Find what programs for older C libraries have in the place of our variables. */
void ms_hooks_init(void);

void *ms_hooks_malloc(size_t size, const void *caller);
/* Zeroed. */
void *ms_hooks_calloc(size_t size, const void *caller);
void *ms_hooks_realloc(void *p, size_t size, const void *caller);
/* @p may be NULL. */
void ms_hooks_free(void *p, const void *caller);
/* NULL with ENOMEM, whatever the hook did. @align is as the program gave it. */
void *ms_hooks_memalign(size_t align, size_t size, const void *caller);

#endif
