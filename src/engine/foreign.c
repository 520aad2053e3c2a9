/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/foreign.h"

#include <stdio.h>
#include <string.h>

#include "engine/decode.h"
#include "engine/mapping.h"

/*
 * Where malloc is another allocator's, the decoded one holds next to nothing when it was
 * never called, or when it has less than 64 KiB and the rest is 16 times as much. What is
 * in front of a decoded one, too early to have called it, has no such memory.
 *
 * Where malloc is the decoded one's, much memory besides is normal (a virtual machine, a
 * cache): that is said only when the heap is next to nothing against it. Without a leak such a
 * report does not say that all is well, if malloc was never called, or if nothing leads to that
 * memory any more.
 */

static const uint64_t NEXT_TO_NOTHING = UINT64_C(64) << 10;
static const uint64_t LITTLE = UINT64_C(256) << 10;
static const uint64_t MUCH = UINT64_C(16) << 20;

enum { TIMES_REFUSED = 16, TIMES_WARNED = 8 };

/* Bytes of @extent that were written to, if it is private memory of no file. */
static uint64_t count_in(const struct ms_decoding *d, const struct ms_extent *extent)
{
	const struct ms_mapping *m = &d->src->mappings.at[extent->mapping];
	struct ms_range rest = extent->range;
	struct ms_range run;
	uint64_t bytes = 0;

	if (extent->kind != MS_EXTENT_MAPPING || m->file || m->shared || !(m->prot & MS_PROT_WRITE))
		return 0;
	while (ms_source_present(d->src, rest, &run)) {
		bytes += ms_range_len(run);
		rest.begin = run.end;
	}
	return bytes;
}

static uint64_t count_foreign(const struct ms_decoding *d)
{
	const struct ms_extent *extent;
	uint64_t bytes = 0;

	ms_vec_for_each (extent, &d->blocks->extents)
		bytes += count_in(d, extent);
	return bytes;
}

static uint64_t count_lost(const struct ms_decoding *d, const struct ms_lost_mappings *lost)
{
	const struct ms_lost_mapping *mapping;
	uint64_t bytes = 0;

	ms_vec_for_each (mapping, lost) {
		const struct ms_extent *extent =
			ms_range_find(&d->blocks->extents, mapping->range.begin);

		if (extent)
			bytes += count_in(d, extent);
	}
	return bytes;
}

/* Move the warning that was added last to the front. */
static void move_to_front(struct ms_notes *warnings, size_t before)
{
	struct ms_note last;

	if (warnings->n == before)
		return;
	last = warnings->at[before];
	for (size_t i = before; i > 0; i--)
		warnings->at[i] = warnings->at[i - 1];
	warnings->at[0] = last;
}

/* In front of the decoded allocator, as far as can be told, and not called so far. */
static bool is_idle(const struct ms_decoding *d, uint64_t foreign)
{
	return d->unused && d->rival.may_pass_on && foreign < LITTLE;
}

static bool is_next_to_nothing(const struct ms_decoding *d, uint64_t decoded, uint64_t foreign)
{
	return d->unused || (d->rival.serves && decoded < NEXT_TO_NOTHING && foreign >= LITTLE &&
	                     foreign / TIMES_REFUSED >= decoded);
}

/* "glibc", "glibc and jemalloc": the allocators that were decoded. Returns @ret. */
static const char *name_decoded(const struct ms_decoding *d, char ret[MS_NAME_TEXT])
{
	const struct ms_heap *heap;
	size_t at = 0;

	ret[0] = '\0';
	ms_vec_for_each (heap, d->heaps) {
		bool again = false;

		for (const struct ms_heap *other = d->heaps->at; other < heap; other++)
			again |= !strcmp(other->allocator, heap->allocator);
		if (!again && at + sizeof(" and ") + sizeof(heap->allocator) <= MS_NAME_TEXT)
			at += (size_t)snprintf(ret + at, MS_NAME_TEXT - at, "%s%s",
			                       at ? " and " : "", heap->allocator);
	}
	return ret;
}

static enum ms_status refuse(const struct ms_decoding *d, uint64_t decoded, struct ms_error *err)
{
	char reads[MS_READS_TEXT];
	char heaps[MS_NAME_TEXT];
	char name[MS_RIVAL_NAME];

	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "%s%s, which memscan does not read; %s's malloc has %llu bytes",
	              d->rival.serves ? "the process allocates with " : "the process has ",
	              ms_rival_name(&d->rival, name), name_decoded(d, heaps),
	              (unsigned long long)decoded);
	ms_advise(err,
	          "memscan reads the heap of %s in the versions that README lists; blocks of that "
	          "allocator are not seen, use its own profiler",
	          ms_decoders_read(d->decoders, reads));
	return MS_E_UNSUPPORTED;
}

/* Whether the only thread is in the program's interpreter, which has its libraries to load. */
static bool is_in_interpreter(const struct ms_source *src)
{
	const struct ms_mapping *mapping;

	ms_vec_for_each (mapping, &src->mappings)
		if (src->threads.n == 1 && ms_range_has(mapping->range, src->threads.at[0].pc))
			return ms_is_interpreter(mapping);
	return false;
}

#define WARN(d, ...) ms_note_add((d)->arena, (d)->warnings, __VA_ARGS__)

/* Say which memory is not decoded, if any is. */
static void warn(const struct ms_decoding *d, uint64_t decoded, uint64_t foreign)
{
	unsigned long long kib = foreign >> 10;
	char heaps[MS_NAME_TEXT];
	char name[MS_RIVAL_NAME];

	(void)name_decoded(d, heaps);
	(void)ms_rival_name(&d->rival, name);
	if (d->rival.serves && !is_idle(d, foreign))
		WARN(d,
		     "the process allocates with %s, which memscan does not read: its blocks are not "
		     "seen, nor leaks among them (%llu KiB are outside of the heap of %s)",
		     name, kib, heaps);
	else if (d->rival.name[0] && !d->rival.serves)
		WARN(d,
		     "there is %s, and no heap of it that memscan reads: if it has blocks, these are "
		     "not seen, nor leaks among them (%llu KiB are outside of the heap of %s)",
		     name, kib, heaps);
	else if (d->unused && is_in_interpreter(d->src))
		WARN(d, "the process loads its program, and has not called malloc yet");
	else if (d->unused)
		WARN(d,
		     "%s's malloc was never called; if the program brings an allocator of its own, "
		     "its blocks are not seen (%llu KiB are outside of the heap of %s)",
		     heaps, kib, heaps);
	else if (foreign >= MUCH && foreign / TIMES_WARNED >= decoded)
		WARN(d,
		     "%llu MiB of memory are not a heap that memscan reads: if another allocator has "
		     "blocks there, they are not seen",
		     (unsigned long long)foreign >> 20);
}

static uint64_t count_decoded(const struct ms_decoding *d, const struct ms_totals *totals)
{
	uint64_t decoded = totals->allocation_bytes;
	const struct ms_range *r;

	ms_vec_for_each (r, &d->unproved)
		decoded += ms_range_len(*r);
	return decoded;
}

enum ms_status ms_foreign_check(const struct ms_decoding *d, struct ms_totals *totals,
                                struct ms_error *err)
{
	uint64_t decoded = count_decoded(d, totals);
	uint64_t foreign = count_foreign(d) + d->rival.bytes;
	size_t before = d->warnings->n;

	if (d->rival.name[0] && !is_idle(d, foreign) && is_next_to_nothing(d, decoded, foreign))
		return refuse(d, decoded, err);
	if (d->unused && foreign >= MUCH)
		totals->unread_bytes = foreign;
	warn(d, decoded, foreign);
	move_to_front(d->warnings, before);
	return MS_OK;
}

void ms_foreign_check_lost(const struct ms_decoding *d, const struct ms_lost_mappings *lost,
                           struct ms_totals *totals)
{
	uint64_t bytes = count_lost(d, lost);

	if (!totals->unread_bytes && bytes >= MUCH &&
	    bytes / TIMES_WARNED >= count_decoded(d, totals))
		totals->unread_bytes = bytes;
}
