/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "target/arch/arch.h"
#include "target/arch/notes.h"
#include "target/dump/dump.h"
#include "target/proc.h"
#include "target/target.h"

enum { NOTE_ALIGN = 4 };

/* ---- what /proc says ---- */

static void look_at_stat(pid_t pid, struct elf_prpsinfo *info)
{
	char text[512];
	const char *behind;
	int parent, group, session;
	char state;

	(void)ms_proc_read(pid, "stat", text, sizeof(text));
	/* The name, in parentheses, may be anything. */
	behind = strrchr(text, ')');
	if (!behind || sscanf(behind, ") %c %d %d %d", &state, &parent, &group, &session) != 4)
		return;
	info->pr_sname = state;
	info->pr_ppid = parent;
	info->pr_pgrp = group;
	info->pr_sid = session;
}

static void look_at_command(pid_t pid, struct elf_prpsinfo *info)
{
	char text[sizeof(info->pr_psargs)];
	ssize_t n = ms_proc_read(pid, "cmdline", text, sizeof(text));
	char name[64];

	ms_proc_name(pid, name, sizeof(name));
	(void)snprintf(info->pr_fname, sizeof(info->pr_fname), "%.15s", name);
	if (n <= 0)
		return;
	memcpy(info->pr_psargs, text, (size_t)n);
	for (char *end; (end = memchr(info->pr_psargs, '\0', (size_t)n - 1));)
		*end = ' ';
}

void ms_dump_look(pid_t pid, struct ms_dump_process *ret)
{
	pid_t living = ms_proc_living_thread(pid);
	char status[MS_PROC_STATUS_BYTES];
	int fd = ms_proc_open(living, "auxv", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, ret->auxv, sizeof(ret->auxv));

	if (fd >= 0)
		(void)close(fd);
	ret->auxv_bytes = n > 0 ? (size_t)n : 0;
	memset(&ret->info, 0, sizeof(ret->info));
	(void)ms_proc_read(living, "status", status, sizeof(status));
	ret->info.pr_uid = (uid_t)ms_proc_field(status, "Uid", 10);
	ret->info.pr_gid = (gid_t)ms_proc_field(status, "Gid", 10);
	ret->info.pr_pid = pid;
	look_at_stat(pid, &ret->info);
	look_at_command(living, &ret->info);
}

/* ---- notes ---- */

struct making {
	struct ms_arena *arena;
	struct ms_dump_bytes *ret;
	bool ok; /* false: no memory */
};

static void put(struct making *m, const void *bytes, size_t len)
{
	m->ok = m->ok && ms_vec_reserve(m->arena, m->ret, m->ret->n + len);
	if (!m->ok)
		return;
	if (len)
		memcpy(m->ret->at + m->ret->n, bytes, len);
	m->ret->n += len;
}

static void pad(struct making *m)
{
	static const char zeros[NOTE_ALIGN];

	put(m, zeros, -m->ret->n % NOTE_ALIGN);
}

/* Begin a note of @len bytes, which the caller puts, and pads. */
static void begin_note(struct making *m, const char *name, uint32_t type, size_t len)
{
	const Elf64_Nhdr head = { .n_namesz = (uint32_t)strlen(name) + 1,
		                  .n_descsz = (uint32_t)len,
		                  .n_type = type };

	put(m, &head, sizeof(head));
	put(m, name, head.n_namesz);
	pad(m);
}

static void put_note(struct making *m, const char *name, uint32_t type, const void *bytes,
                     size_t len)
{
	begin_note(m, name, type, len);
	put(m, bytes, len);
	pad(m);
}

static void put_status(struct making *m, const struct ms_dump_call *call, int32_t tid,
                       const elf_gregset_t *registers, bool known)
{
	const struct elf_prpsinfo *info = &call->process->info;
	struct elf_prstatus status = { .pr_pid = tid,
		                       .pr_ppid = info->pr_ppid,
		                       .pr_pgrp = info->pr_pgrp,
		                       .pr_sid = info->pr_sid,
		                       .pr_fpvalid = known };
	struct ms_narrow_status narrow = {
		.pid = tid, .parent = info->pr_ppid, .group = info->pr_pgrp, .session = info->pr_sid
	};

	if (ms_dump_is_narrow(call)) {
		memcpy(narrow.registers, registers, sizeof(narrow.registers));
		put_note(m, "CORE", NT_PRSTATUS, &narrow, sizeof(narrow));
		return;
	}
	memcpy(&status.pr_reg, registers, sizeof(status.pr_reg));
	put_note(m, "CORE", NT_PRSTATUS, &status, sizeof(status));
}

static void put_thread(struct making *m, const struct ms_dump_call *call,
                       const struct ms_frozen_thread *thread)
{
	const struct ms_arch *arch = call->frozen->arch;
	uint8_t pointer[MS_POINTER_NOTE_BYTES];
	elf_gregset_t registers = { 0 };
	const uint8_t *vectors;
	size_t bytes = arch->note_registers(thread, &registers, &vectors);

	put_status(m, call, thread->tid, &registers, bytes != 0);
	if (bytes >= arch->short_bytes)
		put_note(m, arch->short_note == NT_FPREGSET ? "CORE" : "LINUX", arch->short_note,
		         vectors, arch->short_bytes);
	if (bytes > arch->short_bytes)
		put_note(m, "LINUX", arch->vector_note, vectors, bytes);
	bytes = arch->note_pointer ? arch->note_pointer(thread, pointer) : 0;
	if (bytes)
		put_note(m, "LINUX", arch->pointer_note, pointer, bytes);
}

static uint16_t narrow_id(unsigned int id)
{
	return id <= UINT16_MAX ? (uint16_t)id : (uint16_t)(UINT16_MAX - 1); /* overflowuid */
}

static void put_program(struct making *m, const struct ms_dump_call *call)
{
	const struct elf_prpsinfo *info = &call->process->info;
	struct ms_narrow_program narrow = { .state = info->pr_state,
		                            .letter = info->pr_sname,
		                            .zombie = info->pr_zomb,
		                            .nice = info->pr_nice,
		                            .flags = (uint32_t)info->pr_flag,
		                            .uid = narrow_id(info->pr_uid),
		                            .gid = narrow_id(info->pr_gid),
		                            .pid = info->pr_pid,
		                            .parent = info->pr_ppid,
		                            .group = info->pr_pgrp,
		                            .session = info->pr_sid };

	if (!ms_dump_is_narrow(call)) {
		put_note(m, "CORE", NT_PRPSINFO, info, sizeof(*info));
		return;
	}
	memcpy(narrow.name, info->pr_fname, sizeof(narrow.name));
	memcpy(narrow.args, info->pr_psargs, sizeof(narrow.args));
	put_note(m, "CORE", NT_PRPSINFO, &narrow, sizeof(narrow));
}

/* @words as the process has words. */
static void put_words(struct making *m, const struct ms_dump_call *call, const uint64_t *words,
                      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t narrow = (uint32_t)words[i];

		if (ms_dump_is_narrow(call))
			put(m, &narrow, sizeof(narrow));
		else
			put(m, &words[i], sizeof(words[i]));
	}
}

static bool is_listed(const struct ms_mapping *map)
{
	return map->file && map->name[0] == '/';
}

/* NT_FILE: numbers of words, then the names. */
static void put_files(struct making *m, const struct ms_dump_call *call)
{
	const uint64_t page = call->src->abi.page_bytes;
	uint64_t numbers[2] = { 0, page };
	const struct ms_mapping *map;
	size_t names = 0;

	ms_vec_for_each (map, &call->src->mappings)
		if (is_listed(map)) {
			numbers[0]++;
			names += strlen(map->name) + 1;
		}
	begin_note(m, "CORE", NT_FILE, (2 + numbers[0] * 3) * call->src->abi.word_bytes + names);
	put_words(m, call, numbers, 2);
	ms_vec_for_each (map, &call->src->mappings)
		if (is_listed(map)) {
			const uint64_t entry[] = { map->range.begin, map->range.end,
				                   map->offset / page };

			put_words(m, call, entry, 3);
		}
	ms_vec_for_each (map, &call->src->mappings)
		if (is_listed(map))
			put(m, map->name, strlen(map->name) + 1);
	pad(m);
}

static uint32_t flags_of(const struct ms_dump_call *call)
{
	const bool complete = !call->heap_only && !call->src->unseen.n;

	return (complete ? MS_DUMP_COMPLETE : 0) |
	       (call->src->serves_files ? MS_DUMP_SERVES_FILES : 0);
}

static void put_own(struct making *m, const struct ms_dump_call *call)
{
	const struct ms_words *words = &call->src->kernel_words;
	const struct ms_transit_words *transit = &call->src->transit;
	const struct ms_transit_word *word;
	const size_t n = words->n + transit->n;
	const struct ms_dump_note note = { .version = MS_DUMP_NOTE_VERSION,
		                           .flags = flags_of(call),
		                           .unknown_stack_bytes = call->src->unknown_stack_bytes,
		                           .n_requests = call->src->n_requests,
		                           .n_words = n };

	begin_note(m, MS_DUMP_NOTE_NAME, MS_DUMP_NOTE, sizeof(note) + n * sizeof(uint64_t));
	put(m, &note, sizeof(note));
	put(m, words->at, words->n * sizeof(*words->at));
	ms_vec_for_each (word, transit)
		put(m, &word->value, sizeof(word->value));
	pad(m);
}

/* The number of the thread that comes first, as debuggers show it: the leader, if it is there. */
static uint32_t first_thread(const struct ms_dump_call *call)
{
	for (uint32_t i = 0; i < call->frozen->n_threads; i++)
		if (call->frozen->threads[i].tid == call->frozen->pid)
			return i;
	return 0;
}

bool ms_dump_notes_make(const struct ms_dump_call *call, struct ms_arena *arena,
                        struct ms_dump_bytes *ret)
{
	struct making m = { arena, ret, true };
	const siginfo_t none = { .si_signo = 0 }; /* of 128 bytes, of words of 4 bytes, too */
	uint32_t first = first_thread(call);

	put_thread(&m, call, &call->frozen->threads[first]);
	put_program(&m, call);
	put_note(&m, "CORE", NT_SIGINFO, &none, sizeof(none));
	put_note(&m, "CORE", NT_AUXV, call->process->auxv, call->process->auxv_bytes);
	put_files(&m, call);
	put_own(&m, call);
	for (uint32_t i = 0; i < call->frozen->n_threads; i++)
		if (i != first)
			put_thread(&m, call, &call->frozen->threads[i]);
	return m.ok;
}
