/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/elf/class.h"
#include "base/page.h"
#include "target/arch/arch.h"
#include "target/dump/dump.h"

enum { PIECE_BYTES = 1 << 20 };

static const uint64_t MOST_NARROW = UINT32_MAX; /* offsets in a core of 32 bits */

/* A core of more than 65,534 segments says their number in a section header, its only one. */
struct head {
	Elf64_Ehdr elf;
	Elf64_Shdr count;
};

struct narrow_head {
	Elf32_Ehdr elf;
	Elf32_Shdr count;
};

struct writing {
	const struct ms_dump_call *call;
	struct ms_dump_done *done;
	struct ms_dump_segments segments;
	struct ms_dump_bytes notes;
	uint64_t at;     /* how much of the core has been written */
	uint8_t *buffer; /* of PIECE_BYTES */
	bool ok;         /* false: the sink refused */
};

static uint64_t page_of(const struct writing *w)
{
	return w->call->src->abi.page_bytes;
}

/* ---- places ---- */

static size_t head_bytes(const struct writing *w)
{
	return ms_dump_is_narrow(w->call) ? sizeof(struct narrow_head) : sizeof(struct head);
}

static uint64_t headers_bytes(const struct writing *w)
{
	return head_bytes(w) +
	       (w->segments.n + 1) * ms_elf_segment_bytes(w->call->src->abi.word_bytes);
}

/* Returns the length of the core. */
static uint64_t place_all(struct writing *w)
{
	uint64_t at = ms_align_up(headers_bytes(w) + w->notes.n, page_of(w));
	uint64_t total = 0;
	struct ms_dump_segment *segment;

	ms_vec_for_each (segment, &w->segments) {
		segment->offset = at;
		at += segment->bytes;
		total += segment->bytes;
	}
	w->done->total = total;
	return at;
}

/* ---- bytes ---- */

static void put(struct writing *w, const void *bytes, size_t len)
{
	w->ok = w->ok && w->call->sink->put(w->call->sink->ctx, bytes, len);
	w->at += len;
}

static void skip(struct writing *w, uint64_t len)
{
	w->ok = w->ok && w->call->sink->skip(w->call->sink->ctx, len);
	w->at += len;
}

static void put_head(struct writing *w)
{
	const bool many = w->segments.n + 1 >= PN_XNUM;
	const uint32_t n = (uint32_t)w->segments.n + 1;
	const struct head head = {
		.elf = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
		                      EV_CURRENT },
		         .e_type = ET_CORE,
		         .e_machine = w->call->frozen->arch->elf_machine,
		         .e_version = EV_CURRENT,
		         .e_phoff = sizeof(head),
		         .e_shoff = many ? offsetof(struct head, count) : 0,
		         .e_ehsize = sizeof(Elf64_Ehdr),
		         .e_phentsize = sizeof(Elf64_Phdr),
		         .e_phnum = many ? PN_XNUM : (uint16_t)n,
		         .e_shentsize = many ? sizeof(Elf64_Shdr) : 0,
		         .e_shnum = many },
		.count = { .sh_size = 1, .sh_info = n },
	};
	struct narrow_head narrow = {
		.elf = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB,
		                      EV_CURRENT },
		         .e_type = ET_CORE,
		         .e_machine = head.elf.e_machine,
		         .e_version = EV_CURRENT,
		         .e_phoff = sizeof(narrow),
		         .e_shoff = many ? offsetof(struct narrow_head, count) : 0,
		         .e_ehsize = sizeof(Elf32_Ehdr),
		         .e_phentsize = sizeof(Elf32_Phdr),
		         .e_phnum = head.elf.e_phnum,
		         .e_shentsize = many ? sizeof(Elf32_Shdr) : 0,
		         .e_shnum = many },
		.count = { .sh_size = 1, .sh_info = n },
	};

	if (ms_dump_is_narrow(w->call))
		put(w, &narrow, sizeof(narrow));
	else
		put(w, &head, sizeof(head));
}

static void put_header(struct writing *w, const Elf64_Phdr *phdr)
{
	const Elf32_Phdr narrow = { .p_type = phdr->p_type,
		                    .p_flags = phdr->p_flags,
		                    .p_offset = (uint32_t)phdr->p_offset,
		                    .p_vaddr = (uint32_t)phdr->p_vaddr,
		                    .p_filesz = (uint32_t)phdr->p_filesz,
		                    .p_memsz = (uint32_t)phdr->p_memsz,
		                    .p_align = (uint32_t)phdr->p_align };

	if (ms_dump_is_narrow(w->call))
		put(w, &narrow, sizeof(narrow));
	else
		put(w, phdr, sizeof(*phdr));
}

static void put_headers(struct writing *w)
{
	const Elf64_Phdr notes = { .p_type = PT_NOTE,
		                   .p_offset = headers_bytes(w),
		                   .p_filesz = w->notes.n,
		                   .p_align = 4 };
	const struct ms_dump_segment *segment;

	put_head(w);
	put_header(w, &notes);
	ms_vec_for_each (segment, &w->segments) {
		const Elf64_Phdr phdr = { .p_type = PT_LOAD,
			                  .p_flags = segment->flags,
			                  .p_offset = segment->offset,
			                  .p_vaddr = segment->range.begin,
			                  .p_filesz = segment->bytes,
			                  .p_memsz = ms_range_len(segment->range),
			                  .p_align = page_of(w) };

		put_header(w, &phdr);
	}
}

/* Read @len bytes at @addr; what cannot be read is zeros, and counted. */
static void read_piece(struct writing *w, ms_addr addr, size_t len)
{
	const size_t page = (size_t)page_of(w);
	size_t got = ms_source_read(w->call->src, addr, w->buffer, len);

	while (got < len) {
		size_t lost = page - (addr + got) % page;

		lost = lost < len - got ? lost : len - got;
		memset(w->buffer + got, 0, lost);
		w->done->lost += lost;
		got += lost;
		if (got < len)
			got += ms_source_read(w->call->src, addr + got, w->buffer + got, len - got);
	}
}

static void put_memory(struct writing *w, struct ms_range range)
{
	const size_t page = (size_t)page_of(w);

	while (w->ok && range.begin < range.end) {
		uint64_t left = ms_range_len(range);
		size_t len = left < PIECE_BYTES ? (size_t)left : (size_t)PIECE_BYTES;
		size_t from = 0;

		read_piece(w, range.begin, len);
		/* Pages of zeros take no place on the disk. */
		for (size_t i = 0; i < len; i += page)
			if (ms_is_zero(w->buffer + i, page)) {
				put(w, w->buffer + from, i - from);
				skip(w, page);
				from = i + page;
			}
		put(w, w->buffer + from, len - from);
		range.begin += len;
		w->done->written += len;
	}
}

static void put_segment(struct writing *w, const struct ms_dump_segment *segment)
{
	struct ms_range rest = { segment->range.begin, segment->range.begin + segment->bytes };
	struct ms_range present;

	if (!segment->sparse) {
		put_memory(w, rest);
		return;
	}
	while (w->ok && rest.begin < rest.end) {
		if (!ms_source_present(w->call->src, rest, &present))
			present = (struct ms_range){ rest.end, rest.end };
		skip(w, present.begin - rest.begin);
		w->done->written += present.begin - rest.begin;
		put_memory(w, present);
		rest.begin = present.end;
	}
}

static enum ms_status refuse_length(uint64_t length, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "a core of 32 bits cannot be longer than 4 GiB, and this one has %.1f MB",
	              (double)length / 1e6);
	ms_advise(err, "give --heap-only, which omits what is shared or constant");
	return MS_E_UNSUPPORTED;
}

enum ms_status ms_dump_write(const struct ms_dump_call *call, struct ms_arena *arena,
                             struct ms_dump_done *done, struct ms_error *err)
{
	struct writing w = { .call = call, .done = done, .ok = true };
	const struct ms_dump_segment *segment;

	w.buffer = ms_arena_alloc(arena, PIECE_BYTES);
	if (!w.buffer || !ms_dump_segments_find(call, arena, &w.segments) ||
	    !ms_dump_notes_make(call, arena, &w.notes))
		return ms_fail(err, MS_E_NOMEM, "no memory for the notes of a core");
	done->length = place_all(&w);
	if (ms_dump_is_narrow(call) && done->length > MOST_NARROW)
		return refuse_length(done->length, err);
	put_headers(&w);
	put(&w, w.notes.at, w.notes.n);
	skip(&w, ms_align_up(w.at, page_of(&w)) - w.at);
	ms_vec_for_each (segment, &w.segments)
		put_segment(&w, segment);
	w.ok = w.ok && call->sink->finish(call->sink->ctx);
	return w.ok ? MS_OK : ms_fail(err, MS_E_SYS, "the core could not be written");
}
