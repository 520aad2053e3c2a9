/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are others of malloc's family under another name. An object of their own:
 * a static program that brings a malloc may want one of these, and must not get front.c
 * with it.
 */
#include <errno.h>
#include <stdlib.h>

#include "inproc/export.h"

#define INTERPOSE MS_EXPORT __attribute__((weak))

INTERPOSE void *reallocarray(void *ptr, size_t nmemb, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nmemb, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(ptr, bytes);
}

/* No header of this C library declares the rest: of old programs, and of C23's. */
void cfree(void *ptr);
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

INTERPOSE void cfree(void *ptr)
{
	free(ptr);
}

INTERPOSE void free_sized(void *ptr, size_t size)
{
	(void)size;
	free(ptr);
}

INTERPOSE void free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(ptr);
}
