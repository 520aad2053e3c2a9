/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoder of glibc's malloc: a drawn process (ptheap.h), some of whose
 * words are then written over. What the words become is mostly taken from what is
 * there already, addresses and sizes, because random ones are refused at once.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses the version, the second the picture, the third
 * whether the source can be viewed, whether two threads decode it in the smallest
 * parts there are, and whether it is a process of 32 bits; then come writes of four bytes each:
 *
 *	place   where: a chunk's header or links, or a word of main_arena, …
 *	word    which of its words
 *	how     set, add, flip bits; to a number, an address, a link
 *	value   which
 *
 * It must neither crash nor run on; blocks that are told must be sorted, and inside
 * of memory that is mapped, and no two may overlap; two threads must tell what one
 * does; a process that nothing was written to must be told as it is drawn.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/layout.h"
#include "ptheap.h"
#include "writes.h"

static const char *const versions[] = { "2.26", "2.27", "2.31", "2.33", "2.36", "2.42", "2.43" };

static const char *const pictures[] = {
	"T u24 u100 f64 u40 b100 u24 c24 c24 c40 u500 t",
	"T u24 f64 u24 x100 u40 f24 u24 t m9000 a9000 A70",
	"T u24 f64 u24 c24 | u24 f64 u40 | u24 t m5000",
	"T u24 c40 t m5000 l9000 m20000 l1 ; T u24 f64 c24 u40 | u24 f64 u40 t ; u24 t",
	"o1000 u24 f64 u100 t ; T u24 c24 t",
	"",
};

enum { N_VERSIONS = sizeof(versions) / sizeof(versions[0]) };
enum { N_PICTURES = sizeof(pictures) / sizeof(pictures[0]) };

enum { MAX_WRITES = 32 };

static struct ptheap *h; /* drawn once; what is written to it is taken back */

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

static struct ptheap *drawn(unsigned version, unsigned picture, bool narrow)
{
	static struct ptheap *all[2][N_VERSIONS][N_PICTURES];
	struct ptheap **slot = &all[narrow][version][picture];
	char name[16];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		ptheap_init(*slot);
		(void)snprintf(name, sizeof(name), "%s%s", versions[version], narrow ? "/32" : "");
		ptheap_draw(*slot, name, pictures[picture]);
	}
	return *slot;
}

static void take_back(void)
{
	while (n_written) {
		n_written--;
		ms_fake_put(&h->fake, written[n_written].place, written[n_written].old);
	}
}

/* An address that means something: of a chunk, its bytes, an arena, a heap, a cache. */
static ms_addr address(uint8_t n)
{
	size_t chunks = h->n_chunks ? h->n_chunks : 1;

	switch (n % 8) {
	case 0:
		return h->libcs[0].arena;
	case 1:
		return h->libcs[0].par;
	case 2:
		return h->n_arenas ? h->arenas[n / 8 % h->n_arenas] : h->libcs[0].arena;
	case 3:
		return h->n_heaps ? h->heaps[n / 8 % h->n_heaps] : 0;
	case 4:
		return h->fake.base.threads.n ? h->fake.base.threads.at[0].tp - 0x48 : 0x1000;
	case 5:
		return h->chunks[n / 8 % chunks].addr + 2u * h->fake.base.abi.word_bytes;
	}
	return h->chunks[n / 8 % chunks].addr;
}

static void apply(struct write w)
{
	const uint8_t word = h->fake.base.abi.word_bytes;
	ms_addr place = address(w.place) + (w.place % 8 < 2 ? w.word * word : w.word % 8 * word);
	uint64_t value = w.value < 64 ? number(w.value) : address(w.value);

	if (!ms_source_word(&h->fake.base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	write_word(&h->fake, place, w.how, value, value ^ place >> 12); /* safe-linked */
}

static bool is_mapped(ms_addr begin, uint64_t len)
{
	uint8_t byte;

	return len && ms_source_read(&h->fake.base, begin, &byte, 1) == 1 &&
	       ms_source_read(&h->fake.base, begin + len - 1, &byte, 1) == 1;
}

/* Blocks in order, mapped, without overlap. */
static void check_blocks(void)
{
	const char *told = ptheap_told(h);
	ms_addr end = 0;
	unsigned long long begin;
	unsigned long long usable;
	int len;

	while (sscanf(told, "%llx:%llu %n", &begin, &usable, &len) == 2) {
		require(begin >= end, "blocks do not overlap");
		require(is_mapped(begin, usable), "a block is mapped");
		end = begin + usable;
		told += len;
	}
}

static void check_parts(void)
{
	char *alone = ptheap_account(h, 1, 0);
	char *shared = ptheap_account(h, 2, 1024);

	require(!strcmp(alone, shared), "two threads tell what one does");
	free(alone);
	free(shared);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return -1;
	h = drawn(data[0] % N_VERSIONS, data[1] % N_PICTURES, data[2] & 4);
	for (size_t i = 3; i + 4 <= size && i < 3 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	if (data[2] & 2)
		check_parts();
	h->fake.no_view = data[2] & 1;
	require(ptheap_decode(h) == MS_OK, "the target's memory is never a failure");
	check_blocks();
	if (size < 7)
		require(!*ptheap_try(h, ""), h->wrong);
	ms_arena_deinit(&h->arena);
	take_back();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	/* A chunk's size, a link of a cache, the ring of arenas, a heap's begin, a counter. */
	static const uint8_t writes[][4] = {
		{ 6, 1, 1, 5 }, { 5, 0, 0, 14 }, { 0, 255, 0, 65 }, { 3, 0, 0, 70 }, { 1, 5, 1, 1 }
	};

	for (uint8_t version = 0; version < N_VERSIONS; version++)
		for (uint8_t picture = 0; picture < N_PICTURES; picture++) {
			uint8_t seed[7] = { version, picture, (version + picture) % 8 };

			memcpy(seed + 3, writes[(version + picture) % 5], 4);
			take(seed, picture % 2 ? 3 : sizeof(seed));
		}
}
