/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <assert.h>
#include <string.h>

#include "base/page.h"
#include "target/arch/arch.h"

const struct ms_abi ms_fake_abi_x86_64 = { .page_bytes = MS_PAGE_BYTES,
	                                   .red_zone_bytes = 128,
	                                   .word_bytes = 8,
	                                   .signal_frame = { .words = 25,
	                                                     .flags = 1,
	                                                     .most_flags = 7,
	                                                     .link = 2,
	                                                     .stack = 3,
	                                                     .stack_size = 5,
	                                                     .sp = 21,
	                                                     .mark = 24,
	                                                     .mark_mask = 0xffff,
	                                                     .mark_value = 0x33,
	                                                     .least_stack = 2048 } };

static struct ms_fake *fake_of(struct ms_source *src)
{
	return (struct ms_fake *)src; /* base is its first member */
}

/* The index of the mapping that has @addr, or -1. */
static int index_at(const struct ms_fake *fake, ms_addr addr)
{
	for (size_t i = 0; i < fake->base.mappings.n; i++)
		if (ms_range_has(fake->base.mappings.at[i].range, addr))
			return (int)i;
	return -1;
}

static size_t fake_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	struct ms_fake *fake = fake_of(src);
	size_t done = 0;

	fake->reads++;
	while (done < len) {
		int i = index_at(fake, addr + done);
		struct ms_range range;
		size_t n;

		if (i < 0)
			break;
		range = src->mappings.at[i].range;
		n = (size_t)(range.end - (addr + done));
		n = n < len - done ? n : len - done;
		memcpy((char *)buf + done, fake->bytes[i] + (addr + done - range.begin), n);
		done += n;
	}
	return done;
}

static const void *fake_view(struct ms_source *src, ms_addr addr, size_t len)
{
	struct ms_fake *fake = fake_of(src);
	int i = index_at(fake, addr);

	if (i < 0 || fake->no_view || src->mappings.at[i].range.end - addr < len)
		return NULL;
	return fake->bytes[i] + (addr - src->mappings.at[i].range.begin);
}

enum { PAGE = 4096, UNKNOWN = 0, ZEROS, FILLED };

/*
 * Whether page @page of mapping @i has anything but zeros; read once, until it is written to.
 * The last one counts as such: whatever reads behind it shall be seen.
 */
static bool is_filled(const struct ms_fake *fake, size_t i, size_t page)
{
	size_t left = (size_t)ms_range_len(fake->base.mappings.at[i].range) - page * PAGE;
	unsigned char *known = &fake->pages[i][page];

	if (*known == UNKNOWN)
		*known = left > PAGE && ms_is_zero(fake->bytes[i] + page * PAGE, PAGE) ? ZEROS
		                                                                       : FILLED;
	return *known == FILLED;
}

/* The first page with anything in it of @common, which is in mapping @i. */
static bool filled_page(const struct ms_fake *fake, size_t i, struct ms_range common,
                        struct ms_range *ret)
{
	ms_addr begin = fake->base.mappings.at[i].range.begin;

	for (size_t page = (size_t)(common.begin - begin) / PAGE; begin + page * PAGE < common.end;
	     page++) {
		struct ms_range all = { begin + page * PAGE, begin + (page + 1) * PAGE };

		if (!is_filled(fake, i, page))
			continue;
		*ret = ms_range_common(all, common);
		return true;
	}
	return false;
}

static bool fake_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	for (size_t i = 0; i < src->mappings.n; i++) {
		struct ms_range common = ms_range_common(src->mappings.at[i].range, within);

		if (common.end == common.begin || fake_of(src)->absent[i])
			continue;
		if (fake_of(src)->hides_zeros) {
			if (filled_page(fake_of(src), i, common, ret))
				return true;
			continue;
		}
		*ret = common;
		return true;
	}
	return false;
}

static void fake_close(struct ms_source *src)
{
	(void)src;
}

static bool fake_is_whole(struct ms_source *src)
{
	return !fake_of(src)->taken_away;
}

static const struct ms_source_ops fake_ops = {
	.name = "fake",
	.read = fake_read,
	.view = fake_view,
	.present = fake_present,
	.is_whole = fake_is_whole,
	.close = fake_close,
};

void ms_fake_init(struct ms_fake *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->base.ops = &fake_ops;
	fake->base.abi = ms_native_arch.abi;
}

void ms_fake_deinit(struct ms_fake *fake)
{
	ms_arena_deinit(&fake->arena);
}

/* A number for the file of that name, the same for each of its mappings; 0 for none. */
static uint64_t inode_of(const struct ms_fake *fake, const char *name, uint64_t *ret_offset)
{
	const struct ms_mapping *m;

	*ret_offset = 0;
	if (name[0] != '/')
		return 0;
	ms_vec_for_each (m, &fake->base.mappings) {
		if (strcmp(m->name, name) != 0)
			continue;
		*ret_offset = m->offset + ms_range_len(m->range);
		return m->inode;
	}
	return fake->base.mappings.n + 1;
}

void *ms_fake_map(struct ms_fake *fake, ms_addr addr, size_t len, int prot, const char *name)
{
	size_t i = fake->base.mappings.n;
	struct ms_mapping m = { .range = { addr, addr + len }, .prot = (uint8_t)prot };
	struct ms_mapping *slot;

	assert(i < MS_FAKE_MAPS && (!i || fake->base.mappings.at[i - 1].range.end <= addr));
	m.inode = inode_of(fake, name, &m.offset);
	m.file = m.inode != 0;
	m.name = ms_arena_strndup(&fake->arena, name, 100);
	slot = ms_vec_push(&fake->arena, &fake->base.mappings);
	fake->bytes[i] = ms_arena_alloc(&fake->arena, len);
	fake->pages[i] = ms_arena_alloc(&fake->arena, len / PAGE + 2);
	assert(slot && m.name && fake->bytes[i] && fake->pages[i]);
	*slot = m;
	return fake->bytes[i];
}

struct ms_mapping *ms_fake_split(struct ms_fake *fake, ms_addr addr)
{
	struct ms_mapping *slot = ms_vec_push(&fake->arena, &fake->base.mappings);
	struct ms_mapping *at = fake->base.mappings.at;
	int i = index_at(fake, addr);

	assert(i >= 0 && at[i].range.begin < addr && slot && slot - at < MS_FAKE_MAPS);
	for (ptrdiff_t k = slot - at; k > i; k--) {
		at[k] = at[k - 1];
		fake->bytes[k] = fake->bytes[k - 1];
		fake->pages[k] = fake->pages[k - 1];
		fake->absent[k] = fake->absent[k - 1];
	}
	fake->bytes[i + 1] += addr - at[i].range.begin;
	if (fake->pages[i + 1])
		fake->pages[i + 1] += (addr - at[i].range.begin) / PAGE;
	at[i].range.end = at[i + 1].range.begin = addr;
	return &at[i + 1];
}

void *ms_fake_at(struct ms_fake *fake, ms_addr addr)
{
	int i = index_at(fake, addr);
	size_t offset;

	assert(i >= 0);
	offset = (size_t)(addr - fake->base.mappings.at[i].range.begin);
	if (fake->pages[i])
		memset(&fake->pages[i][offset / PAGE], UNKNOWN, 2);
	return fake->bytes[i] + offset;
}

void ms_fake_put(struct ms_fake *fake, ms_addr addr, uint64_t value)
{
	const struct ms_abi *abi = &fake->base.abi;
	unsigned char *at = ms_fake_at(fake, addr);

	for (unsigned i = 0; i < abi->word_bytes; i++, value >>= 8)
		at[abi->big_endian ? abi->word_bytes - 1 - i : i] = (unsigned char)value;
}

struct ms_thread *ms_fake_thread(struct ms_fake *fake, int tid, ms_addr sp, ms_addr tp)
{
	struct ms_thread *t = ms_vec_push(&fake->arena, &fake->base.threads);

	assert(t);
	*t = (struct ms_thread){ .tid = tid, .stopped = true, .sp = sp, .tp = tp };
	return t;
}
