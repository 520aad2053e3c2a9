/* SPDX-License-Identifier: Apache-2.0 */
#include "report/wire.h"

#include <assert.h>
#include <string.h>

#include "report/book/book.h"

/* "MSWR", "MSWQ", "MSWB" and the layout's number, lest the two ends are ever not one build. */
enum { MAGIC = 0x5257534d, MAGIC_QUESTION = 0x5157534d, MAGIC_BOOK = 0x4257534d, LAYOUT = 16 };

/* More of these than any scan makes; an honest sender never meets them. */
enum {
	MAX_HEAPS = 4096,
	MAX_NOTES = 1 << 20,
	MAX_MAPPINGS = 1 << 20,
	MAX_LEAKS = 1 << 28,
	MAX_LIKES = 1 << 28,
	MAX_TYPES = 1 << 16,
	MAX_MODULES = 1 << 20,
	MAX_SUPPRESSED = 1 << 16,
	MAX_LOST = 1 << 28,
	MAX_CHAINS = MS_ANSWER_SUBJECTS * MS_ANSWER_CHAINS,
	MAX_STEPS = (MAX_CHAINS + MS_ANSWER_SUBJECTS) * MS_ANSWER_STEPS,
	MAX_RETAINED_STEPS = 3 * MS_RETAINED_ENTRIES * MS_RETAINED_STEPS,
	MAX_SITES = 1 << 20,
	MAX_STACKS = 1 << 26,
	MAX_PCS = 1 << 30,
	MAX_CODE = 1 << 20
};

enum { PIECE_BYTES = 1 << 20 }; /* a false count costs one piece of memory, not its product */

struct wire_head {
	uint32_t magic;
	uint32_t layout;
};

/* What of a report is not a vector. */
struct wire_fixed {
	struct ms_host_facts host;
	struct ms_target_facts target;
	struct ms_scan_facts scan;
	struct ms_totals totals;
	struct ms_sampling sampling;
	struct ms_anchors anchors;
	struct ms_answer_facts answer;
	struct ms_retained_facts retained;
	uint64_t possible; /* not bool: any byte may arrive */
	uint64_t heap;     /* likewise */
	uint64_t live_limit;
};

/* A vector of the report, whatever it holds. */
struct wire_vec {
	void *at; /* where the vector keeps its typed pointer */
	size_t *n;
	size_t *cap;
	size_t size; /* of an entry */
	uint64_t max;
};

/* The last of them are those of a question, too. */
enum { VECTORS = 23, FIRST_ASKED = 20 };

#define WIRE_VEC(vec, max)                                                  \
	(struct wire_vec)                                                   \
	{                                                                   \
		&(vec)->at, &(vec)->n, &(vec)->cap, sizeof(*(vec)->at), max \
	}

/* The vectors in the order in which they travel. */
static void list_vectors(struct ms_report *report, struct wire_vec ret[VECTORS])
{
	ret[0] = WIRE_VEC(&report->heaps, MAX_HEAPS);
	ret[1] = WIRE_VEC(&report->evidence, MAX_NOTES);
	ret[2] = WIRE_VEC(&report->leaks, MAX_LEAKS);
	ret[3] = WIRE_VEC(&report->mappings, MAX_MAPPINGS);
	ret[4] = WIRE_VEC(&report->warnings, MAX_NOTES);
	ret[5] = WIRE_VEC(&report->types, MAX_TYPES);
	ret[6] = WIRE_VEC(&report->suppressed, MAX_SUPPRESSED);
	ret[7] = WIRE_VEC(&report->lost, MAX_LOST);
	ret[8] = WIRE_VEC(&report->answer.subjects, MS_ANSWER_SUBJECTS);
	ret[9] = WIRE_VEC(&report->answer.chains, MAX_CHAINS);
	ret[10] = WIRE_VEC(&report->answer.steps, MAX_STEPS);
	ret[11] = WIRE_VEC(&report->retained.roots, MS_RETAINED_ENTRIES);
	ret[12] = WIRE_VEC(&report->retained.shared, MS_RETAINED_ENTRIES);
	ret[13] = WIRE_VEC(&report->retained.types, MS_RETAINED_ENTRIES);
	ret[14] = WIRE_VEC(&report->retained.blocks, MS_RETAINED_ENTRIES);
	ret[15] = WIRE_VEC(&report->retained.steps, MAX_RETAINED_STEPS);
	ret[16] = WIRE_VEC(&report->live, MS_LIVE_MOST);
	ret[17] = WIRE_VEC(&report->sites, MAX_SITES);
	ret[18] = WIRE_VEC(&report->modules, MAX_MODULES);
	ret[19] = WIRE_VEC(&report->likes, MAX_LIKES);
	ret[20] = WIRE_VEC(&report->stacks, MAX_STACKS);
	ret[21] = WIRE_VEC(&report->pcs, MAX_PCS);
	ret[22] = WIRE_VEC(&report->code, MAX_CODE);
}

/* The first entry of @vec, a pointer to whatever it holds. */
static unsigned char *entries(const struct wire_vec *vec)
{
	unsigned char *at;

	memcpy(&at, vec->at, sizeof(at));
	return at;
}

/* From the one of number @first on. */
static bool send_vectors(ms_wire_put put, void *ctx, struct ms_report report, size_t first)
{
	struct wire_vec vectors[VECTORS];

	list_vectors(&report, vectors);
	for (size_t i = first; i < VECTORS; i++) {
		uint64_t n = *vectors[i].n;

		if (!put(ctx, &n, sizeof(n)))
			return false;
		if (n && !put(ctx, entries(&vectors[i]), *vectors[i].n * vectors[i].size))
			return false;
	}
	return true;
}

bool ms_wire_send(ms_wire_put put, void *ctx, const struct ms_error *error,
                  const struct ms_report *report)
{
	const struct wire_head head = { MAGIC, LAYOUT };
	struct wire_fixed fixed;

	if (!put(ctx, &head, sizeof(head)) || !put(ctx, error, sizeof(*error)))
		return false;
	if (error->status != MS_OK)
		return true;
	memset(&fixed, 0, sizeof(fixed));
	fixed.host = report->host;
	fixed.target = report->target;
	fixed.scan = report->scan;
	fixed.totals = report->totals;
	fixed.sampling = report->sampling;
	fixed.anchors = report->anchors;
	fixed.answer = report->answer.facts;
	fixed.retained = report->retained.facts;
	fixed.possible = report->possible;
	fixed.heap = report->heap;
	fixed.live_limit = report->live_limit;
	return put(ctx, &fixed, sizeof(fixed)) && send_vectors(put, ctx, *report, 0);
}

/* ---- the receiving side ---- */

/* What the receiver works with, in one piece. */
struct receiver {
	ms_wire_get get;
	void *ctx;
	struct ms_arena *arena;
	struct ms_error *err;
	const char *what; /* is received */
};

static enum ms_status ended(struct receiver *r)
{
	return ms_fail(r->err, MS_E_DIED, "the %s ended in the middle", r->what);
}

static enum ms_status nonsense(struct receiver *r, const char *what)
{
	return ms_fail(r->err, MS_E_CORRUPT, "the sweeper's report makes no sense: %s", what);
}

static void end_string(char *text, size_t size)
{
	text[size - 1] = '\0';
}

#define END_STRING(array) end_string((array), sizeof(array))

/* Read the status as the number that it is: an enum may hold no other values than its own. */
static enum ms_status receive_outcome(struct receiver *r)
{
	struct ms_error sent;
	unsigned int status;

	static_assert(sizeof(status) == sizeof(sent.status), "an enum of another size");
	if (!r->get(r->ctx, &sent, sizeof(sent)))
		return ended(r);
	memcpy(&status, &sent.status, sizeof(status));
	if (status > MS_E_DIED)
		return nonsense(r, "an unknown outcome");
	END_STRING(sent.text);
	END_STRING(sent.advice);
	if (status != MS_OK)
		*r->err = sent;
	return (enum ms_status)status;
}

/* @ret: the magic of what follows */
static enum ms_status receive_head(struct receiver *r, uint32_t *ret)
{
	struct wire_head head;

	if (!r->get(r->ctx, &head, sizeof(head)))
		return ended(r);
	if ((head.magic != MAGIC && head.magic != MAGIC_QUESTION && head.magic != MAGIC_BOOK) ||
	    head.layout != LAYOUT)
		return nonsense(r, "it begins otherwise");
	*ret = head.magic;
	return MS_OK;
}

static enum ms_status receive_fixed(struct receiver *r, struct ms_report *report)
{
	struct wire_fixed fixed;

	if (!r->get(r->ctx, &fixed, sizeof(fixed)))
		return ended(r);
	if (fixed.target.cmdline_len > sizeof(fixed.target.cmdline) || fixed.possible > 1 ||
	    fixed.heap > 1)
		return nonsense(r, "a field out of range");
	END_STRING(fixed.host.name);
	END_STRING(fixed.host.kernel);
	END_STRING(fixed.host.arch);
	END_STRING(fixed.target.arch);
	END_STRING(fixed.target.exe);
	END_STRING(fixed.target.cmdline);
	END_STRING(fixed.scan.source);
	report->host = fixed.host;
	report->target = fixed.target;
	report->scan = fixed.scan;
	report->totals = fixed.totals;
	report->sampling = fixed.sampling;
	report->anchors = fixed.anchors;
	report->answer.facts = fixed.answer;
	report->retained.facts = fixed.retained;
	report->possible = fixed.possible == 1;
	report->heap = fixed.heap == 1;
	report->live_limit = fixed.live_limit;
	return MS_OK;
}

static enum ms_status receive_entries(struct receiver *r, const struct wire_vec *vec, uint64_t n)
{
	size_t piece = PIECE_BYTES / vec->size;

	while (*vec->n < n) {
		size_t more = n - *vec->n < piece ? (size_t)(n - *vec->n) : piece;
		size_t want = *vec->n + more;

		if (*vec->cap < want &&
		    !ms_vec_reserve_bytes(r->arena, vec->at, vec->cap, want, vec->size))
			return ms_fail(r->err, MS_E_NOMEM, "no memory for the report");
		if (!r->get(r->ctx, entries(vec) + *vec->n * vec->size, more * vec->size))
			return ended(r);
		*vec->n = want;
	}
	return MS_OK;
}

static enum ms_status receive_vectors(struct receiver *r, struct ms_report *report, size_t first)
{
	struct wire_vec vectors[VECTORS];

	list_vectors(report, vectors);
	for (size_t i = first; i < VECTORS; i++) {
		enum ms_status st;
		uint64_t n;

		if (!r->get(r->ctx, &n, sizeof(n)))
			return ended(r);
		if (n > vectors[i].max)
			return nonsense(r, "an absurd count");
		st = receive_entries(r, &vectors[i], n);
		if (st)
			return st;
	}
	return MS_OK;
}

/* A bool that came as bytes may be neither; look at the byte before it is used as one. */
static bool heaps_sensible(struct ms_report *report)
{
	struct ms_heap *heap;
	uint64_t evidence = 0;

	ms_vec_for_each (heap, &report->heaps) {
		unsigned char verified;

		memcpy(&verified, &heap->verified, sizeof(verified));
		if (verified > 1 || heap->doubt >= MS_DOUBTS)
			return false;
		END_STRING(heap->allocator);
		END_STRING(heap->version);
		evidence += heap->n_evidence;
	}
	return evidence == report->evidence.n;
}

static bool likes_sensible(const struct ms_report *report, const struct ms_leak *leak)
{
	uint64_t left = leak->texts;

	if (leak->first_like > report->likes.n ||
	    leak->n_likes > report->likes.n - leak->first_like)
		return false;
	for (uint32_t i = 0; i < leak->n_likes; i++) {
		struct ms_like *like = &report->likes.at[leak->first_like + i];

		END_STRING(like->pattern);
		END_STRING(like->first);
		END_STRING(like->last);
		if (like->count > left)
			return false;
		left -= like->count;
	}
	return true;
}

static bool leaks_sensible(struct ms_report *report)
{
	struct ms_leak *leak;

	ms_vec_for_each (leak, &report->leaks) {
		if (leak->kind >= MS_LEAK_KINDS || leak->reason >= MS_REASONS ||
		    leak->contents_len > MS_CONTENTS || leak->type > report->types.n ||
		    leak->stack > report->stacks.n || leak->callback > report->pcs.n ||
		    leak->maker.module > report->modules.n || !likes_sensible(report, leak))
			return false;
		END_STRING(leak->signature);
		END_STRING(leak->text);
	}
	return true;
}

static bool types_sensible(struct ms_report *report)
{
	struct ms_type *type;

	ms_vec_for_each (type, &report->types) {
		if (type->how >= MS_HOWS || type->sure >= MS_SURES)
			return false;
		END_STRING(type->name);
		END_STRING(type->module);
	}
	return true;
}

static void end_paths(struct ms_module_names *modules)
{
	struct ms_module_name *module;

	ms_vec_for_each (module, modules)
		END_STRING(module->path);
}

static bool live_sensible(const struct ms_report *report)
{
	const struct ms_live *live;

	ms_vec_for_each (live, &report->live)
		if (live->type > report->types.n || live->least_size > live->size ||
		    live->leaked_allocations > live->allocations ||
		    live->leaked_bytes > live->bytes)
			return false;
	return true;
}

static bool sites_sensible(const struct ms_report *report)
{
	const struct ms_site *site;

	ms_vec_for_each (site, &report->sites)
		if (!site->stack || site->stack > report->stacks.n)
			return false;
	return report->sites.n <= report->sampling.stacks;
}

static bool mappings_sensible(struct ms_report *report)
{
	struct ms_lost_mapping *mapping;

	ms_vec_for_each (mapping, &report->mappings) {
		if (mapping->range.end < mapping->range.begin)
			return false;
		END_STRING(mapping->name);
	}
	return true;
}

static void end_patterns(struct ms_suppressed_list *list)
{
	struct ms_suppressed *suppressed;

	ms_vec_for_each (suppressed, list)
		END_STRING(suppressed->pattern);
}

static void end_notes(struct ms_notes *notes)
{
	struct ms_note *note;

	ms_vec_for_each (note, notes)
		END_STRING(note->text);
}

/* They share no frames, lest a short report takes for ever to write. */
static bool stacks_sensible(const struct ms_report *report)
{
	const struct ms_stack *stack;
	uint64_t frames = 0;

	ms_vec_for_each (stack, &report->stacks) {
		frames += stack->n;
		if ((uint64_t)stack->first + stack->n > report->pcs.n || stack->n > MS_STACK_FRAMES)
			return false;
	}
	return frames <= report->pcs.n;
}

static bool code_sensible(struct ms_report *report)
{
	ms_addr end = 0;
	struct ms_code *code;

	ms_vec_for_each (code, &report->code) {
		if (code->range.begin < end || code->range.end <= code->range.begin ||
		    code->build_id_len > MS_BUILD_ID_BYTES)
			return false;
		end = code->range.end;
		END_STRING(code->name);
	}
	return true;
}

static bool lost_sensible(const struct ms_report *report)
{
	for (size_t i = 1; i < report->lost.n; i++)
		if (report->lost.at[i].address <= report->lost.at[i - 1].address)
			return false;
	return true;
}

static bool anchors_sensible(const struct ms_anchors *anchors)
{
	if (anchors->n > MS_ANCHORS)
		return false;
	for (uint32_t i = 0; i < anchors->n; i++)
		if (anchors->at[i].end <= anchors->at[i].begin)
			return false;
	return true;
}

static bool spot_sensible(const struct ms_report *report, struct ms_spot *spot)
{
	END_STRING(spot->name);
	END_STRING(spot->thread);
	return spot->kind < MS_ROOT_KINDS && spot->pc <= report->pcs.n;
}

static bool is_run(uint64_t first, uint64_t n, uint64_t all)
{
	return first + n <= all;
}

static bool steps_sensible(struct ms_report *report)
{
	struct ms_answer_step *step;

	ms_vec_for_each (step, &report->answer.steps) {
		END_STRING(step->name);
		END_STRING(step->text);
		if (step->type > report->types.n || step->callback > report->pcs.n)
			return false;
	}
	return true;
}

/* That runs overlap does no harm: there are few. */
static bool answer_sensible(struct ms_report *report)
{
	struct ms_findings *answer = &report->answer;
	struct ms_subject *subject;
	struct ms_answer_chain *chain;

	ms_vec_for_each (chain, &answer->chains)
		if (!spot_sensible(report, &chain->root) || chain->n > MS_ANSWER_STEPS ||
		    !is_run(chain->first, chain->n, answer->steps.n))
			return false;
	ms_vec_for_each (subject, &answer->subjects) {
		END_STRING(subject->self.name);
		END_STRING(subject->self.text);
		if (!spot_sensible(report, &subject->spot) || subject->standing >= MS_STANDINGS ||
		    subject->reason >= MS_REASONS || subject->self.type > report->types.n ||
		    !is_run(subject->first_chain, subject->n_chains, answer->chains.n) ||
		    !is_run(subject->first_holder, subject->n_holders, answer->steps.n))
			return false;
	}
	return steps_sensible(report);
}

static bool chain_below_sensible(const struct ms_report *report,
                                 const struct ms_retained_chain *chain)
{
	return chain->n <= MS_RETAINED_STEPS &&
	       is_run(chain->first, chain->n, report->retained.steps.n);
}

/* A block is the first step of its chain. */
static bool retained_blocks_sensible(const struct ms_report *report,
                                     const struct ms_retained_block *blocks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!blocks[i].chain.n || !chain_below_sensible(report, &blocks[i].chain))
			return false;
	return true;
}

static bool retained_sensible(struct ms_report *report)
{
	struct ms_retained *retained = &report->retained;
	struct ms_retained_root *root;
	struct ms_retained_step *step;
	const struct ms_retained_type *type;

	ms_vec_for_each (root, &retained->roots)
		if (!spot_sensible(report, &root->spot) ||
		    !chain_below_sensible(report, &root->below))
			return false;
	ms_vec_for_each (type, &retained->types)
		if (type->type > report->types.n)
			return false;
	ms_vec_for_each (step, &retained->steps) {
		END_STRING(step->block.name);
		END_STRING(step->block.text);
		if (step->block.type > report->types.n || step->block.callback > report->pcs.n)
			return false;
	}
	return retained_blocks_sensible(report, retained->shared.at, retained->shared.n) &&
	       retained_blocks_sensible(report, retained->blocks.at, retained->blocks.n);
}

static enum ms_status receive_report(struct receiver *r, struct ms_report *ret)
{
	enum ms_status st = receive_outcome(r);

	st = st ? st : receive_fixed(r, ret);
	st = st ? st : receive_vectors(r, ret, 0);
	if (st)
		return st;
	if (!heaps_sensible(ret) || !leaks_sensible(ret) || !types_sensible(ret) ||
	    !mappings_sensible(ret) || !sites_sensible(ret) || !stacks_sensible(ret) ||
	    !code_sensible(ret) || !lost_sensible(ret) || !anchors_sensible(&ret->anchors) ||
	    !answer_sensible(ret) || !live_sensible(ret) || !retained_sensible(ret))
		return nonsense(r, "an entry out of range");
	end_patterns(&ret->suppressed);
	end_paths(&ret->modules);
	end_notes(&ret->evidence);
	end_notes(&ret->warnings);
	return MS_OK;
}

/* ---- questions ---- */

static bool send_question(const struct ms_wire_link *link, uint32_t magic,
                          const struct ms_report *asked, struct ms_error *err)
{
	const struct wire_head head = { magic, LAYOUT };

	if (link->put(link->ctx, &head, sizeof(head)) &&
	    send_vectors(link->put, link->ctx, *asked, FIRST_ASKED))
		return true;
	(void)ms_fail(err, MS_E_DIED, "the process that reads files is not running");
	return false;
}

bool ms_wire_ask_book(const struct ms_wire_link *link, const struct ms_report *asked,
                      struct ms_error *err)
{
	return send_question(link, MAGIC_BOOK, asked, err);
}

bool ms_wire_hear_book(const struct ms_wire_link *link, const struct ms_report *asked,
                       struct ms_arena *arena, struct ms_book *ret, struct ms_error *err)
{
	struct receiver r = { link->get, link->ctx, NULL, err, "answer" };

	return receive_outcome(&r) == MS_OK &&
	       ms_book_receive(link, asked->code.n, arena, ret, err) == MS_OK;
}

bool ms_wire_ask(const struct ms_wire_link *link, const struct ms_report *asked, uint32_t *verdicts,
                 struct ms_error *err)
{
	struct receiver r = { link->get, link->ctx, NULL, err, "answer" };

	if (!send_question(link, MAGIC_QUESTION, asked, err) || receive_outcome(&r))
		return false;
	if (link->get(link->ctx, verdicts, asked->stacks.n * sizeof(*verdicts)))
		return true;
	(void)ended(&r);
	return false;
}

static enum ms_status answer(const struct ms_wire_link *link, const struct ms_report *asked,
                             struct receiver *r)
{
	size_t len = asked->stacks.n * sizeof(uint32_t);
	uint32_t *verdicts = ms_arena_alloc(r->arena, len);
	struct ms_error outcome;

	memset(&outcome, 0, sizeof(outcome));
	if (!verdicts)
		return ms_fail(r->err, MS_E_NOMEM, "no memory for an answer to the sweeper");
	if (!link->judge(link->judge_ctx, asked, verdicts, &outcome) && !outcome.status)
		(void)ms_fail(&outcome, MS_E_UNSUPPORTED, "the reason is not known");
	if (!link->put(link->ctx, &outcome, sizeof(outcome)) ||
	    (!outcome.status && !link->put(link->ctx, verdicts, len)))
		return ended(r);
	return MS_OK;
}

static enum ms_status answer_book(const struct ms_wire_link *link, const struct ms_report *asked,
                                  struct receiver *r)
{
	struct ms_book book;
	struct ms_error outcome;

	memset(&book, 0, sizeof(book));
	memset(&outcome, 0, sizeof(outcome));
	if (!link->book(link->book_ctx, asked, r->arena, &book, &outcome) && !outcome.status)
		(void)ms_fail(&outcome, MS_E_UNSUPPORTED, "the reason is not known");
	if (!link->put(link->ctx, &outcome, sizeof(outcome)) ||
	    (!outcome.status && !ms_book_send(link->put, link->ctx, &book)))
		return ended(r);
	return MS_OK;
}

/* In an arena of its own: it is not needed any more when it is answered. */
static enum ms_status receive_question(const struct ms_wire_link *link, struct receiver whole,
                                       uint32_t magic)
{
	struct ms_arena arena = { 0 };
	struct receiver r = { whole.get, whole.ctx, &arena, whole.err, whole.what };
	struct ms_report asked;
	enum ms_status st;

	memset(&asked, 0, sizeof(asked));
	st = receive_vectors(&r, &asked, FIRST_ASKED);
	if (!st && (!stacks_sensible(&asked) || !code_sensible(&asked)))
		st = nonsense(&r, "a question out of range");
	if (!st)
		st = magic == MAGIC_BOOK ? answer_book(link, &asked, &r) : answer(link, &asked, &r);
	ms_arena_deinit(&arena);
	return st;
}

enum ms_status ms_wire_serve(const struct ms_wire_link *link, struct ms_arena *arena,
                             struct ms_report *ret, struct ms_error *err)
{
	struct receiver r = { link->get, link->ctx, arena, err, "report" };
	unsigned int questions = 0;
	struct ms_report report;
	uint32_t magic = MAGIC;
	enum ms_status st;

	memset(&report, 0, sizeof(report));
	for (;;) {
		st = receive_head(&r, &magic);
		if (st || magic == MAGIC)
			break;
		if (!(magic == MAGIC_BOOK ? !!link->book : !!link->judge) ||
		    ++questions > MS_WIRE_QUESTIONS)
			return nonsense(&r, "an unexpected question");
		st = receive_question(link, r, magic);
		if (st)
			return st;
	}
	st = st ? st : receive_report(&r, &report);
	if (!st)
		*ret = report;
	return st;
}

enum ms_status ms_wire_receive(ms_wire_get get, void *ctx, struct ms_arena *arena,
                               struct ms_report *ret, struct ms_error *err)
{
	const struct ms_wire_link link = { .get = get, .ctx = ctx };

	return ms_wire_serve(&link, arena, ret, err);
}
