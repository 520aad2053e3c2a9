/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ELF_OBJECT_H
#define MS_BASE_ELF_OBJECT_H

/*
 * A program or library as it is loaded: what its ELF header, program headers and dynamic
 * section in a process's memory say. No file is opened: that may be deleted, replaced or
 * in another mount namespace.
 *
 * All of it is the process's to forge: every count is bounded, and what does not fit
 * together is not there. Of objects of both classes in this machine's order of bytes.
 */

#include "base/reader.h"
#include "base/status.h"

enum { MS_OBJECT_NOTES = 8 }; /* linkers write three segments of them at most */

struct ms_elf_notes {
	ms_addr at;
	uint64_t bytes;
	uint64_t align;
};

/* Addresses are where it is loaded, but for @tls_image. */
struct ms_object {
	struct ms_range span; /* from its ELF header to the end of its last segment; not empty */
	ms_addr data_end;     /* of its last writable segment; 0: it has none */
	ms_addr last_head;    /* where the file's first page is mapped last; mostly span.begin */
	ms_addr bias;         /* added to the addresses in its file */
	uint8_t word_bytes;   /* its class: 4 or 8 */
	ms_addr dynamic;      /* its dynamic section; 0: it has none */
	ms_addr frame_header; /* the table over its frames; 0: it has none */
	bool has_interpreter; /* it can be run, as the C library's files can */
	/* What each thread has of its own; no bytes: nothing. */
	uint64_t tls_bytes;
	uint64_t tls_align; /* a power of two */
	ms_addr tls_image;  /* its address in the file, which places it like any other data */
	size_t n_notes;
	struct ms_elf_notes notes[MS_OBJECT_NOTES];
};

/*
 * Fill @ret from the ELF header at @begin, for pages of @page bytes. False, with @ret
 * untouched, when there is none, or it makes no sense.
 */
ms_must_check bool ms_object_read(struct ms_reader from, ms_addr begin, uint32_t page,
                                  struct ms_object *ret);

/* The entries of a dynamic section that are wanted, addresses where they are loaded; 0: none. */
struct ms_dynamic {
	ms_addr bias;
	uint8_t word_bytes;
	ms_addr strings;
	ms_addr symbols;
	ms_addr gnu_hash;
	ms_addr hash; /* the older table */
	ms_addr debug;
	ms_addr rela; /* relocations with addends */
	uint64_t rela_bytes;
	ms_addr rel; /* and without */
	uint64_t rel_bytes;
	bool named; /* it has a name that others need it by */
	bool needs; /* it needs others */
};

static inline bool ms_dynamic_is_shared(const struct ms_dynamic *dynamic)
{
	return dynamic->named || dynamic->needs;
}

/* Read the dynamic section of @object; nothing is there when it has none. */
struct ms_dynamic ms_dynamic_read(struct ms_reader from, const struct ms_object *object);

/* The same of one at @at, whose object of that class is loaded with @bias. */
struct ms_dynamic ms_dynamic_read_at(struct ms_reader from, ms_addr at, ms_addr bias,
                                     uint8_t word_bytes);

/*
 * Whether it is a program that is linked dynamically. A library that can be run is none:
 * glibc's libc.so.6, and its libpthread.so.0 before 2.34, say their version.
 */
bool ms_object_is_program(struct ms_reader from, const struct ms_object *object);

/* The address of the function @name if the object defines it and shows it to others, or 0. */
ms_addr ms_dynamic_function(struct ms_reader from, const struct ms_dynamic *dynamic,
                            const char *name);

/* The same, and how long it says that the function is; it begins at 0 when there is none. */
struct ms_range ms_dynamic_code(struct ms_reader from, const struct ms_dynamic *dynamic,
                                const char *name);

/* Whether the object wants the symbol @name from others. */
bool ms_dynamic_imports(struct ms_reader from, const struct ms_dynamic *dynamic, const char *name);

#endif
