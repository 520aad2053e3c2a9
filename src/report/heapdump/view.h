/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_HEAPDUMP_VIEW_H
#define MS_REPORT_HEAPDUMP_VIEW_H

/*
 * The model of a heap dump, or of two against each other, that is printed.
 *
 *	parse.c    a file becomes a struct ms_heapdump
 *	places.c   the addresses of all frames, each once
 *	           (the caller names them)
 *	amounts.c  records become amounts by stack, and these a tree (report/amounts)
 *	text.c json.c     which is written, as it is by the writers of all amounts
 *
 * The order is the one above; a view is filled in step by step and const from then on.
 */

#include "engine/backtrace.h"
#include "report/amounts/amounts.h"
#include "report/heapdump/dump.h"
#include "report/writers.h"

/*
 * A place that is named once. In one dump it is an address. In another run of a
 * program the same code has another address, so that between two dumps it is a library
 * and an offset in its file; an address that no mapping has is itself there, too.
 */
struct ms_heapdump_place {
	ms_addr pc;                                /* in the newer dump, when that has it */
	const struct ms_heapdump_mapping *mapping; /* NULL: no mapping has it */
	uint64_t offset;                           /* in the mapping's file */
	/* "PACKAGE!/LIBRARY", in which the offset is then, if the file is an app's package. */
	const char *member;
	const struct ms_heapdump_info *info; /* what the dump itself says, or NULL */
	struct ms_functions functions;       /* innermost first; none: not named */
};

struct ms_heapdump_places MS_VEC(struct ms_heapdump_place);
struct ms_heapdump_indices MS_VEC(uint32_t);

struct ms_heapdump_names MS_VEC(const char *);

struct ms_heapdump_view {
	/* To be filled in by the caller. */
	const struct ms_heapdump *dumps[2]; /* the newer first */
	const char *files[2];
	size_t n_dumps;
	bool reversed;       /* from the allocating function outwards */
	bool by_size;        /* the sizes of blocks stand above the stacks */
	bool verbose;        /* whole paths in HTML */
	const char *symbols; /* the folder of symbols, as it is called in the text */

	struct ms_heapdump_places places;
	struct ms_heapdump_indices indices[2]; /* the place of each frame of a dump */
	struct ms_heapdump_names unnamed;      /* libraries without symbols, by the caller */
	struct ms_amounts amounts;
	struct ms_strings lines;    /* of a page, above the tree */
	struct ms_amount_tree tree; /* as Android's viewer makes it */
};

/* List all places. Returns MS_E_NOMEM, also for more than 2^32 frames. */
ms_must_check enum ms_status ms_heapdump_list_places(struct ms_heapdump_view *view,
                                                     struct ms_arena *arena, struct ms_error *err);

/* Make the tree, in place of any that was made. Returns MS_E_NOMEM. */
ms_must_check enum ms_status ms_heapdump_grow(struct ms_heapdump_view *view, struct ms_arena *arena,
                                              struct ms_error *err);

/* What a place is in: a library, "<anonymous>" memory, or "???". */
const char *ms_heapdump_library(const struct ms_heapdump_place *place);

/* Writers; each returns false when the sink stopped it, or memory ran out. */
struct ms_heapdump_writer {
	const char *name; /* as in --format */
	bool (*write)(const struct ms_heapdump_view *view, struct ms_sink *sink);
	bool no_text; /* what it writes is not for terminals */
};

/* The writer of that name, or NULL. */
const struct ms_heapdump_writer *ms_heapdump_writer_find(const char *name);

#endif
