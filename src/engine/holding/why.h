/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_HOLDING_WHY_H
#define MS_ENGINE_HOLDING_WHY_H

/*
 * Why what was asked for lives (engine/question.h), as an answer for a report.
 *
 *	subjects.c   which blocks were asked for, or what else is at the address
 *	spots.c      names of roots
 *	why.c        what holds them
 *
 * It knows whether a chain leads from a root to a block. Whether one that none leads to is
 * a leak for certain, the steps of a scan say, of which each marks blocks for a reason.
 */

#include "engine/holding/chains.h"
#include "engine/loaded/peek.h"
#include "engine/names/types.h"
#include "engine/question.h"

struct ms_why {
	const struct ms_question *question;
	const struct ms_decoding *decoding;
	const struct ms_roots *roots;
	struct ms_walk_options like; /* what counts as a pointer */
	struct ms_types *types;
	struct ms_report *report; /* its answer, types, pcs and code are filled */

	struct ms_peek peek;
	struct ms_aimer *aimer; /* of blocks that no root leads to */
	struct ms_rows rows;
	struct ms_chains chains;
	struct ms_block blocks[MS_ANSWER_SUBJECTS]; /* of subjects that are blocks or mappings */
};

/* Answer, after the table of blocks was sealed. Returns MS_E_NOMEM. */
ms_must_check enum ms_status ms_why_answer(struct ms_why *why, struct ms_error *err);

/* Whether a subject is left that no root leads to. */
bool ms_why_is_open(const struct ms_why *why);

/* A step of the scan has marked blocks for @reason: those that were asked for are judged by it. */
void ms_why_judge(struct ms_why *why, enum ms_reason reason);

/* Tell of which files the addresses are that symbols are wanted for; MS_E_NOMEM. */
ms_must_check enum ms_status ms_why_list_files(struct ms_why *why, struct ms_error *err);

/* ---- between these files ---- */

/* Find the subjects; MS_E_NOMEM. */
ms_must_check enum ms_status ms_subjects_find(struct ms_why *why, struct ms_error *err);

/* Describe @block, without an offset. */
struct ms_answer_step ms_subject_step(struct ms_why *why, struct ms_block block);

/* Whether @subject is a block or a mapping, reachable or not. */
static inline bool ms_subject_is_node(const struct ms_subject *subject)
{
	return subject->standing <= MS_STANDS_LEAKED;
}

/* What a root's name is in an answer; its address is added to the report's pcs. */
struct ms_spot ms_subject_spot(struct ms_why *why, const struct ms_root_name *name);

/* The entry of the report's addresses that is @at, from 1 on; 0 without memory. */
uint32_t ms_subject_address(struct ms_why *why, ms_addr at);

/* How far below a thread pointer thread-local variables are, at most. */
uint64_t ms_subject_tls_bytes(const struct ms_why *why);

#endif
