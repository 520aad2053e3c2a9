/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_OPTIONS_H
#define MS_ENGINE_OPTIONS_H

/* What a scan is asked for. */

#include "base/workers.h"
#include "engine/anchors.h"
#include "engine/annotator.h"
#include "engine/decoder.h"
#include "engine/libc/libc.h"
#include "engine/names/fields/book.h"
#include "engine/names/suppressions.h"
#include "engine/question.h"
#include "engine/report.h"
#include "engine/source.h"

struct ms_scan_options {
	/* Of the allocators to look for; ended by NULL. */
	const struct ms_decoder *const *decoders;
	const struct ms_annotator *const *annotators; /* likewise; NULL: none */
	/* Of the C libraries to look for; ended by NULL. NULL: every one. */
	const struct ms_libc_ops *const *libcs;
	uint64_t limit;    /* leaks to list; UINT64_MAX for every one */
	uint64_t min_size; /* smaller leaks (total_size) are not listed, but counted */
	bool no_fold;
	bool no_merge;    /* list leaks of one signature, or stack, one by one */
	bool stacks_only; /* merge leaks of one stack alone, as libmemunreachable does */
	bool contents;
	bool possible;
	bool unaligned;
	bool strict_containers; /* what containers do not use keeps nothing alive (strict/tails.h)
	                         */
	bool heap;              /* count all live blocks by type and size */
	bool sites;             /* list stacks of all live blocks, not of leaks alone */
	const struct ms_suppressions *suppressions; /* leaks not to tell; NULL: none */
	struct ms_question question;                /* answer it, and list no leaks */
	bool ended;     /* the program is at its end, and has given up what it does not need */
	bool keep_lost; /* the first of two scans (confirm.h): fill report.lost, list no leaks */
	struct ms_anchors anchors;         /* that an attempt before this one found */
	const struct ms_lost_blocks *lost; /* of the second: what the first kept; NULL: one scan */
	/*
	 * Say which suppression each of @asked's stacks matches, by its index from 1 on, or
	 * 0: only stacks, pcs and code of @asked are filled. False when nobody can say, with
	 * the reason in @err, and then no stack matches. NULL: stacks are not looked at.
	 */
	bool (*judge)(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
	              struct ms_error *err);
	void *judge_ctx;
	/*
	 * Give the types of the modules of @asked, of which only code is filled, in @arena.
	 * False when nobody can, with the reason in @err. NULL: types come from memory alone.
	 * Comes after a call of ask_book with the same @asked that returned true.
	 */
	bool (*book)(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
	             struct ms_book *ret, struct ms_error *err);
	/*
	 * Begin to look for what book() will give, which it may take long to; not NULL where
	 * book is not. False when nobody can, with the reason in @err.
	 */
	bool (*ask_book)(void *ctx, const struct ms_report *asked, struct ms_error *err);
	void *book_ctx;             /* of both */
	struct ms_workers *workers; /* threads to search with; NULL: alone */
	void (*phase_ended)(void *ctx, enum ms_phase phase); /* told when it is; or NULL */
	void *ctx;
};

#endif
