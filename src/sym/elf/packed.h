/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_PACKED_H
#define MS_SYM_PACKED_H

#include <libelf.h>
#include <stdbool.h>

/*
 * Whether all of @elf's compressed sections are to be had at a time: libdw unpacks them when
 * it opens the file, and goes on without what does not fit in memory. Three megabytes can
 * stand for three gigabytes.
 */
bool ms_packed_fits(Elf *elf);

#endif
