/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_CLASSES_H
#define MS_TESTS_CLASSES_H

/*
 * A module of a fake process that has C++ classes, as the compiler writes them down:
 *
 *	base           ELF header          read
 *	  + 1 page     code                read, execute
 *	  + 2 pages    tables, type_infos  read (RELRO)
 *	  + 3 pages    data                read, write
 *
 * Class number i has its virtual table's address point at classes_vtable(base, i).
 */

#include "fake.h"

enum {
	CLASSES_PAGE = 4096,
	CLASSES_TABLES = 2 * CLASSES_PAGE,
	CLASSES_FIRST = CLASSES_TABLES + 0x100, /* before: the class of type_infos */
	CLASSES_EACH = 0x80,
	CLASSES_MOST = 26,
	/* From an address point: */
	CLASSES_INFO = 16,     /* the type_info: vptr, name */
	CLASSES_NAME = 16 + 16 /* the name's bytes */
};

static inline ms_addr classes_vtable(ms_addr base, unsigned int i)
{
	return base + CLASSES_FIRST + i * CLASSES_EACH + 16;
}

/* Map the module @path, with no class yet. */
void classes_map(struct ms_fake *fake, ms_addr base, const char *path);

/* Make class @i, of that mangled name. */
void classes_add(struct ms_fake *fake, ms_addr base, unsigned int i, const char *name);

/* Give it a table over frames: @n functions from @first on, each of @bytes; at @table. */
void classes_frames(struct ms_fake *fake, ms_addr base, uint32_t table, uint32_t first,
                    uint32_t bytes, uint32_t n);

#endif
