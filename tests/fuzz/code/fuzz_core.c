/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the source that is a core: headers, notes, files and all.
 *
 *	fuzz: -max_len=32768
 *
 * The first byte of an input says which file there is of the program: none, the one that was
 * mapped, another one, one with words of 4 bytes; the rest is the core, of words of 8 or of 4. It
 *must neither crash nor run on, and whatever it shows has to agree with itself; of one as drawn all
 *has to be there.
 */

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drawn_core.h"
#include "fake.h"
#include "fuzz.h"
#include "target/arch/arch.h"
#include "target/core/core.h"
#include "target/dump/dump.h"

enum { MOST_LOOKED_AT = 200, LOOKED_AT = 64, NARROW_MAPPINGS = 4 };

#define NARROW_TP 0xf7d00040

enum { NO_FILE, THE_FILE, OTHER_FILE, NARROW_FILE, FILES };

static struct drawn_core drawn, drawn_narrow; /* the other one: of words of 4 bytes */
static int files[FILES] = { -1, -1, -1, -1 };
static int core_fd = -1;
static uint8_t narrow[2 * DRAWN_PAGE];

/* A program with words of 4 bytes: its header, a segment, and a build-id. */
static void draw_narrow(uint8_t *page, size_t bytes)
{
	static const struct {
		Elf32_Nhdr head;
		char maker[4];
		uint8_t id[8];
	} note = { { 4, 8, NT_GNU_BUILD_ID }, "GNU", "12345678" };
	const Elf32_Ehdr head = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB, 1 },
		.e_type = ET_DYN,
		.e_machine = EM_386,
		.e_phoff = sizeof(head),
		.e_phentsize = sizeof(Elf32_Phdr),
		.e_phnum = 2,
	};
	const Elf32_Phdr phdrs[] = {
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_filesz = (Elf32_Word)bytes,
		  .p_memsz = (Elf32_Word)bytes },
		{ .p_type = PT_NOTE,
		  .p_offset = 0x800,
		  .p_vaddr = 0x800,
		  .p_filesz = sizeof(note),
		  .p_memsz = sizeof(note),
		  .p_align = 4 },
	};

	memset(page, 0, bytes);
	memcpy(page, &head, sizeof(head));
	memcpy(page + sizeof(head), phdrs, sizeof(phdrs));
	memcpy(page + 0x800, &note, sizeof(note));
}

static void prepare(void)
{
	if (core_fd >= 0)
		return;
	drawn_core_init(&drawn);
	drawn_core_write(&drawn);
	core_fd = memfd_create("core", MFD_CLOEXEC);
	files[THE_FILE] = drawn_memfd(drawn.program, sizeof(drawn.program));
	drawn.program[0x800 + 16] ^= 1;
	files[OTHER_FILE] = drawn_memfd(drawn.program, sizeof(drawn.program));
	drawn.program[0x800 + 16] ^= 1;
	draw_narrow(narrow, sizeof(narrow));
	files[NARROW_FILE] = drawn_memfd(narrow, sizeof(narrow));
}

static int open_file(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place)
{
	const int *fd = ctx;

	require(wanted->path && strlen(wanted->path) < sizeof(drawn.bytes), "a path is a string");
	return (*place)++ || *fd < 0 ? -1 : dup(*fd);
}

static void check_mappings(const struct ms_source *src)
{
	for (size_t i = 0; i < src->mappings.n; i++) {
		const struct ms_mapping *m = &src->mappings.at[i];

		require(m->range.begin < m->range.end, "a mapping is not empty");
		require(!i || m[-1].range.end <= m->range.begin, "mappings are in order");
		require(m->name && (!m->file || m->inode), "a file has a name and a number");
	}
	for (size_t i = 0; i < src->unseen.n; i++)
		require(!i || src->unseen.at[i - 1].end < src->unseen.at[i].begin,
		        "what is not seen is tidy");
}

static void check_bytes(struct ms_source *src, ms_addr at)
{
	uint8_t bytes[LOOKED_AT];
	size_t n = ms_source_read(src, at, bytes, sizeof(bytes));
	const void *view = ms_source_view(src, at, sizeof(bytes));

	require(n <= sizeof(bytes), "no more is read than was asked for");
	require(!view || (n == sizeof(bytes) && memcmp(view, bytes, n) == 0),
	        "a view has the same bytes");
}

static void check_present(struct ms_source *src, struct ms_range within)
{
	struct ms_range run;

	for (int i = 0; i < MOST_LOOKED_AT && ms_source_present(src, within, &run); i++) {
		require(run.begin >= within.begin && run.end <= within.end && run.begin < run.end,
		        "what is present is within");
		within.begin = run.end;
	}
}

static void check_threads(const struct ms_source *src, const struct ms_core_process *process)
{
	const struct ms_thread *t;

	require(src->threads.n == process->frozen->n_threads, "each thread is there");
	require(process->facts.cmdline_len < sizeof(process->facts.cmdline), "arguments fit");
	ms_vec_for_each (t, &src->threads)
		require(t->n_words && t->n_words <= MS_THREAD_WORDS, "a thread has registers");
}

static void check_drawn(struct ms_source *src, const struct ms_core_process *process,
                        const uint8_t *data, size_t size)
{
	uint8_t byte;

	if (size != drawn.n || memcmp(data, drawn.bytes, size) != 0)
		return;
	require(src->mappings.n == drawn.n_loads && src->threads.n == 2 && !src->unseen.n &&
	                process->facts.pid == 99,
	        "what was drawn is there");
	require(ms_source_read(src, DRAWN_DATA, &byte, 1) == 1, "its bytes are");
}

static void check_narrow(struct ms_source *src, const struct ms_core_process *process,
                         const uint8_t *data, size_t size)
{
	if (!size || size != drawn_narrow.n || memcmp(data, drawn_narrow.bytes, size) != 0)
		return;
	require(src->abi.word_bytes == 4 && src->mappings.n == NARROW_MAPPINGS &&
	                src->threads.n == 2 && src->threads.at[1].tp == NARROW_TP &&
	                !src->unseen.n && process->facts.pid == 99,
	        "what was drawn of words of 4 bytes is there");
}

static void look(struct ms_source *src, const struct ms_core_process *process)
{
	const struct ms_mapping *m;

	check_mappings(src);
	check_threads(src, process);
	ms_vec_for_each (m, &src->mappings) {
		if (m - src->mappings.at >= MOST_LOOKED_AT)
			break;
		check_bytes(src, m->range.begin);
		check_bytes(src, m->range.end - LOOKED_AT / 2);
		check_bytes(src, m->range.begin + ms_range_len(m->range) / 2 + 1);
		check_present(src, m->range);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_notes warnings = { 0 };
	struct ms_core_call call = { .path = "core", .open = open_file, .warnings = &warnings };
	struct ms_core_process process;
	struct ms_arena arena = { 0 };
	struct ms_source *src;
	struct ms_error err = { 0 };

	prepare();
	if (!size || ftruncate(core_fd, 0) != 0 ||
	    pwrite(core_fd, data + 1, size - 1, 0) != (ssize_t)size - 1)
		return -1;
	call.fd = core_fd;
	call.ctx = &files[data[0] % FILES];
	if (ms_core_open(&call, &arena, &process, &src, &err)) {
		require(err.status && err.text[0], "a refusal says why");
		ms_arena_deinit(&arena);
		return 0;
	}
	look(src, &process);
	check_drawn(src, &process, data + 1, size - 1);
	check_narrow(src, &process, data + 1, size - 1);
	src->ops->close(src);
	ms_arena_deinit(&arena);
	return 0;
}

static void take_seed(fuzz_take take, const struct drawn_core *core, uint8_t file)
{
	static uint8_t seed[sizeof(core->bytes) + 1];

	seed[0] = file;
	memcpy(seed + 1, core->bytes, core->n);
	take(seed, core->n + 1);
}

/* ---- of words of 4 bytes, as memscan dump writes it ---- */

static bool put_bytes(void *ctx, const void *bytes, size_t len)
{
	struct drawn_core *core = ctx;

	require(core->n + len <= sizeof(core->bytes), "there is room for a seed");
	if (len)
		memcpy(core->bytes + core->n, bytes, len);
	core->n += len;
	return true;
}

static bool put_zeros(void *ctx, uint64_t len)
{
	static const uint8_t zeros[DRAWN_PAGE];
	bool ok = true;

	for (; ok && len; len -= len < DRAWN_PAGE ? len : DRAWN_PAGE)
		ok = put_bytes(ctx, zeros, len < DRAWN_PAGE ? (size_t)len : (size_t)DRAWN_PAGE);
	return ok;
}

static bool finish(void *ctx)
{
	(void)ctx;
	return true;
}

/* A thread whose registers are numbers, on the stack at @sp. */
static void draw_thread(struct ms_frozen_thread *thread, int32_t tid, ms_addr sp)
{
	*thread = (struct ms_frozen_thread){
		.tid = tid, .stopped = 1, .sp = sp, .tp = NARROW_TP, .n_words = MS_THREAD_WORDS
	};
	for (size_t i = 0; i < MS_THREAD_WORDS; i++)
		thread->words[i] = 96 + i;
	thread->vector_bytes = 1024;
}

static void write_narrow(struct drawn_core *core, const struct ms_arch *arch)
{
	const int rw = MS_PROT_READ | MS_PROT_WRITE;
	const uint64_t auxv[] = { AT_ENTRY | (uint64_t)0x400100 << 32,
		                  AT_SYSINFO_EHDR | (uint64_t)0xf7fd0000 << 32, AT_NULL };
	const struct ms_dump_sink sink = { put_bytes, put_zeros, finish, core };
	struct ms_dump_process process = { .info = { .pr_pid = 99, .pr_fname = "program" },
		                           .auxv_bytes = sizeof(auxv) };
	struct ms_dump_done done = { 0 };
	struct ms_arena arena = { 0 };
	struct ms_fake fake;
	struct ms_collection *frozen =
		ms_arena_alloc(&arena, sizeof(*frozen) + 2 * sizeof(frozen->threads[0]));
	const struct ms_dump_call call = {
		.process = &process, .frozen = frozen, .src = &fake.base, .sink = &sink
	};
	struct ms_error err;

	ms_fake_init(&fake);
	fake.base.abi = ms_arch_abi(arch);
	memcpy(process.auxv, auxv, sizeof(auxv));
	memcpy(ms_fake_map(&fake, 0x400000, sizeof(narrow), MS_PROT_READ | MS_PROT_EXEC,
	                   DRAWN_PATH),
	       narrow, sizeof(narrow));
	(void)ms_fake_map(&fake, 0xf7d00000, DRAWN_PAGE, rw, "");
	(void)ms_fake_map(&fake, 0xf7fd0000, DRAWN_PAGE, MS_PROT_READ | MS_PROT_EXEC, "[vdso]");
	(void)ms_fake_map(&fake, 0xffe00000, DRAWN_PAGE, rw, "[stack]");
	require(frozen, "there is memory");
	frozen->arch = arch;
	frozen->pid = 100;
	frozen->n_threads = 2;
	draw_thread(&frozen->threads[0], 100, 0xffe00800);
	draw_thread(&frozen->threads[1], 101, 0xffe00400);
	require(!ms_dump_write(&call, &arena, &done, &err), "a seed is written");
	ms_fake_deinit(&fake);
	ms_arena_deinit(&arena);
}

void fuzz_seeds(fuzz_take take)
{
	static struct drawn_core other;

	prepare();
	for (uint8_t file = 0; file < FILES; file++)
		take_seed(take, &drawn, file);
	drawn_core_init(&other);
	other.file_units = 1;
	other.shift = 0x3f8;
	drawn_core_load(&other, DRAWN_PROGRAM)->in_core = 0;
	drawn_core_load(&other, DRAWN_BRK)->in_core = 0;
	drawn_core_write(&other);
	take_seed(take, &other, THE_FILE);
	if (!ms_native_arch.compat)
		return;
	write_narrow(&drawn_narrow, ms_native_arch.compat);
	for (uint8_t file = 0; file < FILES; file++)
		take_seed(take, &drawn_narrow, file);
}
