/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the source that is a core: headers, notes, files and all.
 *
 *	fuzz: -max_len=32768
 *
 * The first byte of an input says which file there is of the program: none, the one that was
 * mapped, another one; the rest is the core. It must neither crash nor run on, and whatever it
 * shows has to agree with itself; of one as drawn all has to be there.
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drawn_core.h"
#include "fuzz.h"
#include "target/core/core.h"

enum { MOST_LOOKED_AT = 200, LOOKED_AT = 64 };

enum { NO_FILE, THE_FILE, OTHER_FILE, FILES };

static struct drawn_core drawn;
static int files[FILES] = { -1, -1, -1 };
static int core_fd = -1;

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
}
