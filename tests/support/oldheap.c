/* SPDX-License-Identifier: Apache-2.0 */
#include "oldheap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "decoded.h"
#include "engine/decode.h"
#include "module.h"

enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	HEADER = 16,
	USED = 1,
	BINS = 64,
	BIN = 24,
	BREAK_BYTES = 1 << 20,
	MAL_AT = 0x340, /* in the library's data */
	GIVEN_AT = 0x1030,
	DATA_BYTES = 2 * PAGE,
};

static const ms_addr BREAK = 0x100000;
static const ms_addr MODULE = 0x7f0000000000;
static const ms_addr DATA = 0x7f0000001000;
static const ms_addr MAPPED = 0x7f1000000000;
static const char NAME[] = "/lib/ld-musl-x86_64.so.1";

struct pen {
	struct oldheap *h;
	const char *at; /* of the picture */
	ms_addr next;   /* chunk, or mapping */
	ms_addr given;
};

static void put(struct pen *pen, ms_addr at, uint64_t word)
{
	ms_fake_put(&pen->h->fake, at, word);
}

static uint64_t get(const struct pen *pen, ms_addr at)
{
	uint64_t word = 0;

	(void)ms_source_word(&pen->h->fake.base, at, &word);
	return word;
}

static struct oldheap_chunk *note(struct pen *pen, char kind, ms_addr at, uint64_t usable)
{
	struct oldheap_chunk *chunk = &pen->h->chunks[pen->h->n_chunks++];

	assert(pen->h->n_chunks <= OLDHEAP_CHUNKS);
	*chunk = (struct oldheap_chunk){ kind, at, usable };
	return chunk;
}

static uint64_t read_number(struct pen *pen)
{
	char *end;
	uint64_t n = strtoull(pen->at, &end, 10);

	pen->at = end;
	return n;
}

static uint64_t chunk_bytes(uint64_t n)
{
	return ms_align_up(n + HEADER, 32);
}

/* Put @chunk into the bin of its size, or one that will do. */
static void put_in_bin(struct pen *pen, ms_addr chunk, uint64_t bytes)
{
	unsigned i = bytes / 32 - 1 < 40 ? (unsigned)(bytes / 32 - 1) : 40;
	ms_addr head = pen->h->mal + 16 + (ms_addr)i * BIN;
	ms_addr self = head - 16;
	ms_addr tail = get(pen, head + 8);

	put(pen, chunk + 16, self);
	put(pen, chunk + 24, tail);
	put(pen, tail + 16, chunk);
	put(pen, head + 8, chunk);
	put(pen, pen->h->mal, get(pen, pen->h->mal) | UINT64_C(1) << i);
}

static void draw_chunk(struct pen *pen, char kind)
{
	uint64_t bytes = chunk_bytes(read_number(pen));
	uint64_t length = bytes | (kind == 'u' ? USED : 0);

	(void)note(pen, kind, pen->next, bytes - HEADER);
	put(pen, pen->next + 8, length);
	if (kind == 'f')
		put_in_bin(pen, pen->next, bytes);
	pen->next += bytes;
	put(pen, pen->next, length);
	put(pen, pen->next + 8, USED);
}

static void begin_segment(struct pen *pen)
{
	pen->next = ms_align_up(pen->next + HEADER, PAGE) + HEADER;
	put(pen, pen->next, USED);
}

static void draw_given(struct pen *pen)
{
	uint64_t bytes = chunk_bytes(read_number(pen));

	(void)note(pen, 'd', pen->given, bytes - HEADER);
	put(pen, pen->given, USED);
	put(pen, pen->given + 8, bytes | USED);
	put(pen, pen->given + bytes, bytes | USED);
	put(pen, pen->given + bytes + 8, USED);
	pen->given += bytes + 32;
}

static void draw_mapped(struct pen *pen)
{
	uint64_t size = read_number(pen);
	uint64_t later = 0;
	uint64_t len;

	if (*pen->at == '+') {
		pen->at++;
		later = read_number(pen);
	}
	len = ms_align_up(size + later + 2 * HEADER, PAGE);
	put(pen, pen->next + HEADER, HEADER);
	put(pen, pen->next + HEADER + 8, len - HEADER);
	put(pen, pen->next + HEADER + later, HEADER + later);
	put(pen, pen->next + HEADER + later + 8, len - HEADER - later);
	(void)note(pen, 'm', pen->next + HEADER + later, len - 2 * HEADER - later);
	pen->next += len;
}

static void draw_one(struct pen *pen)
{
	char kind = *pen->at++;

	switch (kind) {
	case 'u':
	case 'f':
		draw_chunk(pen, kind);
		return;
	case '|':
		begin_segment(pen);
		return;
	case ';':
		pen->next = MAPPED;
		return;
	case 'm':
		draw_mapped(pen);
		return;
	case 'g':
		pen->next += read_number(pen) * PAGE;
		return;
	case '-':
		ms_fake_split(&pen->h->fake, pen->next)->prot = 0;
		(void)ms_fake_split(&pen->h->fake, pen->next + PAGE);
		pen->h->fake.base.mappings.at[pen->h->fake.base.mappings.n - 1].prot = RW;
		pen->next += PAGE;
		return;
	case 'd':
		draw_given(pen);
		return;
	default:
		abort();
	}
}

/* How far the mappings behind the segments go. */
static uint64_t mapped_bytes(const char *picture)
{
	const char *at = strchr(picture, ';');

	return at && strpbrk(at, "mg") ? 16 << 20 : 0;
}

void oldheap_draw(struct oldheap *h, const char *picture)
{
	struct pen pen = { h, picture, BREAK - HEADER, DATA + GIVEN_AT - HEADER + 0x10 };
	char *header;

	memset(h, 0, sizeof(*h));
	ms_fake_init(&h->fake);
	h->fake.hides_zeros = true;
	(void)ms_fake_map(&h->fake, BREAK, BREAK_BYTES, RW, "[heap]");
	header = ms_fake_map(&h->fake, MODULE, PAGE, MS_PROT_READ, NAME);
	*elf_write(header, 1) = elf_load(0, PAGE + DATA_BYTES, PF_R | PF_W);
	(void)ms_fake_map(&h->fake, DATA, DATA_BYTES, RW, NAME);
	if (mapped_bytes(picture))
		(void)ms_fake_map(&h->fake, MAPPED, mapped_bytes(picture), RW, "");
	h->mal = DATA + MAL_AT;
	for (unsigned i = 0; i < BINS; i++) {
		put(&pen, h->mal + 16 + (ms_addr)i * BIN, h->mal + (ms_addr)i * BIN);
		put(&pen, h->mal + 24 + (ms_addr)i * BIN, h->mal + (ms_addr)i * BIN);
	}
	pen.given = ms_align_up(DATA + GIVEN_AT, 32) + HEADER;
	begin_segment(&pen);
	while (*pen.at)
		if (*pen.at == ' ')
			pen.at++;
		else
			draw_one(&pen);
	/* The last mapping ends where the drawing does. */
	if (pen.next > MAPPED)
		ms_fake_split(&h->fake, pen.next)->prot = 0;
}

void oldheap_deinit(struct oldheap *h)
{
	ms_arena_deinit(&h->arena);
	ms_fake_deinit(&h->fake);
}

enum ms_status oldheap_decode(struct oldheap *h)
{
	static const struct ms_decoder *const decoders[] = { &ms_oldmalloc_decoder, NULL };

	h->decoding = (struct ms_decoding){ .src = &h->fake.base,
		                            .regions = &h->regions,
		                            .arena = &h->arena,
		                            .decoders = decoders,
		                            .blocks = &h->blocks,
		                            .heaps = &h->found,
		                            .evidence = &h->evidence };
	return decode_drawn(&h->decoding, &h->regions, &h->err);
}

bool oldheap_is_told(const struct oldheap *h, size_t chunk)
{
	const struct oldheap_chunk *c = &h->chunks[chunk];

	return ms_blocks_usable(&h->blocks, c->at + HEADER) == c->usable;
}
