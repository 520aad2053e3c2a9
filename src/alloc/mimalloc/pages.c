/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/mimalloc/mimalloc.h"
#include "base/search.h"

/*
 * One page. It counts as used what was given out and did not come back to its own thread:
 * blocks on the list of those freed by other threads are among them, and those that wait
 * in a heap. So there must be
 *
 *	capacity = used + blocks on free + blocks on local_free
 *
 * and no block may be on two lists, or twice on one.
 */

enum { SMALL = 4096 };

/* Of what stands behind a block, which later versions have 0. */
static const uint32_t CANARY_BYTE = 0xff;

bool ms_mi_fill_page(const struct ms_mi_layout *layout, ms_addr at, const uint8_t *bytes,
                     struct ms_mi_page *ret)
{
	const struct ms_mi_page_layout *l = &layout->page;

	*ret = (struct ms_mi_page){
		.at = at,
		.block_bytes = ms_mi_field(bytes, l->block_size),
		.used = ms_mi_field(bytes, l->used),
		.capacity = (uint32_t)ms_mi_field(bytes, l->capacity),
		.reserved = (uint32_t)ms_mi_field(bytes, l->reserved),
		.free = ms_mi_word_of(bytes, l->free),
		.local_free = ms_mi_word_of(bytes, l->local_free),
		.thread_free = ms_mi_word_of(bytes, l->thread_free) & ~(uint64_t)l->flags,
		.heap = ms_mi_word_of(bytes, l->heap),
		.links = { ms_mi_word_of(bytes, l->next),
		           ms_mi_word_of(bytes, (uint16_t)(l->next + MS_MI_WORD)) },
	};
	if (l->start)
		ret->start = ms_mi_word_of(bytes, l->start);
	if (l->offset.bytes)
		ret->start = at + ms_mi_field(bytes, l->offset) * l->offset_unit;
	for (uint16_t i = 0; l->keys && i < 2; i++)
		ret->keys[i] = ms_mi_word_of(bytes, (uint16_t)(l->keys + i * MS_MI_WORD));
	return ret->block_bytes > l->padding && ret->block_bytes % MS_MI_WORD == 0 &&
	       ret->capacity <= ret->reserved;
}

/* A page that is being looked at. */
struct proof {
	struct ms_mimalloc *mi;
	struct ms_mi_copy *copy;
	const struct ms_mi_page *page;
	const uint8_t *bytes; /* of its blocks; NULL: read one by one */
	const char *wrong;
};

static bool is_taken(const struct proof *p, uint64_t block)
{
	return p->mi->taken[block / 64] >> block % 64 & 1;
}

/* The number of the block that begins at @addr, or the page's capacity. */
static uint64_t number_of(const struct ms_mi_page *page, ms_addr addr)
{
	uint64_t offset = addr - page->start;

	if (addr < page->start || offset % page->block_bytes ||
	    offset / page->block_bytes >= page->capacity)
		return page->capacity;
	return offset / page->block_bytes;
}

/* Whether @addr is a block's, or none at all. */
static bool may_be_link(const struct ms_mi_page *page, ms_addr addr)
{
	return !addr || number_of(page, addr) < page->capacity;
}

uint64_t ms_mi_misfits(const struct ms_mimalloc *mi, const struct ms_mi_copy *copy)
{
	const struct ms_mi_page *page;
	uint64_t n = 0;

	ms_vec_for_each (page, &copy->pages) {
		ms_addr head = page->free ? page->free : page->local_free;
		uint64_t link = head ? ms_mi_word(mi, head) : 0;

		if (head && copy->layout->page.keys)
			link = ms_mi_decode(link, page->keys, page->at);
		n += !may_be_link(page, head) || !may_be_link(page, link);
	}
	return n;
}

static bool take(struct proof *p, ms_addr addr)
{
	uint64_t block = number_of(p->page, addr);

	if (block == p->page->capacity || is_taken(p, block))
		return false;
	p->mi->taken[block / 64] |= UINT64_C(1) << block % 64;
	return true;
}

/* What stands at the begin of the block at @addr. */
static bool link_at(const struct proof *p, ms_addr addr, uint64_t *ret)
{
	if (!p->bytes)
		return ms_mi_read(p->mi, addr, ret, sizeof(*ret)) == sizeof(*ret);
	memcpy(ret, p->bytes + (addr - p->page->start), sizeof(*ret));
	return true;
}

/* Take the blocks on the list from @head on; none is taken twice, so it ends. */
static uint64_t take_list(struct proof *p, ms_addr head, const char *name)
{
	const struct ms_mi_page *page = p->page;
	uint64_t n = 0;
	uint64_t link;

	for (ms_addr at = head; at && !p->wrong; n++) {
		if (!take(p, at) || !link_at(p, at, &link))
			p->wrong = name;
		else
			at = p->copy->layout->page.keys ? ms_mi_decode(link, page->keys, page->at)
			                                : link;
	}
	return n;
}

/* Take the blocks that wait in heaps. */
static uint64_t take_delayed(struct proof *p)
{
	const ms_addr *delayed = p->copy->delayed.at;
	const size_t end = p->copy->delayed.n;
	size_t i = ms_lower_bound(0, end, at, delayed[at] < p->page->area.begin);
	uint64_t n = 0;

	for (; i < end && delayed[i] < p->page->area.end; i++, n++)
		if (!take(p, delayed[i]))
			p->wrong = "a block that waits in a heap is none of its own";
	return n;
}

/* Small blocks are read together. */
static void open_bytes(struct proof *p)
{
	const struct ms_mi_page *page = p->page;
	uint64_t bytes = page->capacity * page->block_bytes;

	p->bytes = NULL;
	if (page->block_bytes >= SMALL || bytes > MS_MI_BUFFER ||
	    !(page->free || page->local_free || page->thread_free))
		return;
	p->bytes = ms_source_view(p->mi->d->src, page->start, (size_t)bytes);
	if (!p->bytes &&
	    ms_source_read(p->mi->d->src, page->start, p->mi->buffer, (size_t)bytes) == bytes)
		p->bytes = p->mi->buffer;
}

/* Take what is free; fills p->wrong where the page contradicts itself. */
static void prove(struct proof *p)
{
	const struct ms_mi_page *page = p->page;
	uint64_t idle;
	uint64_t others;
	uint64_t delayed;

	memset(p->mi->taken, 0, (page->capacity / 64 + 1) * sizeof(*p->mi->taken));
	open_bytes(p);
	idle = take_list(p, page->free, "its free list leads astray");
	idle += take_list(p, page->local_free, "its list of blocks freed here leads astray");
	others = take_list(p, page->thread_free, "its list of blocks freed elsewhere leads astray");
	delayed = take_delayed(p);
	if (p->wrong)
		return;
	if (idle + page->used != page->capacity)
		p->wrong = "its lists are not what it counts";
	if (p->wrong)
		return;
	p->copy->n_delayed += delayed;
	p->copy->idle.n += idle + others + delayed;
	p->copy->idle.bytes += (idle + others + delayed) * page->block_bytes;
}

/*
 * The bytes of the block at @addr that are the program's. Padding shows itself by what the keys
 * make of the block's address, and says how many bytes in front of it were not asked for; a build
 * may be without.
 */
static uint64_t usable_at(const struct proof *p, ms_addr addr)
{
	const struct ms_mi_page *page = p->page;
	const uint8_t padding = p->copy->layout->page.padding;
	uint32_t words[2];

	if (!padding ||
	    ms_mi_read(p->mi, addr + page->block_bytes - padding, words, sizeof(words)) !=
	            sizeof(words) ||
	    ((words[0] ^ (uint32_t)ms_mi_encode(addr, page->keys)) & ~CANARY_BYTE) ||
	    words[1] >= page->block_bytes - padding)
		return page->block_bytes;
	return page->block_bytes - padding - words[1];
}

static enum ms_status put(struct proof *p)
{
	const struct ms_mi_page *page = p->page;
	struct ms_range blocks = { page->start, page->start + page->capacity * page->block_bytes };
	struct ms_blocks *to = p->mi->d->blocks;
	uint32_t extent;
	enum ms_status st =
		ms_blocks_open(to, blocks, (uint8_t)__builtin_ctzll(page->block_bytes), &extent);

	for (uint64_t i = 0; i < page->capacity && !st; i++) {
		const ms_addr addr = page->start + i * page->block_bytes;
		uint64_t usable;

		if (is_taken(p, i))
			continue;
		usable = usable_at(p, addr);
		st = ms_blocks_put(to, extent, addr, usable);
		p->copy->live.n++;
		p->copy->live.bytes += usable;
	}
	if (!st)
		to->extents.at[extent].group = p->copy->group;
	return st;
}

static enum ms_status read_page(struct proof *p)
{
	const struct ms_mi_page *page = p->page;

	p->wrong = NULL;
	prove(p);
	if (!p->wrong)
		return page->capacity ? put(p) : MS_OK;
	ms_proof_doubt(&p->copy->proof, MS_DOUBT_DAMAGED, "page 0x%llx: %s",
	               (unsigned long long)page->at, p->wrong);
	return MS_OK;
}

enum ms_status ms_mi_read_pages(struct ms_mimalloc *mi, struct ms_mi_copy *copy)
{
	struct proof p = { .mi = mi, .copy = copy };
	enum ms_status st = MS_OK;
	uint64_t delayed = copy->n_delayed;

	for (size_t i = 0; i < copy->pages.n && !st; i++) {
		p.page = &copy->pages.at[i];
		st = read_page(&p);
		copy->pages.at[i].proved = !p.wrong;
	}
	delayed = copy->n_delayed - delayed;
	/* One of no page may have been taken off since, or be anything. */
	if (delayed != copy->delayed.n && !copy->proof.n) {
		copy->dropped = true;
		ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
		               "%llu blocks wait in heaps, %llu of its pages",
		               (unsigned long long)copy->delayed.n, (unsigned long long)delayed);
	}
	return st;
}
