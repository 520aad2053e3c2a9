/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing a whole scan: a drawn process (process.h), some of whose words are then written
 * over, searched for leaks with all decoders.
 *
 *	fuzz: -max_len=200 -len_control=0
 *
 * The first bytes of an input choose
 *
 *	0   the version
 *	1   the picture
 *	2   bit 0 a registry, 1 a second library, 2 no view, 3 what the second scan is, 4 what
 *	    holds memory is asked as well, 5 containers' tails keep nothing
 *	3   bit 0 no_fold, 1 possible, 2 unaligned, 3 contents, 4 two scans that confirm
 *	    each other, 5 two threads, 6 signal stacks that are not known, 7 unseen memory
 *	4   what holds the blocks, two bits for each of four: nothing, a global, the block
 *	    before, or by turns the stack, a register, the kernel, memory
 *	5   the smallest leak to list, and how many
 *
 * and then come writes of six bytes each:
 *
 *	kind    where: an arena, a chunk, a page of globals, anywhere, …
 *	index   which of these
 *	word    which of its words
 *	how     set, add, flip bits; at another address than a multiple of eight
 *	value   of what kind the value is: a number, a block, a place inside it, or elsewhere
 *	of      which of these
 *
 * The report must agree with itself and with the blocks that were decoded (outcome.h). A
 * block that a root leads to, over blocks, is never a leak. A second scan with other means,
 * or other options, must find the same; one that confirms the first tells what both have.
 * What nobody wrote to must be told as it is drawn.
 */

#include <assert.h>
#include <string.h>

#include "alloc/decoders.h"
#include "base/workers.h"
#include "outcome.h"
#include "process.h"
#include "writes.h"

static const char *const versions[] = { "2.26", "2.27", "2.31", "2.33", "2.36", "2.42", "2.43" };

static const char *const pictures[] = {
	"T u24 u100 f64 u40 b100 u24 c24 c24 c40 u500 u24 u24 u24 t",
	"T u24 f64 u24 x100 u40 f24 u24 t m9000 a9000 A70",
	"T u24 f64 u24 c24 | u24 f64 u40 | u24 t m5000",
	"T u24 c40 t m5000 l9000 m20000 l1 ; T u24 f64 c24 u40 | u24 f64 u40 t ; u24 t",
	"o1000 u24 f64 u100 u64 u64 u64 t ; T u24 c24 t",
	"",
};

enum {
	N_VERSIONS = sizeof(versions) / sizeof(versions[0]),
	N_PICTURES = sizeof(pictures) / sizeof(pictures[0]),
	HEAD_BYTES = 6,
	WRITE_BYTES = 6,
	MOST_WRITES = 32,
	SIGNAL_STACK = 200, /* bytes */
};

enum {
	REGISTRY = 1,
	SECOND_LIBRARY = 2,
	NO_VIEW = 4,
	OTHER_OPTIONS = 8,
	RETAINED = 16,
	STRICT = 32
};
enum { NO_FOLD = 1, POSSIBLE = 2, UNALIGNED = 4, CONTENTS = 8 };
enum { CONFIRM = 16, TWO_THREADS = 32, UNKNOWN_STACKS = 64, UNSEEN = 128 };

struct input {
	uint8_t version;
	uint8_t picture;
	uint8_t drawn;
	uint8_t options;
	uint8_t holders;
	uint8_t sizes;
};

static_assert(sizeof(struct input) == HEAD_BYTES, "an input has no gaps");

struct change {
	uint8_t kind;
	uint8_t index;
	uint8_t word;
	uint8_t how;
	uint8_t value;
	uint8_t of;
};

static_assert(sizeof(struct change) == WRITE_BYTES, "a write has no gaps");

/* ---- the process ---- */

static struct process *process_of(const struct input *input)
{
	static struct process *drawn[N_VERSIONS][N_PICTURES][4];
	unsigned version = input->version % N_VERSIONS;
	unsigned picture = input->picture % N_PICTURES;
	struct process **p = &drawn[version][picture][input->drawn % 4];

	if (!*p)
		*p = new_process(versions[version], pictures[picture],
		                 input->drawn & SECOND_LIBRARY ? "u24 u40 f64 u24 t" : NULL,
		                 input->drawn & REGISTRY);
	return *p;
}

/* Let the block at @block be held as @by says. */
static void hold(struct process *p, size_t i, unsigned by, ms_addr before, ms_addr block)
{
	uint64_t word = block + i % 2 * 8;

	if (by == 1 || (by == 2 && !before))
		put_word(p, GLOBALS + 8 * i, word);
	else if (by == 2)
		put_word(p, before + 8, word);
	else if (by == 3 && i % 4 == 0)
		put_word(p, FRAMES + 8 * i, word);
	else if (by == 3 && i % 4 == 1)
		put_word(p, MEMORY + 8 * i, word);
	else if (by == 3 && i % 4 == 2)
		p->registers[i / 4 % HELD_WORDS] = word;
	else if (by == 3)
		p->kernel_words[i / 4 % HELD_WORDS] = word;
}

static void hold_blocks(struct process *p, uint8_t holders)
{
	ms_addr before = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->heap.n_chunks; i++) {
		const struct ptheap_chunk *chunk = &p->heap.chunks[i];

		if (!is_used(chunk))
			continue;
		hold(p, n, (unsigned)(holders >> n % 4 * 2) & 3, before, block_of(chunk));
		before = block_of(chunk);
		n++;
	}
}

/* ---- what is written to it ---- */

static ms_addr chunk_at(const struct ptheap *h, uint8_t index)
{
	return h->n_chunks ? h->chunks[index % h->n_chunks].addr : h->libcs[0].arena;
}

static ms_addr anywhere(const struct process *p, uint8_t index, uint64_t word)
{
	struct ms_range range = p->all.base.mappings.at[index % p->all.base.mappings.n].range;

	return range.begin + ms_align_down(ms_range_len(range) / 256 * word, 8);
}

static ms_addr place_of(const struct process *p, uint8_t kind, uint8_t index, uint64_t word)
{
	const struct ptheap *h = &p->heap;
	const struct ms_mappings *maps = &p->all.base.mappings;

	switch (kind % 16) {
	case 0:
		return h->libcs[index % h->n_libcs].arena + 8 * word;
	case 1:
		return h->libcs[index % h->n_libcs].par + 8 * word;
	case 2:
		return h->n_arenas ? h->arenas[index % h->n_arenas] + 8 * word : GLOBALS;
	case 3:
		return h->n_heaps ? h->heaps[index % h->n_heaps] + 8 * word : GLOBALS;
	case 4:
		return h->fake.base.threads.at[index % h->fake.base.threads.n].tp + 8 * word - 0x80;
	case 5:
		return GLOBALS + 8 * word;
	case 6:
		return FRAMES + 8 * word - 0x100;
	case 7:
		return MEMORY + 8 * word;
	case 8:
		return anywhere(p, index, word);
	case 9:
		return maps->at[index % maps->n].range.begin + 8 * word;
	case 10:
		return p->registry.at ? p->registry.at + 8 * word : MEMORY;
	}
	return chunk_at(h, index) + 8 * (word % 32);
}

static uint64_t value_of(const struct process *p, const struct change *c)
{
	switch (c->value % 4) {
	case 0:
		return number(c->of);
	case 1:
		return chunk_at(&p->heap, c->of) + 16;
	case 2:
		return chunk_at(&p->heap, c->of) + c->value / 4;
	}
	return place_of(p, c->value / 4, c->of, 0);
}

static void apply(struct process *p, const struct change *c)
{
	ms_addr place = place_of(p, c->kind, c->index, c->word) + c->how / 64 * 3;
	uint64_t value = value_of(p, c);
	uint64_t old = 0;

	(void)ms_source_word(&p->all.base, place, &old);
	put_word(p, place, changed_word(old, c->how, value, value ^ place >> 12));
}

/* ---- scanning ---- */

/* The last of the annotators: keeps what the others told, until the blocks are sealed. */
static struct outcome *spying;

static enum ms_status spy(struct ms_decoding *d)
{
	spying->decoding = d;
	return MS_OK;
}

static const struct ms_annotator spy_annotator = { .name = "spy", .annotate = spy };

static void keep_block(struct outcome *out, const struct ms_extent *extent, uint64_t granule)
{
	const struct ms_blocks *blocks = out->decoding->blocks;
	struct told *slot = ms_vec_push(&out->arena, &out->blocks);

	require(slot, "there is memory");
	*slot = (struct told){ ms_block_begin(extent, granule),
		               ms_block_usable(blocks, extent, granule),
		               ms_block_size(blocks, extent, granule), false };
}

static void keep_blocks(void *ctx, enum ms_phase phase)
{
	struct outcome *out = ctx;
	const struct ms_extent *e;
	const struct ms_range *r;

	if (phase != MS_PHASE_ROOT || !out->decoding || !out->report.heaps.n)
		return;
	ms_vec_for_each (e, &out->decoding->blocks->extents)
		for (uint64_t cell = 0; e->kind == MS_EXTENT_HEAP && cell < e->n_cells; cell++)
			for (uint64_t left =
			             out->decoding->blocks->cells.at[e->cell0 + cell].starts;
			     left; left &= left - 1)
				keep_block(out, e,
				           cell * MS_CELL_GRANULES +
				                   (uint64_t)__builtin_ctzll(left));
	ms_vec_for_each (r, &out->decoding->unproved)
		require(ms_ranges_add(&out->arena, &out->unproved, r->begin, r->end),
		        "there is memory");
}

static struct ms_workers *two_threads(void)
{
	static struct ms_workers *workers;
	struct ms_error err;

	if (!workers)
		require(!ms_workers_start(2, &workers, &err), "threads start");
	return workers;
}

static void scan(struct process *p, struct ms_scan_options options, struct outcome *out)
{
	const struct ms_annotator *annotators[8] = { 0 };
	struct ms_error err;
	size_t n = 0;

	for (; ms_annotators[n]; n++)
		annotators[n] = ms_annotators[n];
	annotators[n] = &spy_annotator;
	memset(out, 0, sizeof(*out));
	spying = out;
	options.decoders = ms_decoders;
	options.annotators = annotators;
	options.phase_ended = keep_blocks;
	options.ctx = out;
	out->status = ms_scan(&p->all.base, &options, &out->arena, &out->report, &err);
	require(out->status == MS_OK || out->status == MS_E_UNSUPPORTED,
	        "the target's memory is never a failure");
}

/* ---- what roots lead to ---- */

static void follow(struct process *p, struct outcome *out, struct ms_range words);

static void follow_word(struct process *p, struct outcome *out, uint64_t word)
{
	struct told *block = told_at(out, word);

	/* A pointer to what was not asked for is none. */
	if (!block || block->reached || word - block->begin >= block->size)
		return;
	block->reached = true;
	follow(p, out, (struct ms_range){ block->begin, block->begin + block->size });
}

static void follow(struct process *p, struct outcome *out, struct ms_range words)
{
	uint64_t word;

	for (ms_addr at = ms_align_up(words.begin, 8); at + 8 <= words.end; at += 8)
		if (ms_source_word(&p->all.base, at, &word))
			follow_word(p, out, word);
}

/* Some of the roots, which are roots whatever is written to the rest of the process. */
static void follow_roots(struct process *p, struct outcome *out, bool has_globals)
{
	const struct ms_range *r;

	if (has_globals)
		follow(p, out, (struct ms_range){ GLOBALS, GLOBALS + PAGE });
	follow(p, out, (struct ms_range){ FRAMES, STACK + PAGE });
	ms_vec_for_each (r, &out->unproved)
		follow(p, out, *r);
	for (size_t i = 0; i < HELD_WORDS; i++) {
		follow_word(p, out, p->registers[i]);
		follow_word(p, out, p->kernel_words[i]);
	}
}

static bool wrote_into(const struct process *p, struct ms_range range)
{
	for (size_t i = 0; i < p->n_written; i++)
		if (ms_range_has(range, p->written[i].place))
			return true;
	return false;
}

static void check_roots(struct process *p, struct outcome *out)
{
	const struct ms_leak *leak;

	follow_roots(p, out, !wrote_into(p, (struct ms_range){ PROGRAM, PROGRAM + PAGE }));
	ms_vec_for_each (leak, &out->report.leaks)
		require(leak->kind == MS_LEAK_POSSIBLE || !told_at(out, leak->address)->reached,
		        "what a root leads to is no leak");
}

/* As it is drawn: all is told, and what neither roots nor memory lead to is a leak. */
static void check_untouched(struct process *p, struct outcome *out)
{
	const struct ms_totals *t = &out->report.totals;
	const struct told *block;
	uint64_t lost = 0;
	uint64_t n = 0;

	for (size_t i = 0; i < p->heap.n_chunks; i++)
		n += is_used(&p->heap.chunks[i]);
	require(n ? out->status == MS_OK : out->status != MS_OK || !t->allocations,
	        "it is scanned");
	require(t->allocations == n && !out->unproved.n, "all is told, and proved");
	follow(p, out, (struct ms_range){ MEMORY, MEMORY + PAGE });
	ms_vec_for_each (block, &out->blocks)
		lost += !block->reached;
	if (!p->all.base.unknown_stack_bytes && !p->all.base.unseen.n)
		require(t->leaked_allocations == lost, "what nothing leads to is a leak");
}

/* Blocks are the allocators': in private memory of no file, all of it there. */
static void check_memory(struct process *p, const struct outcome *out)
{
	const struct told *block;

	ms_vec_for_each (block, &out->blocks) {
		const struct ms_mapping *m = ms_range_find(&p->all.base.mappings, block->begin);

		require(m && !m->inode && !m->shared && m->prot & MS_PROT_WRITE &&
		                strcmp(m->name, "[stack]") != 0,
		        "a block is in heap memory");
		require(ms_range_has(m->range, block->begin + block->usable - 1),
		        "a block is mapped");
	}
}

/* ---- the same by other means ---- */

static void check_same(const struct outcome *a, const struct outcome *b)
{
	const struct ms_report *x = &a->report;
	const struct ms_report *y = &b->report;

	require(!memcmp(&x->totals, &y->totals, sizeof(x->totals)), "sums are the same");
	require(x->leaks.n == y->leaks.n && x->types.n == y->types.n && x->pcs.n == y->pcs.n &&
	                x->stacks.n == y->stacks.n && x->code.n == y->code.n &&
	                x->mappings.n == y->mappings.n && x->warnings.n == y->warnings.n,
	        "lists are as long");
	for (size_t i = 0; i < x->leaks.n; i++)
		require(!memcmp(&x->leaks.at[i], &y->leaks.at[i], sizeof(x->leaks.at[i])),
		        "leaks are the same");
}

/* How leaks are listed is no matter of how many there are. */
static void check_same_sums(const struct outcome *a, const struct outcome *b)
{
	const struct ms_totals *x = &a->report.totals;
	const struct ms_totals *y = &b->report.totals;

	require(x->allocations == y->allocations && x->allocation_bytes == y->allocation_bytes &&
	                x->leaked_allocations == y->leaked_allocations &&
	                x->leaked_bytes == y->leaked_bytes &&
	                x->direct_allocations == y->direct_allocations &&
	                x->direct_bytes == y->direct_bytes,
	        "leaks are the same in whatever list");
}

static void scan_again(struct process *p, struct ms_scan_options options, bool others,
                       const struct outcome *first)
{
	struct outcome second;

	if (others) {
		options.no_fold = !options.no_fold;
		options.no_merge = true;
		options.possible = !options.possible;
		options.contents = !options.contents;
		options.min_size = 0;
		options.limit = UINT64_MAX;
	} else {
		p->all.no_view = !p->all.no_view;
		options.workers = options.workers ? NULL : two_threads();
	}
	scan(p, options, &second);
	require(first->status == second.status, "both find an allocator, or none");
	if (second.status == MS_OK && others) {
		check_report(&second, &options);
		check_same_sums(first, &second);
	} else if (second.status == MS_OK) {
		check_same(first, &second);
	}
	ms_arena_deinit(&second.arena);
}

/* ---- two scans that confirm each other ---- */

/* Of blocks that were lost before, those that are now, and the bytes that they had before. */
static uint64_t count_common(const struct ms_lost_blocks *before, const struct ms_lost_blocks *now,
                             uint64_t *bytes)
{
	const struct ms_lost *l;
	uint64_t n = 0;
	size_t i = 0;

	ms_vec_for_each (l, before) {
		while (i < now->n && now->at[i].address < l->address)
			i++;
		if (i < now->n && now->at[i].address == l->address) {
			n++;
			*bytes += l->size;
		}
	}
	return n;
}

static uint64_t bytes_of(const struct ms_lost_blocks *lost)
{
	const struct ms_lost *l;
	uint64_t bytes = 0;

	ms_vec_for_each (l, lost)
		bytes += l->size;
	return bytes;
}

/* @both: of the process as @now has it, what was lost @before and still is. */
static void check_confirmed(const struct outcome *before, const struct outcome *now,
                            const struct outcome *both)
{
	const struct ms_lost_blocks *a = &before->report.lost;
	const struct ms_lost_blocks *b = &now->report.lost;
	const struct ms_totals *t = &both->report.totals;
	uint64_t bytes = 0;
	uint64_t common = count_common(a, b, &bytes);
	uint64_t told = t->leaked_allocations + t->possible_allocations;

	require(told <= common, "only what is lost twice is told");
	require(t->unconfirmed_allocations == a->n - common + b->n - told &&
	                t->unconfirmed_bytes == bytes_of(a) - bytes + bytes_of(b) -
	                                                t->leaked_bytes - t->possible_bytes,
	        "what is not confirmed is all the rest");
}

static void check_first(const struct outcome *out, const struct ms_scan_options *options)
{
	const struct ms_lost *l;
	ms_addr end = 0;

	require(!out->report.leaks.n && !out->report.totals.leaked_allocations,
	        "a first scan tells no leaks");
	check_totals(out, options);
	check_told(out);
	ms_vec_for_each (l, &out->report.lost) {
		const struct told *block = told_at(out, l->address);

		require(l->address >= end && block && block->begin == l->address &&
		                block->size == l->size,
		        "what is lost are blocks in order");
		end = l->address + l->size;
	}
}

/* ---- why a block lives ---- */

/* What the scan lists of @block is what is answered of it. */
static void check_standing(const struct outcome *out, const struct told *block,
                           const struct ms_subject *subject)
{
	const struct ms_leak *leak;

	require(subject->self.address == block->begin && subject->self.size == block->size,
	        "an address in a block is that block's");
	require(!block->reached || subject->standing != MS_STANDS_LEAKED,
	        "what a root leads to is no leak, whoever asks");
	require((subject->standing == MS_STANDS_REACHABLE) == (subject->n_chains > 0),
	        "a chain leads to what is reachable, and to nothing else");
	ms_vec_for_each (leak, &out->report.leaks) {
		if (leak->address != block->begin || leak->reason == MS_REASON_INTERIOR)
			continue;
		require(subject->reason == leak->reason &&
		                subject->standing == (leak->kind == MS_LEAK_POSSIBLE
		                                              ? MS_STANDS_POSSIBLE
		                                              : MS_STANDS_LEAKED),
		        "a leak is one whoever asks");
	}
}

static void ask_why(struct process *p, const struct input *input, struct ms_scan_options options,
                    const struct outcome *first)
{
	const struct told *block;
	struct outcome out;

	if (!first->blocks.n)
		return;
	block = &first->blocks.at[input->sizes % first->blocks.n];
	options.possible = false;
	options.question =
		(struct ms_question){ .kind = MS_ASKED_ADDRESS,
		                      .address = block->begin + input->holders % block->size,
		                      .all = input->holders & 1 };
	scan(p, options, &out);
	require(out.status == MS_OK && out.report.answer.subjects.n == 1, "there is an answer");
	check_standing(first, block, out.report.answer.subjects.at);
	ms_arena_deinit(&out.arena);
	options.question.address = place_of(p, input->holders, input->sizes, input->options);
	scan(p, options, &out);
	ms_arena_deinit(&out.arena);
	options.question = (struct ms_question){ .kind = MS_ASKED_TYPE, .type = "Foo" };
	scan(p, options, &out);
	require(!out.report.answer.subjects.n, "nothing there has a type");
	ms_arena_deinit(&out.arena);
}

/* ---- what holds memory ---- */

static bool add_up(struct ms_weight a, struct ms_weight b, struct ms_weight sum)
{
	return a.count + b.count == sum.count && a.bytes + b.bytes == sum.bytes;
}

/* Everything is of one root, or shared, or nothing leads to it; and a leak is of the last. */
static void check_retained(const struct outcome *out, const struct outcome *first)
{
	const struct ms_retained *retained = &out->report.retained;
	const struct ms_retained_facts *facts = &retained->facts;
	const struct ms_totals *totals = &out->report.totals;
	const struct ms_retained_root *root;
	uint64_t least = UINT64_MAX;

	require(add_up(facts->by_root, facts->shared, facts->reachable),
	        "what is reachable is of one root, or shared");
	require(add_up(facts->reachable, facts->unreachable,
	               (struct ms_weight){ totals->allocations, totals->allocation_bytes }),
	        "all adds up to the heap");
	require(first->report.totals.leaked_allocations <= facts->unreachable.count,
	        "what leaks nothing holds");
	ms_vec_for_each (root, &retained->roots) {
		require(root->retained.bytes <= least, "the heaviest is first");
		least = root->retained.bytes;
	}
}

#define same_vector(a, b) \
	((a).n == (b).n && (!(a).n || !memcmp((a).at, (b).at, (a).n * sizeof(*(a).at))))

static void ask_retained(struct process *p, struct ms_scan_options options,
                         const struct outcome *first)
{
	struct outcome out[2];
	const struct ms_retained *a = &out[0].report.retained;
	const struct ms_retained *b = &out[1].report.retained;

	options.question = (struct ms_question){ .kind = MS_ASKED_RETAINED, .limit = 50 };
	for (int i = 0; i < 2; i++) {
		options.workers = i ? two_threads() : NULL;
		scan(p, options, &out[i]);
		require(out[i].status == MS_OK, "there is an answer");
		check_retained(&out[i], first);
	}
	require(!memcmp(&a->facts, &b->facts, sizeof(a->facts)) &&
	                same_vector(a->roots, b->roots) && same_vector(a->shared, b->shared) &&
	                same_vector(a->types, b->types) && same_vector(a->blocks, b->blocks) &&
	                same_vector(a->steps, b->steps),
	        "threads answer the same");
	ms_arena_deinit(&out[0].arena);
	ms_arena_deinit(&out[1].arena);
}

/* ---- tails of containers ---- */

/* The process as if C++ was there. Tails that keep nothing make leaks more, and never fewer. */
static void scan_strictly(struct process *p, struct ms_scan_options options,
                          const struct outcome *first)
{
	struct ms_mapping *program = ms_range_find(&p->all.base.mappings, PROGRAM);
	const char *name = program->name;
	struct outcome out[2];

	program->name = "/usr/lib/libstdc++.so.6";
	options.strict_containers = true;
	options.heap = true;
	for (int i = 0; i < 2; i++) {
		options.workers = i ? two_threads() : NULL;
		scan(p, options, &out[i]);
		require(out[i].status == MS_OK, "it is scanned");
		require(out[i].report.totals.leaked_allocations +
		                        out[i].report.totals.possible_allocations >=
		                first->report.totals.leaked_allocations,
		        "tails keep blocks, and nothing else does");
	}
	program->name = name;
	check_same(&out[0], &out[1]);
	ms_arena_deinit(&out[0].arena);
	ms_arena_deinit(&out[1].arena);
}

/* ---- inputs ---- */

static struct ms_scan_options options_of(const struct input *input)
{
	uint8_t o = input->options;

	return (struct ms_scan_options){ .no_fold = o & NO_FOLD,
		                         .possible = o & POSSIBLE,
		                         .unaligned = o & UNALIGNED,
		                         .contents = o & CONTENTS,
		                         .workers = o & TWO_THREADS ? two_threads() : NULL,
		                         .min_size = (input->sizes & 15) * UINT64_C(20),
		                         .limit = input->sizes / 16 ? input->sizes / 16 - 1u
		                                                    : UINT64_MAX };
}

static void write_all(struct process *p, const uint8_t *data, size_t size)
{
	for (struct change c; size >= sizeof(c); size -= sizeof(c), data += sizeof(c)) {
		memcpy(&c, data, sizeof(c));
		apply(p, &c);
	}
}

/* All of the process as it is now; then, if there was a scan before, what both have. */
static void scan_and_check(struct process *p, const struct input *input,
                           struct ms_scan_options options, const struct outcome *before)
{
	struct outcome out;

	if (before)
		options.lost = &before->report.lost;
	scan(p, options, &out);
	if (out.status == MS_OK) {
		check_report(&out, &options);
		check_memory(p, &out);
		check_roots(p, &out);
		require(!p->all.base.unseen.n || !out.report.totals.leaked_allocations,
		        "memory that was not seen may hold anything");
	}
	if (before && out.status == MS_OK) {
		struct outcome now;

		options.lost = NULL;
		options.keep_lost = true;
		scan(p, options, &now);
		check_first(&now, &options);
		check_confirmed(before, &now, &out);
		ms_arena_deinit(&now.arena);
	} else if (!before) {
		/* Of two libraries nobody can tell which has what pieces. */
		if (p->n_written == p->n_drawn && p->heap.n_libcs == 1)
			check_untouched(p, &out);
		if (out.status == MS_OK)
			ask_why(p, input, options, &out);
		if (out.status == MS_OK && input->drawn & RETAINED)
			ask_retained(p, options, &out);
		if (out.status == MS_OK && input->drawn & STRICT)
			scan_strictly(p, options, &out);
		scan_again(p, options, input->drawn & OTHER_OPTIONS, &out);
	}
	ms_arena_deinit(&out.arena);
}

static void run_two(struct process *p, const struct input *input, const uint8_t *data, size_t size)
{
	size_t half = size / WRITE_BYTES / 2 * WRITE_BYTES;
	struct ms_scan_options options = options_of(input);
	struct outcome before;

	options.keep_lost = true;
	write_all(p, data, half);
	scan(p, options, &before);
	if (before.status == MS_OK)
		check_first(&before, &options);
	write_all(p, data + half, size - half);
	options.keep_lost = false;
	if (before.status == MS_OK)
		scan_and_check(p, input, options, &before);
	ms_arena_deinit(&before.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input;
	struct process *p;

	if (size < sizeof(input) || size > sizeof(input) + (size_t)MOST_WRITES * WRITE_BYTES)
		return -1;
	memcpy(&input, data, sizeof(input));
	data += sizeof(input);
	size -= sizeof(input);
	p = process_of(&input);
	p->all.no_view = input.drawn & NO_VIEW;
	p->all.base.unknown_stack_bytes = input.options & UNKNOWN_STACKS ? SIGNAL_STACK : 0;
	if (input.options & UNSEEN)
		require(ms_ranges_add(&p->all.arena, &p->all.base.unseen, 0, PAGE), "memory");
	hold_blocks(p, input.holders);
	p->n_drawn = p->n_written;
	if (input.options & CONFIRM) {
		run_two(p, &input, data, size);
	} else {
		write_all(p, data, size);
		scan_and_check(p, &input, options_of(&input), NULL);
	}
	take_back(p);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	/* A global, a block's word, a chunk's size, memory, a link, the ring of arenas. */
	static const struct change changes[] = { { 5, 0, 9, 0, 1, 2 },  { 11, 3, 2, 0, 1, 5 },
		                                 { 12, 1, 1, 1, 0, 5 }, { 7, 0, 3, 64, 2, 4 },
		                                 { 13, 5, 2, 4, 1, 3 }, { 0, 0, 255, 0, 3, 0 } };
	enum { N_CHANGES = sizeof(changes) / sizeof(changes[0]) };

	for (uint8_t i = 0; i < N_VERSIONS * N_PICTURES; i += 4) {
		struct input input = {
			i % N_VERSIONS,    i / N_VERSIONS,          i % 64,
			(uint8_t)(i * 37), (uint8_t)(i * 101 + 27), i % 3 ? 0 : (uint8_t)(i * 5)
		};
		uint8_t seed[sizeof(input) + 2 * sizeof(changes[0])];

		memcpy(seed, &input, sizeof(input));
		memcpy(seed + sizeof(input), &changes[i / 8 % N_CHANGES], sizeof(changes[0]));
		memcpy(seed + sizeof(input) + sizeof(changes[0]), &changes[i / 4 % N_CHANGES],
		       sizeof(changes[0]));
		take(seed, i % 3 ? sizeof(seed) : sizeof(input));
	}
}
