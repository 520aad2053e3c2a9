/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GOLDEN_ANSWER_H
#define TESTS_GOLDEN_ANSWER_H

/* The answer that tests/golden/why.* show: every kind of root, and every standing. */

#include "golden/sample.h"

static inline struct ms_answer_step *sample_step(struct ms_arena *arena, struct ms_report *report,
                                                 ms_addr address, uint64_t offset)
{
	struct ms_answer_step *step = ms_vec_push(arena, &report->answer.steps);

	*step = (struct ms_answer_step){ .address = address, .size = 48, .offset = offset };
	return step;
}

/* A chain of two steps from a root of each kind, one after the other. */
static inline void sample_chains(struct ms_arena *arena, struct ms_report *report)
{
	for (uint8_t kind = 0; kind < MS_ROOT_KINDS; kind++) {
		struct ms_answer_chain *chain = ms_vec_push(arena, &report->answer.chains);

		*chain = (struct ms_answer_chain){ .length = 1002,
			                           .first = (uint32_t)report->answer.steps.n,
			                           .n = 2 };
		chain->root = (struct ms_spot){ .at = 0x7f0000000000 + kind * 256U,
			                        .offset = kind == MS_ROOT_TLS ? -16 : kind + 64,
			                        .kind = kind };
		if (kind >= MS_ROOT_REGISTER)
			chain->root.at = 0;
		if (kind >= MS_ROOT_STACK && kind <= MS_ROOT_REGISTER)
			chain->root.tid = 4321 + kind;
		if (kind == MS_ROOT_TLS)
			snprintf(chain->root.thread, sizeof(chain->root.thread), "a\033thread");
		if (kind == MS_ROOT_GLOBALS || kind == MS_ROOT_TLS)
			snprintf(chain->root.name, sizeof(chain->root.name), "/usr/lib/libfoo.so");
		if (kind == MS_ROOT_TRANSIT)
			snprintf(chain->root.name, sizeof(chain->root.name), "message queue");
		chain->root.pc = kind == MS_ROOT_GLOBALS;
		sample_step(arena, report, 0x55d000000000 + kind * 4096U, 24 + kind)->type = 1;
		sample_step(arena, report, 0x55d0c0ffee10, 0)->omitted = kind ? 0 : 1000;
	}
	report->answer.steps.at[1].callback = 1;
	report->answer.steps.at[1].callback_offset = 0x40;
	snprintf(report->answer.steps.at[1].name, sizeof(report->answer.steps.at[1].name),
	         "/usr/lib/libfoo.so");
	report->answer.steps.at[3].callback = 2;
	report->answer.steps.at[3].callback_offset = 0x1139;
	snprintf(report->answer.steps.at[3].name, sizeof(report->answer.steps.at[3].name),
	         "/usr/lib/libops.so.2");
	report->answer.steps.at[2].mapping = 1;
	report->answer.steps.at[2].type = 0;
	snprintf(report->answer.steps.at[2].name, sizeof(report->answer.steps.at[2].name),
	         "/dev/shm/x");
}

/* @standing, and what belongs to it. */
static inline void sample_subject(struct ms_arena *arena, struct ms_report *report,
                                  enum ms_standing standing)
{
	struct ms_subject *subject = ms_vec_push(arena, &report->answer.subjects);

	*subject = (struct ms_subject){
		.asked = 0x55d0c0ffee20,
		.standing = (uint8_t)standing,
		.self = { .address = 0x55d0c0ffee10, .size = 201, .type = 2 },
		.spot = { .at = 0x55d0c0ffee20, .offset = 0x40, .name = "/usr/lib/libfoo.so" }
	};
	if (standing == MS_STANDS_REACHABLE) {
		subject->n_chains = (uint32_t)report->answer.chains.n;
		subject->roots = 30;
		subject->more = 1;
	}
	if (standing == MS_STANDS_POSSIBLE || standing == MS_STANDS_LEAKED) {
		subject->first_holder = 2;
		subject->n_holders = standing == MS_STANDS_LEAKED ? 2 : 1;
		subject->holders = standing == MS_STANDS_LEAKED ? 12 : 1;
	}
	if (standing == MS_STANDS_POSSIBLE)
		subject->reason = MS_REASON_MAPPING;
}

/* @report is sample_report()'s. */
static inline void sample_answer(struct ms_arena *arena, struct ms_report *report)
{
	sample_chains(arena, report);
	for (int standing = 0; standing < MS_STANDINGS; standing++)
		sample_subject(arena, report, (enum ms_standing)standing);
	report->answer.facts = (struct ms_answer_facts){ .of_type = 12, .of_type_held = 7 };
}

/* What the pipe takes of it: as many subjects as an honest sender has. */
static inline void sample_answer_sent(struct ms_arena *arena, struct ms_report *report)
{
	sample_answer(arena, report);
	report->answer.subjects.n = MS_ANSWER_SUBJECTS;
}

#endif
