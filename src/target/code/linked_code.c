/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator in a program has no ends that a symbol tells. What tells it is the data that only
 * it refers to (engine/anchors.h), and which functions call which:
 *
 *	.text  ▕ x▕c▕ c ▕ … main … ▕ x ▕c▕  ▕x ▕ x▕  … ▕ x ▕c▕ … others … ▕
 *	          cold parts           └──── the archive ────┘
 *
 *	x    a function that refers to an anchor
 *	c    one that such a function calls or jumps to, and so on
 *	     between two of these, not far from either: a linker puts the functions of an archive
 *	     side by side, so it is one of the allocator's, too, that is called by a pointer
 *
 * Where functions begin is in the table that unwinding is done by; the cold part of a function
 * counts as one. From there on instructions are read one by one: taken at any byte, what looks
 * like a jump leads from an allocator to all of a program of 70 MiB. So nothing is guessed but
 * what is called by pointers alone, and lies apart.
 *
 * What this leaves out are functions that only others call: those of the interface which do no
 * more than give or take a block in the thread's own cache. At each of their instructions a
 * block is in the cache, or it is in a register of the thread, which is a root; and their callees
 * are in here. Functions that answer questions about the allocator change nothing.
 *
 * In a static program the C library is in the same text, and is not followed: only what is near
 * and what is cold. A callee is known by its return address (freeze/inside.c).
 *
 * Wrong anchors make wrong code, and so threads that need not be are led out; it is believed
 * only if the next decoding finds the same anchors by itself.
 */
#include "target/code/linked_code.h"

#include <stddef.h>
#include <string.h>

#include "base/elf/class.h"
#include "base/elf/frames.h"
#include "base/elf/object.h"
#include "base/page.h"
#include "target/code/insn.h"
#include "target/code/piece.h"

enum {
	LEAST_REFERRING = 8, /* functions, to each anchor; jemalloc and tcmalloc have 20 and more */
	MOST_FUNCTIONS = 1 << 20,
	MOST_ROUNDS = 256, /* of following and filling; programs have a few */
	GAP = 0x4000,      /* within an archive; twice as much, and so on, if there are too many */
	NEAR = 0x10000,    /* in a static program: how far the rest of an archive can be */
	OPERAND = 4,
	MOST_DECODED = 0x10000, /* bytes of a function, for one operand */
	SHIFT = 8,              /* an immediate behind an operand shifts it down by up to 4 */
	STUB_ALIGNMENT = 8,
};

/* Of the table behind the header: where a function begins, and its frame; relative to the header.
 */
struct frame_entry {
	int32_t begin;
	int32_t frame;
};

enum mark { OTHER, FILLED, CALLED, REFERRING };

struct function {
	ms_addr begin; /* it ends where the next one begins */
	uint8_t mark;  /* enum mark */
	bool followed;
	bool near; /* one that refers to an anchor is near */
};

struct search {
	const struct ms_image *image;
	struct ms_piece text;
	struct function *functions; /* the first begins with the text, and is none perhaps */
	size_t n;
	ms_addr entry;   /* what is cold, and what runs at the start only, lies before it; or 0 */
	bool is_static;  /* the C library may be in this text */
	bool strays;     /* it calls what is not followed */
	uint32_t *queue; /* of functions to follow */
	size_t n_queue;
};

static ms_addr end_of(const struct search *s, size_t i)
{
	return i + 1 < s->n ? s->functions[i + 1].begin : s->text.range.end;
}

/* The function that @addr, which is in the text, lies in. */
static size_t function_at(const struct search *s, ms_addr addr)
{
	return ms_lower_bound(0, s->n, i, s->functions[i].begin <= addr) - 1;
}

/* ---- what there is ---- */

/* The anchors that are in the image's own writable data. */
static void take_anchors(const struct ms_image *image, const struct ms_mappings *maps,
                         const struct ms_anchors *anchors, struct ms_anchors *ret)
{
	const struct ms_mapping *map;

	for (uint32_t i = 0; i < anchors->n && i < MS_ANCHORS; i++)
		ms_vec_for_each (map, maps) {
			struct ms_range data = ms_range_common(map->range, image->object.span);

			if (map->prot & MS_PROT_WRITE && ms_range_has(data, anchors->at[i].begin))
				(void)ms_anchors_add(ret, anchors->at[i]);
		}
}

/* All of the image's instructions, which are in one mapping. */
static bool read_text(struct search *s, const struct ms_mappings *maps, struct ms_arena *arena)
{
	const struct ms_mapping *map;
	struct ms_range all = { 0 };
	size_t n = 0;

	ms_vec_for_each (map, maps) {
		struct ms_range part = ms_range_common(map->range, s->image->object.span);

		if (!(map->prot & MS_PROT_EXEC) || part.begin == part.end)
			continue;
		all = part;
		n++;
	}
	return n == 1 && ms_piece_read_constant(s->image, maps, all, arena, &s->text) &&
	       s->text.range.end == all.end;
}

static bool read_functions(struct search *s, const struct ms_mappings *maps, struct ms_arena *arena)
{
	ms_addr at = s->image->object.frame_header;
	const struct frame_entry *entries;
	struct ms_frame_header header;
	struct ms_piece table;

	if (!at || !ms_image_read(s->image, at, &header, sizeof(header)) ||
	    !ms_frame_is_searchable(&header) || header.count > MOST_FUNCTIONS)
		return false;
	s->functions = ms_arena_alloc(arena, (header.count + (size_t)1) * sizeof(*s->functions));
	s->queue = ms_arena_alloc(arena, (header.count + (size_t)1) * sizeof(*s->queue));
	table.range.begin = at + sizeof(header);
	table.range.end = table.range.begin + header.count * sizeof(*entries);
	if (!s->functions || !s->queue ||
	    !ms_piece_read_constant(s->image, maps, table.range, arena, &table))
		return false;
	entries = (const void *)table.bytes;
	s->functions[s->n++] = (struct function){ .begin = s->text.range.begin };
	for (uint32_t i = 0; i < header.count; i++) {
		ms_addr begin = at + (ms_addr)(int64_t)entries[i].begin;

		if (!ms_range_has(s->text.range, begin))
			continue;
		if (begin < s->functions[s->n - 1].begin)
			return false;
		if (begin > s->functions[s->n - 1].begin)
			s->functions[s->n++] = (struct function){ .begin = begin };
	}
	return true;
}

static void look_at_head(struct search *s)
{
	const struct ms_object *object = &s->image->object;
	struct ms_image image = *s->image;
	const struct ms_reader from = ms_image_reader(&image);
	Elf64_Ehdr head;

	if (ms_elf_read_header(from, object->span.begin, &head) &&
	    ms_range_has(s->text.range, object->bias + head.e_entry))
		s->entry = object->bias + head.e_entry;
	s->is_static = !object->has_interpreter;
	if (object->dynamic) {
		struct ms_dynamic dynamic = ms_dynamic_read(from, object);

		s->is_static &= !ms_dynamic_is_shared(&dynamic);
	}
}

/* ---- references ---- */

static int32_t number_at(const struct search *s, size_t at)
{
	int32_t value;

	memcpy(&value, s->text.bytes + at, sizeof(value));
	return value;
}

/* ---- instructions ---- */

/*
 * Whether the bytes from @at to @end, of whole functions, are instructions one behind the other.
 * Where one is not understood, or does not end where the next function begins, any byte may
 * begin one.
 */
static bool is_decoded(const struct search *s, size_t at, size_t end)
{
	struct ms_insn insn;

	if (s->image->object.word_bytes != sizeof(Elf64_Addr))
		return false;
	while (at < end && ms_insn_read(s->text.bytes + at, end - at, &insn))
		at += insn.length;
	return at == end;
}

/* Whether an operand can begin at @at of the instruction: behind opcode or ModRM, or at the end. */
static bool may_begin(const struct ms_insn *insn, size_t at)
{
	return at == insn->opcode_at + 1U || at + OPERAND == insn->length ||
	       (insn->modrm_at && (at == insn->modrm_at + 1U || at == insn->modrm_at + 2U));
}

/* Whether the 4 bytes at @at, which lie in @function, can be an operand. */
static bool is_operand(const struct search *s, size_t function, size_t at)
{
	size_t begin = (size_t)(s->functions[function].begin - s->text.range.begin);
	size_t end = (size_t)(end_of(s, function) - s->text.range.begin);
	struct ms_insn insn;

	if (end - begin > MOST_DECODED || !is_decoded(s, begin, end))
		return true;
	for (; ms_insn_read(s->text.bytes + begin, end - begin, &insn); begin += insn.length)
		if (at < begin + insn.length)
			break;
	return may_begin(&insn, at - begin);
}

/*
 * Whether the 4 bytes at @at are an operand in @anchor, by the bytes before them: relative to the
 * next instruction, an address beside a register or an index, or a constant for a register.
 */
static bool refers_to(const struct search *s, size_t at, struct ms_range anchor)
{
	const unsigned char *before = s->text.bytes + at;
	int32_t value = number_at(s, at);

	if ((before[-1] & 0xc7) == 0x05 &&
	    ms_range_has(anchor, s->text.range.begin + at + OPERAND + (ms_addr)(int64_t)value))
		return true;
	return ms_range_has(anchor, (uint32_t)value) &&
	       ((before[-1] & 0xf8) == 0xb8 || (before[-1] & 0xf8) == 0xc0 ||
	        ((before[-1] & 0xc0) == 0x80 && (before[-1] & 0x07) != 0x04) ||
	        (before[-2] & 0xc7) == 0x04 || (before[-2] & 0xc7) == 0x84);
}

static void push(struct search *s, size_t function, enum mark mark)
{
	struct function *f = &s->functions[function];

	if (f->mark < mark)
		f->mark = (uint8_t)mark;
	if (f->followed)
		return;
	f->followed = true;
	s->queue[s->n_queue++] = (uint32_t)function;
}

/* Whether it can be worth a look: most bytes of a large program are ruled out by this alone. */
static inline bool may_refer(const struct search *s, size_t at, struct ms_range to)
{
	uint64_t bytes = ms_range_len(to);
	uint32_t len = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
	uint32_t offset = (uint32_t)number_at(s, at) - (uint32_t)to.begin;

	return offset < len || offset + (uint32_t)(s->text.range.begin + at + OPERAND) < len;
}

/* From the first of @anchors to the end of the last. */
static struct ms_range hull_of(const struct ms_anchors *anchors)
{
	struct ms_range hull = anchors->at[0];

	for (uint32_t i = 1; i < anchors->n; i++) {
		hull.begin = anchors->at[i].begin < hull.begin ? anchors->at[i].begin : hull.begin;
		hull.end = anchors->at[i].end > hull.end ? anchors->at[i].end : hull.end;
	}
	hull.begin -= SHIFT;
	return hull;
}

/* The functions that refer to an anchor, counted from the text's begin on. */
struct referring {
	size_t last;
	size_t n;
};

/* Mark the functions that refer to @anchors. Returns whether they are many, of each. */
static bool mark_referring(struct search *s, const struct ms_anchors *anchors)
{
	const struct ms_range hull = hull_of(anchors);
	struct referring found[MS_ANCHORS] = { 0 };

	for (size_t i = 2; i + OPERAND <= ms_range_len(s->text.range); i++) {
		size_t function;

		if (!may_refer(s, i, hull) || !refers_to(s, i, hull))
			continue;
		function = function_at(s, s->text.range.begin + i);
		for (uint32_t k = 0; k < anchors->n; k++) {
			const struct ms_range anchor = { anchors->at[k].begin - SHIFT,
				                         anchors->at[k].end };

			if (!refers_to(s, i, anchor) || !is_operand(s, function, i))
				continue;
			found[k].n += !found[k].n || function != found[k].last;
			found[k].last = function;
			push(s, function, REFERRING);
		}
	}
	for (uint32_t k = 0; k < anchors->n; k++)
		if (found[k].n < LEAST_REFERRING)
			return false;
	return true;
}

static void mark_near(struct search *s)
{
	ms_addr last = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct function *f = &s->functions[i];

		if (f->mark == REFERRING)
			last = f->begin;
		f->near = last && f->begin - last < NEAR;
	}
	last = 0;
	for (size_t i = s->n; i-- > 0;) {
		struct function *f = &s->functions[i];

		if (f->mark == REFERRING)
			last = f->begin;
		f->near |= last && last - f->begin < NEAR;
	}
}

/* ---- calls ---- */

struct branch {
	ms_addr to;
	bool calls; /* else it jumps */
	bool if_;   /* on a condition: within a function, of which a part is elsewhere */
};

/* The branch at @at of the text, if the bytes there are one to this text. */
static bool branch_at(const struct search *s, size_t at, struct branch *ret)
{
	const unsigned char *code = s->text.bytes + at;
	size_t len = code[0] == 0x0f ? 2 : 1;

	if (code[0] != 0xe8 && code[0] != 0xe9 && !(code[0] == 0x0f && (code[1] & 0xf0) == 0x80))
		return false;
	if (at + len + OPERAND > ms_range_len(s->text.range))
		return false;
	ret->to =
		s->text.range.begin + at + len + OPERAND + (ms_addr)(int64_t)number_at(s, at + len);
	ret->calls = code[0] == 0xe8;
	ret->if_ = len == 2;
	return ms_range_has(s->text.range, ret->to);
}

/* The branch that the instruction at @at of the text is, if it is one to this text. */
static bool branch_of(const struct search *s, const struct ms_insn *insn, size_t at,
                      struct branch *ret)
{
	if (insn->kind != MS_INSN_CALL && insn->kind != MS_INSN_JMP && insn->kind != MS_INSN_JCC)
		return false;
	ret->to = ms_insn_aim(insn, s->text.bytes + at, s->text.range.begin + at);
	ret->calls = insn->kind == MS_INSN_CALL;
	ret->if_ = insn->kind == MS_INSN_JCC;
	return ms_range_has(s->text.range, ret->to);
}

/* Whether @addr is a way to a function elsewhere: a jump through a pointer. */
static bool is_stub(const struct search *s, ms_addr addr)
{
	static const unsigned char landing[] = { 0xf3, 0x0f, 0x1e, 0xfa }; /* endbr64 */
	size_t at = (size_t)(addr - s->text.range.begin);
	const unsigned char *code = s->text.bytes + at;

	if (addr % STUB_ALIGNMENT || at + 16 > ms_range_len(s->text.range))
		return false;
	if (!memcmp(code, landing, sizeof(landing)))
		code += sizeof(landing);
	code += code[0] == 0xf2; /* bnd */
	return code[0] == 0xff && code[1] == 0x25;
}

/* In code that is not decoded, bytes that look like a branch may be another instruction's. */
static bool is_branch(const struct search *s, const struct branch *branch, size_t to)
{
	return s->functions[to].begin == branch->to || !branch->calls || is_stub(s, branch->to);
}

static void follow(struct search *s, size_t function)
{
	size_t at = (size_t)(s->functions[function].begin - s->text.range.begin);
	size_t end = (size_t)(end_of(s, function) - s->text.range.begin);
	bool decoded = is_decoded(s, at, end);
	struct ms_insn insn = { .length = 1 };

	for (; at + 1 < end; at += insn.length) {
		struct branch branch;
		size_t to;

		if (decoded && !ms_insn_read(s->text.bytes + at, end - at, &insn))
			return;
		if (!(decoded ? branch_of(s, &insn, at, &branch) : branch_at(s, at, &branch)))
			continue;
		to = function_at(s, branch.to);
		if (to == function || !is_branch(s, &branch, to))
			continue;
		if (!s->is_static || branch.if_ || branch.to < s->entry || s->functions[to].near)
			push(s, to, CALLED);
		else
			s->strays = true;
	}
}

static void follow_all(struct search *s)
{
	while (s->n_queue)
		follow(s, s->queue[--s->n_queue]);
}

/* ---- what lies between ---- */

/* Whether functions at these two addresses are on one side of where the program begins. */
static bool is_one_part(const struct search *s, ms_addr a, ms_addr b)
{
	return (a < s->entry) == (b < s->entry);
}

/* Take in what lies between functions that are no more than @gap apart. */
static void fill(struct search *s, ms_addr gap)
{
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->functions[i].mark)
			continue;
		if (last != SIZE_MAX && s->functions[i].begin - end_of(s, last) <= gap &&
		    is_one_part(s, s->functions[i].begin, s->functions[last].begin))
			for (size_t between = last + 1; between < i; between++)
				push(s, between, FILLED);
		last = i;
	}
}

/* Write the runs of functions to @ret. False when they are more than there is room for. */
static bool write_runs(const struct search *s, struct ms_linked_code *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < s->n; i++) {
		ms_addr begin = s->functions[i].begin;

		if (!s->functions[i].mark)
			continue;
		if (!ret->n || ret->at[ret->n - 1].end != begin) {
			if (ret->n == MS_LINKED_CODE_RANGES)
				return false;
			ret->at[ret->n++].begin = begin;
		}
		ret->at[ret->n - 1].end = end_of(s, i);
	}
	return true;
}

/* False when it is not done in so many rounds. */
static bool take_code(struct search *s, struct ms_linked_code *ret)
{
	ms_addr gap = GAP;

	for (int round = 0; round < MOST_ROUNDS; round++) {
		follow_all(s);
		fill(s, gap);
		/* What was filled in has callees, and these have neighbours. */
		if (s->n_queue)
			continue;
		if (write_runs(s, ret))
			return true;
		gap *= 2;
	}
	ret->n = 0;
	return false;
}

void ms_linked_code_find(const struct ms_image *image, const struct ms_mappings *maps,
                         const struct ms_anchors *anchors, struct ms_arena *arena,
                         struct ms_linked_code *ret)
{
	struct search s = { .image = image };

	memset(ret, 0, sizeof(*ret));
	take_anchors(image, maps, anchors, &ret->anchors);
	if (!ret->anchors.n || !read_text(&s, maps, arena) || !read_functions(&s, maps, arena))
		return;
	look_at_head(&s);
	if (!mark_referring(&s, &ret->anchors))
		return;
	mark_near(&s);
	if (!take_code(&s, ret))
		return;
	ret->text = s.text.range;
	ret->calls_into_text = s.strays;
}
