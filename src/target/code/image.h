/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_IMAGE_H
#define MS_TARGET_IMAGE_H

/*
 * A program or library as it lies in the memory of a process: by /proc/PID/mem of one that runs,
 * or as a source shows it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/elf/object.h"
#include "engine/source.h"
#include "target/code/effort.h"

struct ms_image {
	pid_t tid;                /* a thread of the process, whose files may be read; or 0 */
	int mem_fd;               /* borrowed: /proc/PID/mem, where there is no src */
	struct ms_source *src;    /* borrowed; or NULL */
	struct ms_effort *effort; /* borrowed; or NULL */
	struct ms_object object;
};

/*
 * Read the ELF header whose first byte is mapped at @base.
 *
 * @tid:    a thread of the process, if its files may be read; or 0
 * @mem_fd: /proc/PID/mem, borrowed for as long as @ret is used
 * @effort: what may be read, borrowed as well; NULL: without a limit
 *
 * Returns false when there is none, or not one of a 64-bit machine.
 */
bool ms_image_open(pid_t tid, int mem_fd, ms_addr base, struct ms_effort *effort,
                   struct ms_image *ret);

/* The same of what @src shows. */
bool ms_image_open_in(struct ms_source *src, ms_addr base, struct ms_effort *effort,
                      struct ms_image *ret);

/* Find a function that the image exports. */
bool ms_image_find(struct ms_image *image, const char *name, ms_addr *ret);

/* The same with its length, which may be 0. */
bool ms_image_find_code(struct ms_image *image, const char *name, struct ms_range *ret);

/* Whether it exports malloc and a function of its own of an allocator that is known by it. */
bool ms_image_has_allocator(struct ms_image *image);

/* Whether its malloc, if it has one, may call another. */
bool ms_image_may_pass_on(struct ms_image *image);

/* Whether it is a program that is linked dynamically. */
bool ms_image_is_program(struct ms_image *image);

/* What the loader shows debuggers (struct r_debug), by the program's dynamic section; or 0. */
ms_addr ms_image_debug(struct ms_image *image);

/* Whether the image needs other libraries. */
bool ms_image_needs_others(struct ms_image *image);

/* A reader of the process, for as long as @image is there. */
struct ms_reader ms_image_reader(struct ms_image *image);

/* Read exactly @len bytes of the process. */
bool ms_image_read(const struct ms_image *image, ms_addr addr, void *buf, size_t len);

#endif
