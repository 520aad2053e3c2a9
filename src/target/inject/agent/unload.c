/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/agent/unload.h"

#include <assert.h>
#include <elf.h>
#include <stdbool.h>

enum { MOST_PARTS = 32, NOTE_ALIGN = 4, WORD = 8 };

/* What the loader shows of a library: struct link_map of <link.h>. */
struct shown {
	uint64_t bias;
	const char *name;
};

struct library {
	const struct ms_agent_object *object;
	const struct shown *shown;
	const Elf64_Phdr *parts;
	unsigned n_parts;
};

/* What makes one another: all up to the end of its path. */
enum { IDENTITY_WORDS = offsetof(struct ms_agent_module, first_unload) / WORD };
static_assert(offsetof(struct ms_agent_module, first_unload) % WORD == 0, "whole words");

static const void *pointer(uint64_t address)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the loader says where it is */
	return (const void *)(uintptr_t)address;
}

/* Lest the compiler makes a call of memcpy() or memset() of a loop. */
static void keep_loop(void)
{
	__asm__ volatile("" ::: "memory");
}

static bool open_library(const struct ms_agent_object *object, struct library *ret)
{
	const Elf64_Ehdr *head = pointer(object->begin);
	const uint32_t *magic = pointer(object->begin);

	*ret = (struct library){ .object = object, .shown = pointer(object->link_map) };
	if (*magic != 0x464c457f || head->e_phoff != sizeof(*head) ||
	    head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phnum > MOST_PARTS)
		return false;
	ret->parts = pointer(object->begin + sizeof(*head));
	ret->n_parts = head->e_phnum;
	return true;
}

/* The segment of the file that can be read and has all of @bytes at @at; NULL: none has. */
static const Elf64_Phdr *segment_of(const struct library *library, uint64_t at, uint64_t bytes)
{
	for (unsigned i = 0; i < library->n_parts; i++) {
		const Elf64_Phdr *part = &library->parts[i];
		uint64_t from = at - library->shown->bias - part->p_vaddr;

		if (part->p_type == PT_LOAD && (part->p_flags & PF_R) && from < part->p_filesz &&
		    bytes <= part->p_filesz - from)
			return part;
	}
	return NULL;
}

/* ---- describing it ---- */

static bool take_path(const struct library *library, struct ms_agent_module *ret)
{
	const char *name = library->shown->name;
	unsigned n = 0;

	/* The program itself has none, and is not unloaded. */
	for (; n < MS_AGENT_PATH && name[n]; n++) {
		ret->path[n] = name[n];
		keep_loop();
	}
	if (!n || n == MS_AGENT_PATH)
		return false;
	for (; n < MS_AGENT_PATH; n++) {
		ret->path[n] = 0;
		keep_loop();
	}
	return true;
}

static bool take_code(const struct library *library, struct ms_agent_module *ret)
{
	for (unsigned i = 0; i < library->n_parts; i++) {
		const Elf64_Phdr *part = &library->parts[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		ret->code = library->shown->bias + part->p_vaddr;
		ret->code_end = ret->code + part->p_memsz;
		ret->code_offset = part->p_offset;
		return true;
	}
	return false;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN;
}

static bool is_build_id(const Elf64_Nhdr *note)
{
	static const uint32_t gnu = 0x00554e47; /* "GNU" */
	const uint32_t *name = pointer((uintptr_t)(note + 1));

	return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof(gnu) && *name == gnu &&
	       note->n_descsz <= MS_AGENT_BUILD_ID;
}

static void copy_id(const uint8_t *id, uint32_t n, struct ms_agent_module *ret)
{
	ret->build_id_len = n;
	for (uint32_t i = 0; i < n; i++) {
		ret->build_id[i] = id[i];
		keep_loop();
	}
}

/* From the notes of @n bytes at @at. */
static void take_id_of(uint64_t at, uint64_t n, struct ms_agent_module *ret)
{
	while (n > sizeof(Elf64_Nhdr) + sizeof(uint32_t)) {
		const Elf64_Nhdr *note = pointer(at);
		uint64_t id_at = sizeof(*note) + aligned(note->n_namesz);
		uint64_t bytes = id_at + aligned(note->n_descsz);

		if (bytes > n)
			return;
		if (is_build_id(note)) {
			copy_id(pointer(at + id_at), note->n_descsz, ret);
			return;
		}
		at += bytes;
		n -= bytes;
	}
}

static void take_build_id(const struct library *library, struct ms_agent_module *ret)
{
	ret->build_id_len = 0;
	for (unsigned i = 0; i < MS_AGENT_BUILD_ID; i++) {
		ret->build_id[i] = 0;
		keep_loop();
	}
	for (unsigned i = 0; i < library->n_parts && !ret->build_id_len; i++) {
		const Elf64_Phdr *part = &library->parts[i];
		uint64_t at = library->shown->bias + part->p_vaddr;

		if (part->p_type == PT_NOTE && part->p_align <= NOTE_ALIGN &&
		    segment_of(library, at, part->p_memsz))
			take_id_of(at, part->p_memsz, ret);
	}
}

static bool describe(const struct library *library, struct ms_agent_module *ret)
{
	if (!take_path(library, ret) || !take_code(library, ret))
		return false;
	ret->begin = library->object->begin;
	ret->vaddr = library->object->begin - library->shown->bias;
	ret->table = library->object->eh_frame;
	take_build_id(library, ret);
	return true;
}

/* ---- keeping it ---- */

static bool is_same(const struct ms_agent_module *a, const struct ms_agent_module *b)
{
	const uint64_t *x = &a->begin;
	const uint64_t *y = &b->begin;

	for (unsigned i = 0; i < IDENTITY_WORDS; i++)
		if (x[i] != y[i])
			return false;
	return true;
}

/* The one that was unloaded last from where @module is; NULL: none was. */
static struct ms_agent_module *last_there(struct ms_agent_data *data,
                                          const struct ms_agent_module *module)
{
	for (uint32_t i = data->n_modules; i-- > 0;) {
		struct ms_agent_module *at = &data->modules[i];

		if (at->code < module->code_end && module->code < at->code_end)
			return at;
	}
	return NULL;
}

/* From the header on: behind it is what it leads to, as linkers put it. */
static void copy_table(struct ms_agent_data *data, const struct library *library,
                       struct ms_agent_module *module)
{
	const Elf64_Phdr *part = module->table ? segment_of(library, module->table, 1) : NULL;
	uint8_t *to = &data->tables[data->n_tables];
	uint64_t from = module->table;
	uint64_t n;

	module->table_bytes = 0;
	if (!part)
		return;
	n = library->shown->bias + part->p_vaddr + part->p_filesz - from;
	if (n > MS_AGENT_MOST_TABLE || n > MS_AGENT_TABLES - data->n_tables)
		return;
	module->table_at = data->n_tables;
	module->table_bytes = (uint32_t)n;
	data->n_tables += (uint32_t)n;
	/* By the processor: a loop would be made a call of memcpy. */
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void note(struct ms_agent_data *data, const struct library *library)
{
	struct ms_agent_module *module = &data->modules[data->n_modules];
	uint32_t unload = data->n_unloads + 1;
	struct ms_agent_module *last;

	if (data->n_modules == MS_AGENT_MODULES || !describe(library, module))
		return;
	last = last_there(data, module);
	if (last && is_same(last, module)) {
		__atomic_store_n(&last->end_unload, unload, __ATOMIC_RELAXED);
	} else {
		module->first_unload = last ? last->end_unload : 0;
		module->end_unload = unload;
		copy_table(data, library, module);
		__atomic_store_n(&data->n_modules, data->n_modules + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&data->n_unloads, unload, __ATOMIC_RELEASE);
}

void ms_agent_note_unload(struct ms_agent_data *data, const struct ms_agent_object *object)
{
	struct library library;

	if (__atomic_exchange_n(&data->noting, 1, __ATOMIC_ACQUIRE))
		return;
	if (open_library(object, &library))
		note(data, &library);
	__atomic_store_n(&data->noting, 0, __ATOMIC_RELEASE);
}
