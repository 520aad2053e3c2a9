/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_PYTHON_CPYTHON_H
#define MS_ENGINE_KINDS_PYTHON_CPYTHON_H

/* What the search for plain data (plain/plain.h) shares with the one for types. */

#include "engine/kinds/kinds.h"

/* Whether CPython is in the process; then k->python_type is its type of types. */
bool ms_cpython_begin(struct ms_kinds *k);

/* Whether @word can be an object's count of references. */
bool ms_cpython_is_count(const struct ms_kinds *k, uint64_t word);

enum { MS_CPYTHON_NAME = 200 };

/* Of a type's flags. */
enum {
	MS_CPYTHON_MADE = 9, /* by the program, at run time */
	MS_CPYTHON_COLLECTED = 14,
	MS_CPYTHON_LIST = 25,
	MS_CPYTHON_TUPLE = 26,
	MS_CPYTHON_BYTES = 27,
	MS_CPYTHON_STR = 28,
	MS_CPYTHON_DICT = 29,
};

struct ms_cpython_type {
	char name[MS_CPYTHON_NAME];
	uint64_t bytes;      /* of an object; of its fixed part */
	uint64_t item_bytes; /* of each item behind that; 0: it has none */
	uint64_t flags;
};

/* What @look says of the type at @at, never 0: it is asked once, and the search keeps it. */
typedef uint64_t ms_cpython_look(struct ms_kinds *k, ms_addr at);
uint64_t ms_cpython_known(struct ms_kinds *k, ms_addr at, ms_cpython_look *look);

/* The type at @at; false when none is there. */
bool ms_cpython_type(struct ms_kinds *k, ms_addr at, struct ms_cpython_type *ret);

#endif
