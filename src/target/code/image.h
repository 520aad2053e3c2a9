/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_IMAGE_H
#define MS_TARGET_IMAGE_H

/*
 * A program or library as it lies in the memory of a process: by /proc/PID/mem of one that runs,
 * or as a source shows it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/elf/object.h"
#include "engine/source.h"

struct ms_image {
	int mem_fd;            /* borrowed: /proc/PID/mem, where there is no src */
	struct ms_source *src; /* borrowed; or NULL */
	struct ms_object object;
};

/*
 * Read the ELF header whose first byte is mapped at @base.
 *
 * @mem_fd: /proc/PID/mem, borrowed for as long as @ret is used
 *
 * Returns false when there is none, or not one of a 64-bit machine.
 */
bool ms_image_open(int mem_fd, ms_addr base, struct ms_image *ret);

/* The same of what @src shows. */
bool ms_image_open_in(struct ms_source *src, ms_addr base, struct ms_image *ret);

/* Find a function that the image exports. */
bool ms_image_find(struct ms_image *image, const char *name, ms_addr *ret);

/* The same with its length, which may be 0. */
bool ms_image_find_code(struct ms_image *image, const char *name, struct ms_range *ret);

/* Whether it exports malloc and a function of its own of an allocator that is known by it. */
bool ms_image_has_allocator(struct ms_image *image);

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

/* A piece of the process, read into memory of ours. */
struct ms_piece {
	struct ms_range range;
	const unsigned char *bytes;
};

/* Read @range, or as much from its begin on as anything is looked for in. */
bool ms_image_piece(const struct ms_image *image, struct ms_range range, struct ms_arena *arena,
                    struct ms_piece *ret);

/* Read the image's instructions. */
bool ms_image_text(const struct ms_image *image, const struct ms_mappings *maps,
                   struct ms_arena *arena, struct ms_piece *ret);

#endif
