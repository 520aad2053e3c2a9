/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RESULT_H
#define MS_ENGINE_RESULT_H

/*
 * The model "amounts by stack or by type": how many bytes in how many blocks stand at the
 * end of which way. A heap dump's records are such amounts, and so are a report's leaks.
 *
 *	group ─ size or name ─ place ─ place ─ place	each level but the first may be absent
 *
 * A way is a run of keys, one a level: a group's number; then a size in bytes, or the number
 * of a name (a type's, a signature's), where there is such a level; then numbers of places,
 * in the order in which the tree is to have them (report/amounts/amounts.h).
 */

#include "engine/backtrace.h"

enum { MS_AMOUNT_MOST_KEYS = 1026 }; /* of one way */

/* A level of ways: what its keys are. */
enum ms_level { MS_LEVEL_GROUP, MS_LEVEL_SIZE, MS_LEVEL_NAME, MS_LEVEL_PLACE };

/* Where calls were made from; each once, so that equal ways have equal keys. */
struct ms_place {
	ms_addr pc;
	const char *library;           /* NULL: none is known */
	uint64_t offset;               /* in the library, if mapped */
	bool mapped;                   /* else the address is all that says where it is */
	const char *own;               /* what it is called without functions; NULL: not known */
	struct ms_functions functions; /* innermost first; none: not named */
};

struct ms_places MS_VEC(struct ms_place);
struct ms_keys MS_VEC(uint64_t);
struct ms_strings MS_VEC(const char *);

struct ms_amount {
	size_t first; /* of its keys */
	uint32_t n;   /* how many, at least the group */
	bool old;     /* of what the others are held against */
	uint64_t bytes;
	uint64_t count;
};

struct ms_amount_list MS_VEC(struct ms_amount);

struct ms_amounts {
	const char *const *groups; /* in capitals; the last is printed first */
	enum ms_level second;      /* MS_LEVEL_PLACE: places stand below the group */
	bool reversed;             /* places stand from the innermost call outwards */
	bool differs;              /* there are old ones */
	struct ms_strings names;
	struct ms_places places;
	struct ms_keys keys;
	struct ms_amount_list list;
};

#endif
