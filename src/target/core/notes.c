/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes of a core. What is of one thread follows its NT_PRSTATUS; the rest may stand
 * anywhere: the kernel puts it behind the first thread's, gdb before and behind all of them.
 */
#include <elf.h>
#include <signal.h>
#include <string.h>
#include <sys/procfs.h>

#include "target/core/layout.h"
#include "target/dump/dump.h"

enum { NOTE_ALIGN = 4, MAX_FILES = 1 << 21, MAX_AUXV = 1 << 10 };

struct note {
	uint32_t type;
	const uint8_t *at;
	uint64_t len;
};

struct taking {
	struct ms_arena *arena;
	struct ms_core_layout *ret;
};

/* False without memory, as all of these. */
static bool take_status(const struct taking *t, const struct note *note)
{
	struct ms_core_thread *thread;
	struct elf_prstatus status;

	if (note->len < sizeof(status)) {
		t->ret->damaged = true;
		return true;
	}
	memcpy(&status, note->at, sizeof(status));
	thread = ms_vec_push(t->arena, &t->ret->threads);
	if (!thread)
		return false;
	thread->tid = status.pr_pid;
	thread->general = note->at + offsetof(struct elf_prstatus, pr_reg);
	thread->general_bytes = sizeof(status.pr_reg);
	return true;
}

static void take_vectors(const struct taking *t, const struct note *note, bool extended)
{
	struct ms_core_thread *thread =
		t->ret->threads.n ? &t->ret->threads.at[t->ret->threads.n - 1] : NULL;

	if (!thread) {
		t->ret->damaged = true;
		return;
	}
	if (thread->extended && !extended)
		return;
	thread->vectors = note->at;
	thread->vectors_bytes = note->len;
	thread->extended = extended;
}

static void take_program(const struct taking *t, const struct note *note)
{
	struct elf_prpsinfo program;

	if (note->len < sizeof(program)) {
		t->ret->damaged = true;
		return;
	}
	memcpy(&program, note->at, sizeof(program));
	t->ret->pid = program.pr_pid;
	memcpy(t->ret->name, program.pr_fname, sizeof(program.pr_fname));
	memcpy(t->ret->args, program.pr_psargs, sizeof(program.pr_psargs));
}

/* A value that a signal carries may be the only pointer to a block. */
static bool take_signal(const struct taking *t, const struct note *note)
{
	siginfo_t info;
	uint64_t *word;

	if (note->len < sizeof(info)) {
		t->ret->damaged = true;
		return true;
	}
	memcpy(&info, note->at, sizeof(info));
	if (info.si_code != SI_QUEUE && info.si_code != SI_TIMER && info.si_code != SI_MESGQ &&
	    info.si_code != SI_ASYNCIO)
		return true;
	word = ms_vec_push(t->arena, &t->ret->kernel_words);
	if (word)
		*word = (uintptr_t)info.si_value.sival_ptr;
	return word;
}

static bool take_auxv(const struct taking *t, const struct note *note)
{
	for (uint64_t at = 0; at + sizeof(Elf64_auxv_t) <= note->len; at += sizeof(Elf64_auxv_t)) {
		struct ms_core_auxv *slot;
		Elf64_auxv_t entry;

		memcpy(&entry, note->at + at, sizeof(entry));
		if (entry.a_type == AT_NULL || t->ret->auxv.n == MAX_AUXV)
			break;
		slot = ms_vec_push(t->arena, &t->ret->auxv);
		if (!slot)
			return false;
		*slot = (struct ms_core_auxv){ entry.a_type, entry.a_un.a_val };
	}
	return true;
}

/* NT_FILE: numbers, then a string for each mapping. */
struct file_numbers {
	uint64_t n;
	uint64_t page_bytes; /* that offsets are in; gdb says 1 */
};

struct file_entry {
	struct ms_range range;
	uint64_t pages;
};

static bool take_files(const struct taking *t, const struct note *note)
{
	struct file_numbers numbers = { 0 };
	const char *path;
	const char *end = (const char *)note->at + note->len;

	if (note->len >= sizeof(numbers))
		memcpy(&numbers, note->at, sizeof(numbers));
	if (numbers.n > MAX_FILES || !numbers.page_bytes ||
	    (note->len - sizeof(numbers)) / sizeof(struct file_entry) < numbers.n) {
		t->ret->damaged = true;
		return true;
	}
	t->ret->by_debugger = numbers.page_bytes == 1;
	path = (const char *)note->at + sizeof(numbers) + numbers.n * sizeof(struct file_entry);
	for (uint64_t i = 0; i < numbers.n; i++) {
		const char *nul = memchr(path, '\0', (size_t)(end - path));
		struct ms_core_mapped *mapped;
		struct file_entry entry;

		memcpy(&entry, note->at + sizeof(numbers) + i * sizeof(entry), sizeof(entry));
		if (!nul || entry.range.begin >= entry.range.end ||
		    entry.pages > INT64_MAX / numbers.page_bytes) {
			t->ret->damaged = true;
			return true;
		}
		mapped = ms_vec_push(t->arena, &t->ret->mapped);
		if (!mapped)
			return false;
		*mapped = (struct ms_core_mapped){ entry.range, entry.pages * numbers.page_bytes,
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
		take_vectors(t, note, false);
		return true;
	case NT_X86_XSTATE:
		take_vectors(t, note, true);
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
	if (note->type != MS_DUMP_NOTE || own.version != MS_DUMP_NOTE_VERSION)
		return true;
	if ((note->len - sizeof(own)) / sizeof(*words) < own.n_words) {
		t->ret->damaged = true;
		return true;
	}
	t->ret->by_memscan = true;
	t->ret->complete = own.complete;
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
	const struct taking t = { arena, ret };

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
