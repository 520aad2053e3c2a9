/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "target/arch/arch.h"
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

static enum ms_status refuse(pid_t pid, const struct ms_arch *arch, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d is a 32-bit process (%s)", pid,
	              arch->title);
	ms_advise(err, "memscan --pid %d scans it; gcore writes cores of such processes", pid);
	return MS_E_UNSUPPORTED;
}

enum ms_status ms_dump_look(pid_t pid, struct ms_dump_process *ret, struct ms_error *err)
{
	pid_t living = ms_proc_living_thread(pid);
	const struct ms_arch *arch = ms_target_arch(living);
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
	return arch->note_registers ? MS_OK : refuse(pid, arch, err);
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

static void put_thread(struct making *m, const struct ms_dump_call *call,
                       const struct ms_frozen_thread *thread)
{
	struct elf_prstatus status = { .pr_pid = thread->tid,
		                       .pr_ppid = call->process->info.pr_ppid,
		                       .pr_pgrp = call->process->info.pr_pgrp,
		                       .pr_sid = call->process->info.pr_sid };
	const uint8_t *vectors;
	size_t bytes = ms_native_arch.note_registers(thread, &status.pr_reg, &vectors);

	status.pr_fpvalid = bytes != 0;
	put_note(m, "CORE", NT_PRSTATUS, &status, sizeof(status));
	if (bytes >= sizeof(elf_fpregset_t))
		put_note(m, "CORE", NT_FPREGSET, vectors, sizeof(elf_fpregset_t));
	if (bytes > sizeof(elf_fpregset_t))
		put_note(m, "LINUX", ms_native_arch.vector_note, vectors, bytes);
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
	begin_note(m, "CORE", NT_FILE, sizeof(numbers) + numbers[0] * 3 * sizeof(uint64_t) + names);
	put(m, numbers, sizeof(numbers));
	ms_vec_for_each (map, &call->src->mappings)
		if (is_listed(map)) {
			const uint64_t entry[] = { map->range.begin, map->range.end,
				                   map->offset / page };

			put(m, entry, sizeof(entry));
		}
	ms_vec_for_each (map, &call->src->mappings)
		if (is_listed(map))
			put(m, map->name, strlen(map->name) + 1);
	pad(m);
}

static void put_own(struct making *m, const struct ms_dump_call *call)
{
	const struct ms_words *words = &call->src->kernel_words;
	const struct ms_dump_note note = { .version = MS_DUMP_NOTE_VERSION,
		                           .complete = !call->heap_only && !call->src->unseen.n,
		                           .unknown_stack_bytes = call->src->unknown_stack_bytes,
		                           .n_requests = call->src->n_requests,
		                           .n_words = words->n };

	begin_note(m, MS_DUMP_NOTE_NAME, MS_DUMP_NOTE, sizeof(note) + words->n * sizeof(uint64_t));
	put(m, &note, sizeof(note));
	put(m, words->at, words->n * sizeof(*words->at));
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
	const siginfo_t none = { .si_signo = 0 };
	uint32_t first = first_thread(call);

	put_thread(&m, call, &call->frozen->threads[first]);
	put_note(&m, "CORE", NT_PRPSINFO, &call->process->info, sizeof(call->process->info));
	put_note(&m, "CORE", NT_SIGINFO, &none, sizeof(none));
	put_note(&m, "CORE", NT_AUXV, call->process->auxv, call->process->auxv_bytes);
	put_files(&m, call);
	put_own(&m, call);
	for (uint32_t i = 0; i < call->frozen->n_threads; i++)
		if (i != first)
			put_thread(&m, call, &call->frozen->threads[i]);
	return m.ok;
}
