/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_OBJECT_H
#define MS_ENGINE_LOADED_OBJECT_H

/*
 * A program or library as it is loaded: what its ELF header, program headers and dynamic
 * section in the process's memory say. No file is opened.
 */

#include "engine/loaded/peek.h"

struct ms_object {
	ms_addr bias;    /* added to the addresses in its file */
	ms_addr dynamic; /* its dynamic section; 0: it has none */
	/* What each thread has of its own; no bytes: nothing. */
	uint64_t tls_bytes;
	uint64_t tls_align; /* a power of two */
	ms_addr tls_image;  /* its address in the file, which places it like any other data */
};

/* Fill @ret from the ELF header at @begin. False when there is none, or it makes no sense. */
ms_must_check bool ms_object_read(struct ms_peek *peek, ms_addr begin, struct ms_object *ret);

/* The entries of a dynamic section that are wanted, as they stand there; 0: it has none. */
struct ms_dynamic {
	ms_addr strings;
	ms_addr symbols;
	ms_addr gnu_hash;
	ms_addr debug;
	ms_addr rela; /* relocations with addends */
	uint64_t rela_bytes;
	bool shared; /* it has a name that others need it by, or needs others */
};

struct ms_dynamic ms_dynamic_read(struct ms_peek *peek, ms_addr at);

/* The loader adds the bias in place for most objects, but not for all. */
static inline ms_addr ms_dynamic_placed(ms_addr bias, ms_addr value)
{
	return value && value < bias ? value + bias : value;
}

#endif
