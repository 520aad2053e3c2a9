/* SPDX-License-Identifier: Apache-2.0 */
#include "muslheap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "decoded.h"
#include "engine/decode.h"
#include "module.h"

enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	UNIT = 16,
	CONTEXT_AT = 0x240, /* in the module's data */
	GIVEN_AT = PAGE,    /* the same */
	DATA_PAGES = 4,
	PER_AREA = 101,
	AREA_HEADER = 24,
	DESCRIPTOR = 40,
	AREAS = 8,
	GROUPS_BYTES = 1 << 23,
	CLASSES = 48,
	NO_CLASS = 63,
};

static const ms_addr BREAK = 0x100000;
static const ms_addr MODULE = 0x7f0000000000;
static const ms_addr DATA = 0x7f0000001000;
static const ms_addr AREA_1 = 0x7f1000000000;
static const ms_addr GROUPS = 0x7f2000000000;
static const uint64_t SECRET = 0x5eccae7a11a5ca11;
static const char NAME[] = "/lib/ld-musl-x86_64.so.1";

struct pen {
	struct muslheap *h;
	const char *at; /* of the picture */
	ms_addr next;   /* where the next group goes */
	ms_addr given;
};

_Noreturn static void refuse(const char *text, const char *what)
{
	(void)fprintf(stderr, "muslheap: %s: no %s\n", text, what);
	abort();
}

void muslheap_init(struct muslheap *h)
{
	memset(h, 0, sizeof(*h));
	ms_fake_init(&h->fake);
	h->fake.hides_zeros = true;
}

void muslheap_deinit(struct muslheap *h)
{
	ms_arena_deinit(&h->arena);
	ms_fake_deinit(&h->fake);
}

static void put(struct muslheap *h, ms_addr addr, const void *bytes, size_t len)
{
	memcpy(ms_fake_at(&h->fake, addr), bytes, len);
}

static void put_byte(struct muslheap *h, ms_addr addr, unsigned value)
{
	put(h, addr, &(uint8_t){ (uint8_t)value }, 1);
}

static uint64_t units_of(unsigned class)
{
	switch (class) {
	case 15:
		return 31;
	case 23:
		return 127;
	case 31:
		return 511;
	case 39:
		return 2047;
	default:
		if (class > 9)
			refuse("class", "class that can be drawn");
		return class + 1;
	}
}

/* ---- descriptors ---- */

static ms_addr area_at(size_t i)
{
	return i ? AREA_1 + (i - 1) * PAGE : BREAK;
}

static struct muslheap_group *new_group(struct muslheap *h)
{
	size_t i = h->n_groups++;

	assert(i < MUSLHEAP_GROUPS && i / PER_AREA <= AREAS);
	h->n_areas = i / PER_AREA + 1;
	h->groups[i].descriptor = area_at(i / PER_AREA) + AREA_HEADER + i % PER_AREA * DESCRIPTOR;
	return &h->groups[i];
}

static void put_descriptor(struct muslheap *h, const struct muslheap_group *g)
{
	const uint32_t masks[] = { g->avail, g->freed };
	uint64_t flags =
		(g->n - 1u) | (uint64_t)!g->given << 5 | (uint64_t)g->class << 6 | g->map_bytes;

	ms_fake_put(&h->fake, g->descriptor + 16, g->at);
	put(h, g->descriptor + 24, masks, sizeof(masks));
	ms_fake_put(&h->fake, g->descriptor + 32, flags);
	ms_fake_put(&h->fake, g->at, g->descriptor);
	put_byte(h, g->at + 8, g->n - 1u);
}

/* Put @g in front of the ring that the word at @head points to; the last one's next is @head's. */
static void queue(struct muslheap *h, ms_addr head, const struct muslheap_group *g)
{
	ms_addr first = g->descriptor;
	ms_addr last = 0;

	(void)ms_source_word(&h->fake.base, head, &first);
	if (!first) {
		ms_fake_put(&h->fake, g->descriptor, g->descriptor);
		ms_fake_put(&h->fake, g->descriptor + 8, g->descriptor);
		ms_fake_put(&h->fake, head, g->descriptor);
		return;
	}
	(void)ms_source_word(&h->fake.base, first, &last);
	ms_fake_put(&h->fake, g->descriptor, last);
	ms_fake_put(&h->fake, g->descriptor + 8, first);
	ms_fake_put(&h->fake, first, g->descriptor);
	ms_fake_put(&h->fake, last + 8, g->descriptor);
}

/* ---- slots ---- */

static void put_header(struct muslheap *h, ms_addr at, unsigned index, uint64_t offset)
{
	const uint16_t near = offset > UINT16_MAX ? 0 : (uint16_t)offset;
	const uint32_t far = (uint32_t)offset;

	put_byte(h, at - 4, offset > UINT16_MAX);
	put_byte(h, at - 3, index);
	put(h, at - 2, &near, sizeof(near));
	if (offset > UINT16_MAX)
		put(h, at - 8, &far, sizeof(far));
}

static struct muslheap_slot *new_slot(struct muslheap *h, char kind, ms_addr begin, uint64_t stride)
{
	struct muslheap_slot *slot = &h->slots[h->n_slots++];

	assert(h->n_slots <= MUSLHEAP_SLOTS);
	*slot = (struct muslheap_slot){ kind, begin, begin + stride, begin, 0 };
	return slot;
}

/* A block of @size bytes, @later units behind its slot's begin. */
static void fill(struct muslheap *h, const struct muslheap_group *g, struct muslheap_slot *slot,
                 unsigned index, uint64_t later)
{
	ms_addr end = slot->end - 4;
	uint32_t reserved;

	slot->at = slot->begin + later * UNIT;
	if (slot->at + slot->size > end)
		refuse("u", "room in that slot");
	reserved = (uint32_t)(end - slot->at - slot->size);
	if (later) {
		const uint16_t cycled = (uint16_t)later;

		put_byte(h, slot->begin - 3, 7 << 5);
		put(h, slot->begin - 2, &cycled, sizeof(cycled));
	}
	if (reserved >= 5) {
		put(h, end - 4, &reserved, sizeof(reserved));
		put_byte(h, end - 5, 0);
	}
	put_header(h, slot->at, index | (reserved < 5 ? reserved : 5) << 5,
	           (slot->at - g->at - UNIT) / UNIT);
}

static void skip(struct pen *pen)
{
	pen->at += strspn(pen->at, " ");
}

static uint64_t read_number(struct pen *pen)
{
	char *end;
	uint64_t n = strtoull(pen->at, &end, 10);

	if (end == pen->at)
		refuse(pen->at, "number");
	pen->at = end;
	return n;
}

static uint64_t read_later(struct pen *pen)
{
	if (*pen->at != '+')
		return 0;
	pen->at++;
	return read_number(pen);
}

static void draw_group(struct pen *pen, struct muslheap_group *g);

static void read_class(struct pen *pen, struct muslheap_group *g)
{
	g->class = (uint8_t)read_number(pen);
	g->stride = units_of(g->class) * UNIT;
}

/* Whether one slot follows, and then the end of the group. */
static bool is_alone(const struct pen *pen)
{
	const char *at = pen->at + strspn(pen->at, " ");

	at += *at == '(' ? strcspn(at, ")") + 1 : strcspn(at, " ;");
	at += strspn(at, " ");
	return !*at || *at == ';';
}

static void draw_slot(struct pen *pen, struct muslheap_group *g, unsigned index, ms_addr begin)
{
	struct muslheap *h = pen->h;
	char kind = *pen->at++;
	struct muslheap_slot *slot = new_slot(h, kind, begin, g->stride);

	switch (kind) {
	case 'u':
		slot->size = read_number(pen);
		fill(h, g, slot, index, read_later(pen));
		return;
	case 'f':
		g->freed |= 1u << index;
		put_header(h, begin, 255, 0);
		return;
	case 'a':
		g->avail |= 1u << index;
		return;
	case 'p':
		put_header(h, begin, 255, 0);
		return;
	case 'z':
		return;
	case '(': {
		struct muslheap_group *inner = new_group(h);

		read_class(pen, inner);
		inner->at = begin;
		put_header(h, begin, index | 6 << 5, (begin - g->at - UNIT) / UNIT);
		draw_group(pen, inner);
		if (*pen->at++ != ')')
			refuse(pen->at - 1, "end of the inner group");
		return;
	}
	default:
		refuse(pen->at - 1, "slot of that kind");
	}
}

static void draw_group(struct pen *pen, struct muslheap_group *g)
{
	for (skip(pen); *pen->at && !strchr(";)", *pen->at); skip(pen)) {
		draw_slot(pen, g, g->n, g->at + UNIT + g->n * g->stride);
		g->n++;
	}
}

/* ---- groups ---- */

static void draw_mapped(struct pen *pen)
{
	struct muslheap_group *g = new_group(pen->h);

	read_class(pen, g);
	g->at = pen->next;
	/* A slot that is alone has all of the mapping. */
	if (is_alone(pen))
		g->stride = ms_align_up(UNIT + g->stride, PAGE) - UNIT;
	draw_group(pen, g);
	g->map_bytes = ms_align_up(UNIT + g->n * g->stride, PAGE);
	pen->next += g->map_bytes;
}

static void draw_single(struct pen *pen)
{
	struct muslheap_group *g = new_group(pen->h);
	uint64_t size = read_number(pen);
	uint64_t later = read_later(pen);
	struct muslheap_slot *slot;

	g->class = NO_CLASS;
	g->n = 1;
	g->at = pen->next;
	g->map_bytes = ms_align_up(UNIT + later * UNIT + size + 4, PAGE);
	pen->next += g->map_bytes;
	slot = new_slot(pen->h, 'm', g->at + UNIT, g->map_bytes - UNIT);
	slot->size = size;
	fill(pen->h, g, slot, 0, later);
}

static void draw_given(struct pen *pen)
{
	struct muslheap_group *g = new_group(pen->h);

	g->given = true;
	read_class(pen, g);
	g->at = pen->given;
	pen->given += UNIT + g->stride;
	draw_group(pen, g);
}

static void draw_one(struct pen *pen)
{
	switch (*pen->at++) {
	case 'c':
		draw_mapped(pen);
		return;
	case 'd':
		draw_given(pen);
		return;
	case 'm':
		draw_single(pen);
		return;
	case 'F':
		for (uint64_t n = read_number(pen); n; n--)
			(void)new_group(pen->h);
		return;
	default:
		refuse(pen->at - 1, "group of that kind");
	}
}

/* ---- what leads there ---- */

static void map_all(struct muslheap *h)
{
	char *header;

	(void)ms_fake_map(&h->fake, BREAK, PAGE, RW, "[heap]");
	header = ms_fake_map(&h->fake, MODULE, PAGE, MS_PROT_READ, NAME);
	*elf_write(header, 1) = elf_load(0, (1 + DATA_PAGES) * PAGE, PF_R | PF_W);
	(void)ms_fake_map(&h->fake, DATA, DATA_PAGES * PAGE, RW, NAME);
	(void)ms_fake_map(&h->fake, AREA_1, AREAS * PAGE, RW, "");
	(void)ms_fake_map(&h->fake, GROUPS, GROUPS_BYTES, RW, "");
}

static void put_areas(struct muslheap *h)
{
	const uint32_t n = PER_AREA;

	for (size_t i = 0; i < h->n_areas; i++) {
		ms_fake_put(&h->fake, area_at(i), SECRET);
		ms_fake_put(&h->fake, area_at(i) + 8, i + 1 < h->n_areas ? area_at(i + 1) : 0);
		put(h, area_at(i) + 16, &n, sizeof(n));
	}
}

static void put_context(struct muslheap *h)
{
	const uint32_t init_done = 1;
	uint64_t used = h->n_groups - (h->n_areas - 1) * PER_AREA;

	ms_fake_put(&h->fake, muslheap_place(h, "ctx.secret"), SECRET);
	put(h, muslheap_place(h, "ctx.init"), &init_done, sizeof(init_done));
	ms_fake_put(&h->fake, muslheap_place(h, "ctx.unused"),
	            area_at(h->n_areas - 1) + AREA_HEADER + used * DESCRIPTOR);
	ms_fake_put(&h->fake, muslheap_place(h, "ctx.n_unused"), PER_AREA - used);
	ms_fake_put(&h->fake, muslheap_place(h, "ctx.first"), area_at(0));
	ms_fake_put(&h->fake, muslheap_place(h, "ctx.last"), area_at(h->n_areas - 1));
}

/* Lists, and the numbers of slots. */
static void put_lists(struct muslheap *h)
{
	for (size_t i = 0; i < h->n_groups; i++) {
		const struct muslheap_group *g = &h->groups[i];
		ms_addr usage = muslheap_place(h, "ctx.usage0") + 8u * g->class;
		uint64_t n = 0;

		if (!g->at) {
			queue(h, muslheap_place(h, "ctx.free"), g);
			continue;
		}
		put_descriptor(h, g);
		if (g->avail | g->freed)
			queue(h, muslheap_place(h, "ctx.active0") + 8u * g->class, g);
		if (g->class == NO_CLASS || g->given)
			continue;
		(void)ms_source_word(&h->fake.base, usage, &n);
		ms_fake_put(&h->fake, usage, n + g->n);
	}
}

void muslheap_draw(struct muslheap *h, const char *picture)
{
	struct pen pen = { .h = h, .at = picture, .next = GROUPS, .given = DATA + GIVEN_AT };

	map_all(h);
	for (skip(&pen); *pen.at; skip(&pen)) {
		draw_one(&pen);
		skip(&pen);
		if (*pen.at == ';')
			pen.at++;
	}
	assert(h->n_areas);
	put_areas(h);
	put_context(h);
	put_lists(h);
}

/* ---- breaking ---- */

/* Fields of a thing, by offset; those with a number come 8 bytes apart. */
struct field {
	const char *name;
	ms_addr at;
};

static ms_addr find_field(const struct field *fields, const char *name)
{
	size_t len = strcspn(name, "0123456789");
	uint64_t n = strtoull(name + len, NULL, 10);

	for (; fields->name; fields++)
		if (strlen(fields->name) == len && !strncmp(fields->name, name, len))
			return fields->at + 8 * n;
	refuse(name, "field of that thing");
}

ms_addr muslheap_place(const struct muslheap *h, const char *name)
{
	char thing[16];
	const char *dot = strchr(name, '.');
	const char *field = dot ? dot + 1 : "";
	size_t len = strcspn(name, "0123456789.");
	uint64_t n = strtoull(name + len, NULL, 10);
	const ms_addr ctx = DATA + CONTEXT_AT;
	const ms_addr area = area_at(n);
	const struct muslheap_group *g = &h->groups[n % MUSLHEAP_GROUPS];
	const struct muslheap_slot *s = &h->slots[n % MUSLHEAP_SLOTS];
	const struct field in_context[] = { { "", ctx },
		                            { "secret", ctx },
		                            { "init", ctx + 8 },
		                            { "free", ctx + 16 },
		                            { "unused", ctx + 24 },
		                            { "n_unused", ctx + 32 },
		                            { "first", ctx + 56 },
		                            { "last", ctx + 64 },
		                            { "active", ctx + 80 },
		                            { "usage", ctx + 464 },
		                            { NULL, 0 } };
	const struct field in_area[] = { { "", area },
		                         { "check", area },
		                         { "next", area + 8 },
		                         { "n", area + 16 },
		                         { NULL, 0 } };
	const struct field in_descriptor[] = { { "", g->descriptor },
		                               { "prev", g->descriptor },
		                               { "next", g->descriptor + 8 },
		                               { "mem", g->descriptor + 16 },
		                               { "masks", g->descriptor + 24 },
		                               { "flags", g->descriptor + 32 },
		                               { NULL, 0 } };
	const struct field in_group[] = {
		{ "", g->at }, { "meta", g->at }, { "active", g->at + 8 }, { NULL, 0 }
	};
	const struct field in_slot[] = { { "", s->begin },
		                         { "head", s->at - 8 },
		                         { "tail", s->end - 12 },
		                         { "at", s->at },
		                         { NULL, 0 } };
	const struct {
		const char *name;
		const struct field *fields;
	} things[] = { { "ctx", in_context },
		       { "area", in_area },
		       { "desc", in_descriptor },
		       { "group", in_group },
		       { "slot", in_slot } };

	(void)snprintf(thing, sizeof(thing), "%.*s", (int)len, name);
	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
		if (!strcmp(thing, things[i].name))
			return find_field(things[i].fields, field);
	refuse(name, "place");
}

static uint64_t changed(uint64_t old, const char *operator, uint64_t value)
{
	switch (*operator) {
	case '=':
		return value;
	case '+':
		return old + value;
	case '-':
		return old - value;
	case '|':
		return old | value;
	case '^':
		return old ^ value;
	default:
		refuse(operator, "operator");
	}
}

void muslheap_break(struct muslheap *h, const char *damage)
{
	while (*damage) {
		char name[32];
		char operator[3];
		char text[32];
		uint64_t value;
		uint64_t old = 0;
		int len = 0;
		ms_addr place;

		if (sscanf(damage, " %31s %2s %31[^, ]%n", name, operator, text, &len) != 3)
			refuse(damage, "damage");
		place = muslheap_place(h, name);
		value = strchr("-0123456789", *text) ? strtoull(text, NULL, 0)
		                                     : muslheap_place(h, text);
		(void)ms_source_word(&h->fake.base, place, &old);
		ms_fake_put(&h->fake, place, changed(old, operator, value));
		damage += len;
		damage += strspn(damage, ", ");
	}
}

/* ---- what is told ---- */

enum ms_status muslheap_decode(struct muslheap *h)
{
	static const struct ms_decoder *const decoders[] = { &ms_mallocng_decoder, NULL };

	h->decoding = (struct ms_decoding){ .src = &h->fake.base,
		                            .regions = &h->regions,
		                            .arena = &h->arena,
		                            .decoders = decoders,
		                            .blocks = &h->blocks,
		                            .heaps = &h->found,
		                            .evidence = &h->evidence,
		                            .warnings = &h->warnings };
	return decode_drawn(&h->decoding, &h->regions, &h->err);
}

static char *tell_block(char *to, ms_addr begin, uint64_t size)
{
	return to + sprintf(to, "%llx:%llu ", (unsigned long long)begin, (unsigned long long)size);
}

const char *muslheap_told(struct muslheap *h)
{
	char *text = ms_arena_resize(&h->arena, NULL, (h->blocks.n + 1) * 40);
	const struct ms_extent *e;
	char *to = text;

	assert(text);
	ms_vec_for_each (e, &h->blocks.extents)
		for (uint64_t cell = 0; cell < e->n_cells; cell++)
			for (uint64_t left = h->blocks.cells.at[e->cell0 + cell].starts; left;
			     left &= left - 1) {
				uint64_t granule =
					cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

				to = tell_block(to, ms_block_begin(e, granule),
				                ms_block_size(&h->blocks, e, granule));
			}
	return text;
}

bool muslheap_says(const struct muslheap *h, const char *text)
{
	return notes_say(&h->evidence, text);
}

static bool is_in(const struct ms_ranges *ranges, ms_addr addr)
{
	const struct ms_range *r;

	ms_vec_for_each (r, ranges)
		if (ms_range_has(*r, addr))
			return true;
	return false;
}

bool muslheap_is_unproved(const struct muslheap *h, ms_addr addr)
{
	return is_in(&h->decoding.unproved, addr);
}

bool muslheap_is_owned(const struct muslheap *h, ms_addr addr)
{
	return is_in(&h->decoding.owned, addr);
}

/* What is wrong with how @slot was told, or NULL. */
static const char *wrong_with(const struct muslheap *h, const char *told,
                              const struct muslheap_slot *slot, bool proved)
{
	bool expected = proved && (slot->kind == 'u' || slot->kind == 'm');
	char text[48];

	(void)tell_block(text, slot->at, slot->size ? slot->size : 1);
	if ((strstr(told, text) != NULL) != expected)
		return expected ? "not told" : "told";
	if (!muslheap_is_owned(h, slot->at))
		return "not owned";
	if (muslheap_is_unproved(h, slot->at) == proved && !strchr("pz", slot->kind))
		return proved ? "not proved" : "not handed over";
	return NULL;
}

static bool is_as_drawn(struct muslheap *h, bool proved)
{
	const char *told = muslheap_told(h);
	size_t n = 0;

	for (size_t i = 0; i < h->n_slots; i++) {
		const char *wrong = wrong_with(h, told, &h->slots[i], proved);

		n += proved && strchr("um", h->slots[i].kind);
		if (!wrong)
			continue;
		(void)snprintf(h->wrong, sizeof(h->wrong), "slot%zu (%c) is %s", i,
		               h->slots[i].kind, wrong);
		return false;
	}
	if (h->found.n != 1 || h->found.at[0].verified != proved)
		(void)snprintf(h->wrong, sizeof(h->wrong), "%zu heaps, %sverified: %.150s",
		               h->found.n, proved ? "not " : "",
		               h->evidence.n ? h->evidence.at[h->evidence.n - 1].text : "");
	else if (n != h->blocks.n || h->found.at[0].allocations != n ||
	         h->found.at[0].allocation_bytes != h->blocks.bytes)
		(void)snprintf(h->wrong, sizeof(h->wrong), "more told than drawn: %.200s", told);
	else
		return true;
	return false;
}

const char *muslheap_try(struct muslheap *h, bool proved)
{
	for (int i = 0; i < 2; i++) {
		h->fake.no_view = i;
		h->wrong[0] = '\0';
		if (muslheap_decode(h))
			(void)snprintf(h->wrong, sizeof(h->wrong), "%.200s", h->err.text);
		else if (is_as_drawn(h, proved))
			continue;
		break;
	}
	return h->wrong;
}
