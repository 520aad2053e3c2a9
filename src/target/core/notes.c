/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes of a core. What is of one thread follows its NT_PRSTATUS; the rest may stand
 * anywhere: the kernel puts it behind the first thread's, gdb before and behind all of them.
 */
#include <elf.h>
#include <signal.h>
#include <string.h>
#include <sys/procfs.h>

#include "target/arch/arch.h"
#include "target/arch/notes.h"
#include "target/core/layout.h"
#include "target/dump/dump.h"

enum { NOTE_ALIGN = 4, MAX_FILES = 1 << 21, MAX_AUXV = 1 << 10 };

enum {
	RANK_X87 = 1, /* of what notes have of the vector registers */
	RANK_SSE,
	RANK_ALL,
};

/* Where in the notes things are; bytes. */
struct places {
	uint16_t status_bytes;
	uint16_t tid, registers, registers_bytes;
	uint16_t program_bytes;
	uint16_t pid, name, args;
	uint16_t signal_bytes, value;
};

static const struct places wide = {
	.status_bytes = sizeof(struct elf_prstatus),
	.tid = offsetof(struct elf_prstatus, pr_pid),
	.registers = offsetof(struct elf_prstatus, pr_reg),
	.registers_bytes = sizeof(elf_gregset_t),
	.program_bytes = sizeof(struct elf_prpsinfo),
	.pid = offsetof(struct elf_prpsinfo, pr_pid),
	.name = offsetof(struct elf_prpsinfo, pr_fname),
	.args = offsetof(struct elf_prpsinfo, pr_psargs),
	.signal_bytes = sizeof(siginfo_t),
	.value = offsetof(siginfo_t, si_value),
};

static const struct places narrow = {
	.status_bytes = sizeof(struct ms_narrow_status),
	.tid = offsetof(struct ms_narrow_status, pid),
	.registers = offsetof(struct ms_narrow_status, registers),
	.registers_bytes = MS_NARROW_REGISTERS * sizeof(uint32_t),
	.program_bytes = sizeof(struct ms_narrow_program),
	.pid = offsetof(struct ms_narrow_program, pid),
	.name = offsetof(struct ms_narrow_program, name),
	.args = offsetof(struct ms_narrow_program, args),
	.signal_bytes = MS_NARROW_SIGNAL_BYTES,
	.value = MS_NARROW_SIGNAL_VALUE,
};

struct note {
	uint32_t type;
	const uint8_t *at;
	uint64_t len;
};

struct taking {
	struct ms_arena *arena;
	struct ms_core_layout *ret;
	const struct ms_abi *abi;
	const struct places *places;
};

/* False without memory, as all of these. */
static bool take_status(const struct taking *t, const struct note *note)
{
	struct ms_core_thread *thread;

	if (note->len < t->places->status_bytes) {
		t->ret->damaged = true;
		return true;
	}
	/* One more is enough to refuse the core. */
	if (t->ret->threads.n > MS_CORE_THREADS)
		return true;
	thread = ms_vec_push(t->arena, &t->ret->threads);
	if (!thread)
		return false;
	memcpy(&thread->tid, note->at + t->places->tid, sizeof(thread->tid));
	thread->general = note->at + t->places->registers;
	thread->general_bytes = t->places->registers_bytes;
	return true;
}

/* The thread that a note is of; NULL: of none. */
static struct ms_core_thread *thread_of(const struct taking *t)
{
	if (t->ret->threads.n)
		return &t->ret->threads.at[t->ret->threads.n - 1];
	t->ret->damaged = true;
	return NULL;
}

static void take_vectors(const struct taking *t, const struct note *note, uint8_t rank)
{
	struct ms_core_thread *thread = thread_of(t);

	if (!thread || thread->rank > rank)
		return;
	thread->vectors = note->at;
	thread->vectors_bytes = note->len;
	thread->rank = rank;
}

static void take_areas(const struct taking *t, const struct note *note)
{
	struct ms_core_thread *thread = thread_of(t);

	if (!thread)
		return;
	thread->areas = note->at;
	thread->areas_bytes = note->len;
}

static void take_program(const struct taking *t, const struct note *note)
{
	if (note->len < t->places->program_bytes) {
		t->ret->damaged = true;
		return;
	}
	memcpy(&t->ret->pid, note->at + t->places->pid, sizeof(t->ret->pid));
	memcpy(t->ret->name, note->at + t->places->name, MS_CORE_FILE_TEXT);
	memcpy(t->ret->args, note->at + t->places->args, MS_CORE_ARGS_TEXT);
}

/* A value that a signal carries may be the only pointer to a block. */
static bool take_signal(const struct taking *t, const struct note *note)
{
	uint64_t *word;
	int32_t code;

	if (note->len < t->places->signal_bytes) {
		t->ret->damaged = true;
		return true;
	}
	memcpy(&code, note->at + offsetof(siginfo_t, si_code), sizeof(code));
	if (code != SI_QUEUE && code != SI_TIMER && code != SI_MESGQ && code != SI_ASYNCIO)
		return true;
	word = ms_vec_push(t->arena, &t->ret->kernel_words);
	if (word)
		*word = ms_abi_word(t->abi, note->at + t->places->value);
	return word;
}

/* @n words at @at of a note. */
static void words_of(const struct taking *t, const uint8_t *at, uint64_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = ms_abi_word(t->abi, at + i * t->abi->word_bytes);
}

static bool take_auxv(const struct taking *t, const struct note *note)
{
	const size_t bytes = (size_t)2 * t->abi->word_bytes;

	for (uint64_t at = 0; at + bytes <= note->len; at += bytes) {
		struct ms_core_auxv *slot;
		uint64_t entry[2] = { 0 }; /* type and value */

		words_of(t, note->at + at, entry, 2);
		if (entry[0] == AT_NULL || t->ret->auxv.n == MAX_AUXV)
			break;
		slot = ms_vec_push(t->arena, &t->ret->auxv);
		if (!slot)
			return false;
		*slot = (struct ms_core_auxv){ entry[0], entry[1] };
	}
	return true;
}

/* NT_FILE: words, then a string for each mapping. */
enum { FILES, PAGE_BYTES, FILE_NUMBERS }; /* offsets are in pages of so many; gdb says 1 */
enum { BEGIN, END, PAGES, FILE_ENTRY };

static bool take_files(const struct taking *t, const struct note *note)
{
	const size_t head_bytes = FILE_NUMBERS * (size_t)t->abi->word_bytes;
	const size_t entry_bytes = FILE_ENTRY * (size_t)t->abi->word_bytes;
	uint64_t numbers[FILE_NUMBERS] = { 0 };
	const char *path;
	const char *end = (const char *)note->at + note->len;

	if (note->len >= head_bytes)
		words_of(t, note->at, numbers, FILE_NUMBERS);
	if (numbers[FILES] > MAX_FILES || !numbers[PAGE_BYTES] ||
	    (note->len - head_bytes) / entry_bytes < numbers[FILES]) {
		t->ret->damaged = true;
		return true;
	}
	t->ret->by_debugger = numbers[PAGE_BYTES] == 1;
	path = (const char *)note->at + head_bytes + numbers[FILES] * entry_bytes;
	for (uint64_t i = 0; i < numbers[FILES]; i++) {
		const char *nul = memchr(path, '\0', (size_t)(end - path));
		struct ms_core_mapped *mapped;
		uint64_t entry[FILE_ENTRY] = { 0 };

		words_of(t, note->at + head_bytes + i * entry_bytes, entry, FILE_ENTRY);
		if (!nul || entry[BEGIN] >= entry[END] ||
		    entry[PAGES] > INT64_MAX / numbers[PAGE_BYTES]) {
			t->ret->damaged = true;
			return true;
		}
		mapped = ms_vec_push(t->arena, &t->ret->mapped);
		if (!mapped)
			return false;
		*mapped = (struct ms_core_mapped){ { entry[BEGIN], entry[END] },
			                           entry[PAGES] * numbers[PAGE_BYTES],
			                           path };
		path = nul + 1;
	}
	return true;
}

static bool take(const struct taking *t, const struct note *note)
{
	switch (note->type) {
	case NT_PRSTATUS:
		return take_status(t, note);
	case NT_FPREGSET:
		take_vectors(t, note, RANK_X87);
		return true;
	case NT_PRXFPREG:
		take_vectors(t, note, RANK_SSE);
		return true;
	case NT_X86_XSTATE:
		take_vectors(t, note, RANK_ALL);
		return true;
	case NT_386_TLS:
		take_areas(t, note);
		return true;
	case NT_PRPSINFO:
		take_program(t, note);
		return true;
	case NT_SIGINFO:
		return take_signal(t, note);
	case NT_AUXV:
		return t->ret->auxv.n || take_auxv(t, note);
	case NT_FILE:
		return t->ret->mapped.n || take_files(t, note);
	default:
		return true;
	}
}

/* What memscan dump says beside what all cores do. */
static bool take_own(const struct taking *t, const struct note *note)
{
	struct ms_dump_note own = { 0 };
	uint64_t *words;

	if (note->len >= sizeof(own))
		memcpy(&own, note->at, sizeof(own));
	if (note->type != MS_DUMP_NOTE || own.version < MS_DUMP_NOTE_LEAST ||
	    own.version > MS_DUMP_NOTE_VERSION)
		return true;
	if ((note->len - sizeof(own)) / sizeof(*words) < own.n_words) {
		t->ret->damaged = true;
		return true;
	}
	t->ret->by_memscan = true;
	t->ret->complete = own.flags & MS_DUMP_COMPLETE;
	t->ret->serves_files = own.flags & MS_DUMP_SERVES_FILES;
	t->ret->unknown_stack_bytes = own.unknown_stack_bytes;
	t->ret->n_requests = own.n_requests;
	if (!own.n_words)
		return true;
	if (!ms_vec_reserve(t->arena, &t->ret->kernel_words, (size_t)own.n_words))
		return false;
	memcpy(t->ret->kernel_words.at, note->at + sizeof(own), own.n_words * sizeof(*words));
	t->ret->kernel_words.n = (size_t)own.n_words;
	return true;
}

/* Different makers' notes may have the same numbers. */
static bool is_by(const char *maker, const uint8_t *name, uint32_t len)
{
	return len == strlen(maker) + 1 && memcmp(name, maker, len) == 0;
}

static bool take_by_maker(const struct taking *t, const uint8_t *name, uint32_t len,
                          const struct note *note)
{
	if (is_by("CORE", name, len) || is_by("LINUX", name, len))
		return take(t, note);
	return !is_by(MS_DUMP_NOTE_NAME, name, len) || take_own(t, note);
}

bool ms_core_notes_take(const uint8_t *bytes, uint64_t len, struct ms_arena *arena,
                        struct ms_core_layout *ret)
{
	const struct ms_abi *abi = &ret->arch->abi;
	const struct taking t = { arena, ret, abi,
		                  abi->word_bytes == sizeof(uint64_t) ? &wide : &narrow };

	while (len) {
		const uint8_t *name = bytes + sizeof(Elf64_Nhdr);
		struct note note;
		Elf64_Nhdr head;
		uint64_t name_len;
		uint64_t whole;

		if (len < sizeof(head)) {
			ret->damaged = true;
			break;
		}
		memcpy(&head, bytes, sizeof(head));
		/* Every note has a maker: from here on it is a hole of the file, or padding. */
		if (!head.n_namesz)
			break;
		/* Of two 32-bit numbers: no sum of these overflows. */
		name_len = ms_align_up(head.n_namesz, NOTE_ALIGN);
		whole = sizeof(head) + name_len + head.n_descsz;
		if (whole > len) {
			ret->damaged = true;
			break;
		}
		note = (struct note){ head.n_type, name + name_len, head.n_descsz };
		if (!take_by_maker(&t, name, head.n_namesz, &note))
			return false;
		whole = ms_align_up(whole, NOTE_ALIGN);
		if (whole > len)
			break;
		bytes += whole;
		len -= whole;
	}
	return true;
}
