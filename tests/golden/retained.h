/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GOLDEN_RETAINED_H
#define TESTS_GOLDEN_RETAINED_H

/* What tests/golden/retained.* show: a root of each kind, and each kind of entry. */

#include "golden/sample.h"

static inline struct ms_retained_chain sample_below(struct ms_arena *arena,
                                                    struct ms_report *report, uint32_t n)
{
	struct ms_retained_chain chain = { n, (uint32_t)report->retained.steps.n, n };

	for (uint32_t i = 0; i < n; i++) {
		struct ms_retained_step *step = ms_vec_push(arena, &report->retained.steps);

		*step = (struct ms_retained_step){
			.block = { .address = 0x55d000000000 + i * 4096U, .size = 48, .offset = 8 },
			.retained = { 10 - i, 4000 - i },
			.direct = i + 1 < n
		};
	}
	return chain;
}

static inline void sample_roots(struct ms_arena *arena, struct ms_report *report)
{
	for (uint8_t kind = 0; kind < MS_ROOT_KINDS; kind++) {
		struct ms_retained_root *root = ms_vec_push(arena, &report->retained.roots);

		*root = (struct ms_retained_root){ .words = kind ? 1 : 3,
			                           .retained = { 20U - kind, 9000U - kind } };
		root->spot = (struct ms_spot){ .at = 0x7f0000000000 + kind * 256U,
			                       .offset = kind == MS_ROOT_TLS ? -16 : kind + 64,
			                       .kind = kind,
			                       .pc = kind == MS_ROOT_GLOBALS };
		if (kind >= MS_ROOT_REGISTER)
			root->spot.at = 0;
		if (kind >= MS_ROOT_STACK && kind <= MS_ROOT_REGISTER)
			root->spot.tid = 4321 + kind;
		if (kind == MS_ROOT_TLS)
			snprintf(root->spot.thread, sizeof(root->spot.thread), "a\033thread");
		if (kind == MS_ROOT_GLOBALS)
			snprintf(root->spot.name, sizeof(root->spot.name), "/usr/lib/libfoo.so");
		if (kind == MS_ROOT_TRANSIT)
			snprintf(root->spot.name, sizeof(root->spot.name), "pipe");
		root->below = sample_below(arena, report, kind ? 1 : 7);
	}
	report->retained.steps.at[0].block.type = 1;
	report->retained.steps.at[1].block.mapping = 1;
	report->retained.steps.at[6].block.omitted = 90;
	report->retained.roots.at[0].below.length = 97;
}

static inline void sample_retained(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_retained *retained = &report->retained;

	retained->facts = (struct ms_retained_facts){ .reachable = { 1000, 90000 },
		                                      .unreachable = { 1, 24 },
		                                      .by_root = { 900, 80000 },
		                                      .shared = { 100, 10000 },
		                                      .n_roots = MS_ROOT_KINDS + 2,
		                                      .n_shared = 1,
		                                      .n_types = 5 };
	sample_roots(arena, report);
	*ms_vec_push(arena, &retained->shared) =
		(struct ms_retained_block){ 3, sample_below(arena, report, 2) };
	*ms_vec_push(arena, &retained->blocks) =
		(struct ms_retained_block){ 0, sample_below(arena, report, 1) };
	for (uint32_t type = 0; type <= 2; type++)
		*ms_vec_push(arena, &retained->types) =
			(struct ms_retained_type){ type, type ? 0 : 64, { 7, 448 }, { 9, 700 } };
	*ms_vec_push(arena, &retained->types) =
		(struct ms_retained_type){ 0, 0, { 1, 1 }, { 1, 1 } };
}

#endif
