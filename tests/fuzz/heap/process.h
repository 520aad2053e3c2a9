/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_PROCESS_H
#define MS_TESTS_FUZZ_PROCESS_H

/*
 * A whole process to be scanned: glibc's heaps (ptheap.h), malloc_debug's registry of their
 * blocks (regdrawn.h), and behind them a program's globals, memory that nothing points to,
 * and the main thread's stack.
 *
 * It is drawn once, what is written to it is taken back after each run: to draw it takes
 * longer than to scan it.
 */

#include "base/page.h"
#include "fuzz.h"
#include "module.h"
#include "ptheap.h"
#include "regdrawn.h"

#define PROGRAM UINT64_C(0x700000000000) /* its headers; globals are the page behind */
#define MEMORY  UINT64_C(0x700000100000)
#define STACK   UINT64_C(0x7ffff0000000)

enum { PAGE = 4096, SP_AT = PAGE / 2, MOST_WRITTEN = 512, HELD_WORDS = 4 };

static const ms_addr GLOBALS = PROGRAM + PAGE;
static const ms_addr FRAMES = STACK + SP_AT;

struct process {
	struct ptheap heap;
	struct regdrawn registry;
	struct ms_fake all; /* the mappings of both, and of the program */
	uint64_t registers[HELD_WORDS];
	uint64_t kernel_words[HELD_WORDS];
	struct {
		ms_addr place;
		uint64_t old;
	} written[MOST_WRITTEN];
	size_t n_written;
	size_t n_drawn; /* of these, before the input's */
};

static inline void draw_program(struct ms_fake *fake)
{
	enum { RW = MS_PROT_READ | MS_PROT_WRITE };
	Elf64_Phdr *phdr = elf_write(ms_fake_map(fake, PROGRAM, PAGE, MS_PROT_READ, "/bin/p"), 2);

	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, PAGE, PF_R | PF_W);
	(void)ms_fake_map(fake, GLOBALS, PAGE, RW, "/bin/p");
	(void)ms_fake_map(fake, MEMORY, PAGE, RW, "");
	(void)ms_fake_map(fake, STACK, PAGE, RW, "[stack]");
}

static inline bool is_used(const struct ptheap_chunk *chunk)
{
	return strchr("umaA", chunk->kind);
}

/* The block of a chunk. */
static inline ms_addr block_of(const struct ptheap_chunk *chunk)
{
	return chunk->addr + 16;
}

/* What malloc_debug knows of the heap's blocks: all of them, by three stacks. */
static inline void draw_registry(struct process *p)
{
	uint32_t stacks[3];

	regdrawn_init(&p->registry);
	for (uint32_t i = 0; i < 3; i++)
		stacks[i] = regdrawn_stack(&p->registry, GLOBALS + 16 * i, 1 + i);
	for (size_t i = 0; i < p->heap.n_chunks; i++)
		if (is_used(&p->heap.chunks[i]))
			(void)regdrawn_enter(&p->registry, block_of(&p->heap.chunks[i]),
			                     p->heap.chunks[i].usable - i % 8, stacks[i % 3]);
}

static inline void add_mappings(struct ms_fake *to, const struct ms_fake *from)
{
	for (size_t i = 0; i < from->base.mappings.n; i++) {
		size_t n = to->base.mappings.n;
		struct ms_mapping *slot = ms_vec_push(&to->arena, &to->base.mappings);

		require(slot && n < MS_FAKE_MAPS, "mappings fit");
		*slot = from->base.mappings.at[i];
		to->bytes[n] = from->bytes[i];
	}
}

/* Hide what nobody drew at a long mapping's end, as pages that were never touched. */
static inline void hide_untouched(struct ms_fake *fake)
{
	enum { LONG = 1 << 16 };

	for (size_t i = 0; i < fake->base.mappings.n; i++) {
		struct ms_range range = fake->base.mappings.at[i].range;
		uint64_t len = ms_range_len(range);
		const unsigned char *bytes = fake->bytes[i];

		while (len > LONG && ms_is_zero(bytes + len - PAGE, PAGE))
			len -= PAGE;
		if (len < LONG || len == ms_range_len(range))
			continue;
		(void)ms_fake_split(fake, range.begin + len);
		fake->absent[i + 1] = true;
	}
}

/* @other: the picture of a second C library; NULL: there is none. */
static inline struct process *new_process(const char *version, const char *picture,
                                          const char *other, bool registry)
{
	struct process *p = calloc(1, sizeof(*p));
	struct ptheap *h = &p->heap;

	require(p, "there is memory");
	ptheap_init(h);
	ptheap_draw(h, version, picture);
	if (other)
		ptheap_draw(h, version, other);
	draw_program(&h->fake);
	if (!h->fake.base.threads.n)
		(void)ms_fake_thread(&h->fake, 1, FRAMES, 0);
	h->fake.base.threads.at[0].sp = FRAMES;
	h->fake.base.threads.at[0].words = p->registers;
	h->fake.base.threads.at[0].n_words = HELD_WORDS;
	ms_fake_init(&p->all);
	if (registry) {
		draw_registry(p);
		add_mappings(&p->all, &p->registry.fake);
	}
	add_mappings(&p->all, &h->fake);
	hide_untouched(&p->all);
	p->all.base.threads = h->fake.base.threads;
	p->all.base.kernel_words = (struct ms_words){ .at = p->kernel_words, .n = HELD_WORDS };
	return p;
}

/* Store a word that may stand at any address, if all of it is in one page that was touched. */
static inline void put_word(struct process *p, ms_addr place, uint64_t value)
{
	const struct ms_mappings *maps = &p->all.base.mappings;
	const struct ms_mapping *m = ms_range_find(maps, place);
	size_t n = p->n_written;
	uint64_t old;

	if (!m || p->all.absent[m - maps->at] || place % PAGE > PAGE - sizeof(old) ||
	    n == MOST_WRITTEN || !ms_source_word(&p->all.base, place, &old))
		return;
	p->written[n].place = place;
	p->written[n].old = old;
	p->n_written++;
	ms_fake_put(&p->all, place, value);
}

static inline void take_back(struct process *p)
{
	for (; p->n_written; p->n_written--)
		ms_fake_put(&p->all, p->written[p->n_written - 1].place,
		            p->written[p->n_written - 1].old);
	memset(p->registers, 0, sizeof(p->registers));
	memset(p->kernel_words, 0, sizeof(p->kernel_words));
}

#endif
