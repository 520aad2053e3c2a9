/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf/object.h"

#include "base/elf/class.h"

enum {
	MAX_PHDRS = 128,
	MAX_PHOFF = 1 << 16,
	MAX_DYNAMIC = 256, /* entries */
	DYNAMIC_AT_ONCE = 32,
};

/* Longest program or library believed, bytes. */
static const uint64_t MAX_SPAN = UINT64_C(1) << 40;

static bool read_header(struct ms_reader from, ms_addr begin, Elf64_Ehdr *ret)
{
	return ms_elf_read_header(from, begin, ret) &&
	       ret->e_phentsize == ms_elf_segment_bytes(ms_elf_word_bytes(ret)) &&
	       ret->e_phnum <= MAX_PHDRS && ret->e_phoff <= MAX_PHOFF;
}

/* Widen @object by a loadable segment; false when its length makes no sense. */
static bool add_segment(struct ms_object *object, const Elf64_Phdr *phdr)
{
	ms_addr end = object->bias + phdr->p_vaddr + phdr->p_memsz;

	if (end - object->span.begin > MAX_SPAN)
		return false;
	if (end > object->span.end)
		object->span.end = end;
	if (phdr->p_flags & PF_W)
		object->data_end = end;
	return true;
}

static void note_tls(struct ms_object *object, const Elf64_Phdr *phdr)
{
	uint64_t align = phdr->p_align ? phdr->p_align : 1;

	if (align & (align - 1))
		return;
	object->tls_bytes = phdr->p_memsz;
	object->tls_align = align;
	object->tls_image = phdr->p_vaddr;
}

static bool add_header(struct ms_object *object, const Elf64_Phdr *phdr)
{
	ms_addr at = object->bias + phdr->p_vaddr;

	switch (phdr->p_type) {
	case PT_LOAD:
		return add_segment(object, phdr);
	case PT_DYNAMIC:
		object->dynamic = at;
		break;
	case PT_GNU_EH_FRAME:
		object->frame_header = at;
		break;
	case PT_INTERP:
		object->has_interpreter = true;
		break;
	case PT_TLS:
		note_tls(object, phdr);
		break;
	case PT_NOTE:
		if (object->n_notes < MS_OBJECT_NOTES)
			object->notes[object->n_notes++] =
				(struct ms_elf_notes){ at, phdr->p_memsz, phdr->p_align };
		break;
	}
	return true;
}

/* lld does not begin each segment at a page of the file. */
static ms_addr last_head(const struct ms_object *object, const Elf64_Phdr *phdr, size_t n,
                         uint32_t page)
{
	ms_addr last = object->span.begin;

	for (size_t i = 0; i < n; i++) {
		ms_addr at = ms_align_down(object->bias + phdr[i].p_vaddr, page);

		if (phdr[i].p_type == PT_LOAD && phdr[i].p_offset < page && at > last)
			last = at;
	}
	return last;
}

bool ms_object_read(struct ms_reader from, ms_addr begin, uint32_t page, struct ms_object *ret)
{
	struct ms_object object = { .span = { begin, begin } };
	Elf64_Phdr phdr[MAX_PHDRS];
	Elf64_Ehdr ehdr;
	size_t load = 0;

	if (!read_header(from, begin, &ehdr) ||
	    !ms_elf_read_segments(from, begin + ehdr.e_phoff, &ehdr, phdr))
		return false;
	while (load < ehdr.e_phnum && phdr[load].p_type != PT_LOAD)
		load++;
	if (load == ehdr.e_phnum)
		return false;
	object.word_bytes = ms_elf_word_bytes(&ehdr);
	object.bias = begin - ms_align_down(phdr[load].p_vaddr - phdr[load].p_offset, page);
	for (size_t i = 0; i < ehdr.e_phnum; i++)
		if (!add_header(&object, &phdr[i]))
			return false;
	object.last_head = last_head(&object, phdr, ehdr.e_phnum, page);
	if (object.span.begin == object.span.end)
		return false;
	*ret = object;
	return true;
}

/* The loader adds the bias in place for most objects, but not for all. */
static ms_addr placed(ms_addr bias, ms_addr value)
{
	return value && value < bias ? value + bias : value;
}

static void note_entry(struct ms_dynamic *dynamic, const Elf64_Dyn *entry)
{
	const uint64_t value = entry->d_un.d_val;

	if (entry->d_tag == DT_STRTAB)
		dynamic->strings = placed(dynamic->bias, value);
	else if (entry->d_tag == DT_SYMTAB)
		dynamic->symbols = placed(dynamic->bias, value);
	else if (entry->d_tag == DT_GNU_HASH)
		dynamic->gnu_hash = placed(dynamic->bias, value);
	else if (entry->d_tag == DT_HASH)
		dynamic->hash = placed(dynamic->bias, value);
	else if (entry->d_tag == DT_DEBUG)
		dynamic->debug = value;
	else if (entry->d_tag == DT_RELA)
		dynamic->rela = placed(dynamic->bias, value);
	else if (entry->d_tag == DT_RELASZ)
		dynamic->rela_bytes = value;
	else if (entry->d_tag == DT_REL)
		dynamic->rel = placed(dynamic->bias, value);
	else if (entry->d_tag == DT_RELSZ)
		dynamic->rel_bytes = value;
	dynamic->needs |= entry->d_tag == DT_NEEDED;
	dynamic->named |= entry->d_tag == DT_SONAME;
}

struct ms_dynamic ms_dynamic_read_at(struct ms_reader from, ms_addr at, ms_addr bias,
                                     uint8_t word_bytes)
{
	struct ms_dynamic ret = { .bias = bias, .word_bytes = word_bytes };
	Elf64_Dyn entries[DYNAMIC_AT_ONCE];
	size_t n = DYNAMIC_AT_ONCE;

	for (size_t i = 0; i < MAX_DYNAMIC && n == DYNAMIC_AT_ONCE; i += n) {
		n = ms_elf_read_dynamic(from, at + i * ms_elf_dynamic_bytes(word_bytes), word_bytes,
		                        entries, DYNAMIC_AT_ONCE);
		for (size_t k = 0; k < n; k++) {
			if (entries[k].d_tag == DT_NULL)
				return ret;
			note_entry(&ret, &entries[k]);
		}
	}
	return ret;
}

struct ms_dynamic ms_dynamic_read(struct ms_reader from, const struct ms_object *object)
{
	if (!object->dynamic)
		return (struct ms_dynamic){ .bias = object->bias,
			                    .word_bytes = object->word_bytes };
	return ms_dynamic_read_at(from, object->dynamic, object->bias, object->word_bytes);
}

bool ms_object_is_program(struct ms_reader from, const struct ms_object *object)
{
	return object->has_interpreter && !(object->dynamic && ms_dynamic_read(from, object).named);
}
