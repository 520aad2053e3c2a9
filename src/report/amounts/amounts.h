/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_AMOUNTS_AMOUNTS_H
#define MS_REPORT_AMOUNTS_AMOUNTS_H

/*
 * Amounts as a tree, and what is written of it.
 *
 *	leaks.c    a report's leaks, or sites, become amounts
 *	           (heap dumps: report/heapdump/amounts.c)
 *	tree.c     amounts become a tree
 *	folded.c html.c pprof.c     and are written
 *	writers.c           a report's, as --format has it
 *
 * To add a format: one file with a function as ms_amounts_folded(), for any tree.
 */

#include "base/status.h"
#include "engine/report.h"
#include "engine/result.h"
#include "report/writers.h"

struct ms_amount_sum {
	uint64_t bytes;
	uint64_t count;
	uint64_t own_bytes; /* of ways that end here */
	uint64_t own_count;
};

enum { MS_AMOUNT_NONE = UINT32_MAX };

struct ms_amount_node {
	enum ms_level level;
	uint32_t parent; /* all three: MS_AMOUNT_NONE: there is none */
	uint32_t first;  /* child, in the order in which they are printed */
	uint32_t next;   /* sibling */
	uint32_t depth;  /* of a group: 0 */
	bool changed;    /* it, or something below it, is not the same as in the old ones */
	uint64_t key;    /* as its level has them */
	size_t order;    /* of the first amount that led here */
	struct ms_amount_sum now;
	struct ms_amount_sum old;
};

struct ms_amount_nodes MS_VEC(struct ms_amount_node);

struct ms_amount_tree {
	const struct ms_amounts *amounts;
	struct ms_amount_nodes nodes;
	uint32_t first_root; /* MS_AMOUNT_NONE: there are no amounts */
};

/* Make the tree of tree->amounts, in place of any that was made. Returns MS_E_NOMEM. */
ms_must_check enum ms_status ms_amounts_grow(struct ms_amount_tree *tree, struct ms_arena *arena,
                                             struct ms_error *err);

/* The node to print after @node: first what is below it, unless @skip. NULL behind the last. */
const struct ms_amount_node *ms_amounts_next(const struct ms_amount_tree *tree,
                                             const struct ms_amount_node *node, bool skip);

/* The first node to print, or NULL. */
const struct ms_amount_node *ms_amounts_begin(const struct ms_amount_tree *tree);

/* What a page says above the tree. */
struct ms_amount_page {
	const char *title;
	const char *const *lines;
	size_t n_lines;
	bool whole_paths; /* of libraries and source files */
};

/*
 * Folded stacks, one line each: for flame graphs. A profile for pprof, which is no text. One
 * page of HTML. All return false when the sink stopped them, or memory ran out.
 */
bool ms_amounts_folded(const struct ms_amount_tree *tree, struct ms_sink *sink);
bool ms_amounts_pprof(const struct ms_amount_tree *tree, struct ms_sink *sink);
bool ms_amounts_html(const struct ms_amount_tree *tree, const struct ms_amount_page *page,
                     struct ms_sink *sink);

enum ms_amounts_by { MS_AMOUNTS_BY_STACK, MS_AMOUNTS_BY_TYPE };

/*
 * The leaks of a report with all that hangs on them; possible ones are a group of their own.
 * By stack a leak without one stands at a place that is called by its type. @report must
 * outlive @ret, which is in @arena. Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_amounts_of_leaks(const struct ms_report *report,
                                                 enum ms_amounts_by by, struct ms_arena *arena,
                                                 struct ms_amounts *ret, struct ms_error *err);

/* The same of a report's sites: live blocks, as samples say. */
ms_must_check enum ms_status ms_amounts_of_sites(const struct ms_report *report,
                                                 struct ms_arena *arena, struct ms_amounts *ret,
                                                 struct ms_error *err);

/* One that takes amounts of a report, as ms_amounts_of_sites() does. */
typedef enum ms_status ms_amounts_take(const struct ms_report *report, struct ms_arena *arena,
                                       struct ms_amounts *ret, struct ms_error *err);

/* Write the tree of what @take takes of @report; false as that, or as @write. */
bool ms_amounts_write(const struct ms_report *report, ms_amounts_take *take,
                      bool (*write)(const struct ms_amount_tree *tree, struct ms_sink *sink),
                      struct ms_sink *sink);

/* ---- for the writers ---- */

double ms_amounts_percent(uint64_t part, uint64_t whole);

static inline const struct ms_place *ms_amounts_place(const struct ms_amount_tree *tree,
                                                      const struct ms_amount_node *node)
{
	return &tree->amounts->places.at[node->key];
}

static inline const char *ms_amounts_group(const struct ms_amount_tree *tree,
                                           const struct ms_amount_node *node)
{
	return tree->amounts->groups[node->key];
}

#endif
