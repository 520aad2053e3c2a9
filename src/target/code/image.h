/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_IMAGE_H
#define MS_TARGET_IMAGE_H

/*
 * A program or library as it lies in the memory of a process.
 *
 * Read from the process, not from its file, which may be deleted, replaced or in
 * another mount namespace. All of it is the target's to forge: every count is
 * bounded, and what does not fit together is simply not found.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/range.h"
#include "engine/source.h"

struct ms_image {
	int mem_fd;            /* borrowed: /proc/PID/mem */
	struct ms_range range; /* all of its segments */
	ms_addr bias;          /* added to addresses in the file */
	ms_addr dynamic;       /* PT_DYNAMIC; 0 when there is none */
	ms_addr frame_header;  /* PT_GNU_EH_FRAME; 0 when there is none */
	bool has_interpreter;  /* PT_INTERP: linked dynamically */
};

/*
 * Read the ELF header whose first byte is mapped at @base.
 *
 * @mem_fd: /proc/PID/mem, borrowed for as long as @ret is used
 *
 * Returns false when there is none, or not one of a 64-bit machine.
 */
bool ms_image_open(int mem_fd, ms_addr base, struct ms_image *ret);

/* Find a function that the image exports. */
bool ms_image_find(const struct ms_image *image, const char *name, ms_addr *ret);

/* Read exactly @len bytes of the process. */
bool ms_image_read(const struct ms_image *image, ms_addr addr, void *buf, size_t len);

#endif
