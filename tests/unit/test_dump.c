/* SPDX-License-Identifier: Apache-2.0 */
/* The core that is written of a drawn process, read back as memscan core reads it. */
#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

#include "fake.h"
#include "target/arch/arch.h"
#include "target/core/layout.h"
#include "target/dump/dump.h"

enum {
	GENERAL = sizeof(elf_gregset_t) / sizeof(uint64_t),
	PAGE = 4096,
	MOST = 1 << 24,
	RW = MS_PROT_READ | MS_PROT_WRITE
};

static struct ms_fake fake;
static struct ms_arena arena;
static struct ms_collection *frozen;
static struct ms_dump_process process;
static struct ms_dump_done done;
static uint8_t core[MOST];
static uint64_t core_bytes, skipped, most_bytes;

static bool put(void *ctx, const void *bytes, size_t len)
{
	(void)ctx;
	if (core_bytes + len > most_bytes)
		return false;
	memcpy(core + core_bytes, bytes, len);
	core_bytes += len;
	return true;
}

static bool skip(void *ctx, uint64_t len)
{
	(void)ctx;
	skipped += len;
	core_bytes += len;
	return core_bytes <= most_bytes;
}

static bool finish(void *ctx)
{
	(void)ctx;
	return true;
}

static void set_up(void)
{
	ms_fake_init(&fake);
	frozen = ms_arena_alloc(&arena, sizeof(*frozen) + 2 * sizeof(*frozen->threads));
	cr_assert(frozen);
	frozen->pid = 12;
	frozen->arch = &ms_native_arch;
	frozen->n_threads = 2;
	frozen->threads[0] = (struct ms_frozen_thread){ .tid = 13, .pc = 0x1234, .sp = 0x5678 };
	frozen->threads[1] =
		(struct ms_frozen_thread){ .tid = 12, .stopped = 1, .n_words = GENERAL };
	for (uint64_t i = 0; i < GENERAL; i++)
		frozen->threads[1].words[i] = 1000 + i;
	process.info.pr_pid = 12;
	memcpy(process.info.pr_fname, "prog", 4);
	most_bytes = MOST;
}

static void tear_down(void)
{
	ms_fake_deinit(&fake);
	ms_arena_deinit(&arena);
}

TestSuite(dump, .init = set_up, .fini = tear_down);

static enum ms_status write_core(bool heap_only)
{
	static const struct ms_dump_sink sink = { put, skip, finish, NULL };
	const struct ms_dump_call call = { .process = &process,
		                           .frozen = frozen,
		                           .src = &fake.base,
		                           .heap_only = heap_only,
		                           .sink = &sink };
	struct ms_error err;

	return ms_dump_write(&call, &arena, &done, &err);
}

static size_t read_core(void *ctx, ms_addr at, void *buf, size_t len)
{
	(void)ctx;
	if (at >= core_bytes)
		return 0;
	len = len < core_bytes - at ? len : (size_t)(core_bytes - at);
	memcpy(buf, core + at, len);
	return len;
}

static struct ms_core_layout layout_of(void)
{
	const struct ms_core_input input = { { read_core, NULL }, core_bytes, NULL, "core" };
	struct ms_core_layout layout = { 0 };
	struct ms_error err;

	cr_assert_eq(ms_core_layout_read(&input, &arena, &layout, &err), MS_OK, "%s", err.text);
	return layout;
}

/* The bytes of the core that stand for @addr; NULL: it has none. */
static const uint8_t *at(const struct ms_core_layout *layout, ms_addr addr)
{
	const struct ms_core_segment *segment;

	ms_vec_for_each (segment, &layout->segments)
		if (ms_range_has(segment->range, addr) &&
		    addr - segment->range.begin < segment->bytes)
			return core + segment->offset + (addr - segment->range.begin);
	return NULL;
}

Test(dump, memory_of_no_file_is_there_and_the_untouched_is_skipped)
{
	uint8_t *bytes = ms_fake_map(&fake, 0x10000, 64 * PAGE, RW, "");
	struct ms_core_layout layout;

	(void)ms_fake_split(&fake, 0x10000 + 4 * PAGE);
	fake.absent[1] = true; /* from the fifth page on it was never touched */
	memset(bytes, 0xaa, PAGE);
	memset(bytes + 3 * PAGE, 0xbb, PAGE);
	cr_assert_eq(write_core(false), MS_OK);
	layout = layout_of();
	cr_assert(at(&layout, 0x10000));
	cr_expect_eq(*at(&layout, 0x10000), 0xaa);
	cr_expect_eq(*at(&layout, 0x10000 + 3 * PAGE), 0xbb);
	cr_assert(at(&layout, 0x10000 + 63 * PAGE), "a hole, which reads as zeros");
	cr_expect_eq(*at(&layout, 0x10000 + 63 * PAGE), 0);
	cr_expect_geq(skipped, 62 * (uint64_t)PAGE);
	cr_expect(layout.by_memscan && layout.complete);
	cr_expect_eq(done.length, core_bytes);
	cr_expect_eq(done.written, done.total);
}

Test(dump, of_a_program_its_first_page_is_there)
{
	uint8_t *head =
		ms_fake_map(&fake, 0x400000, 4 * PAGE, MS_PROT_READ | MS_PROT_EXEC, "/prog");
	struct ms_core_layout layout;

	fake.absent[0] = true;
	memcpy(head, ELFMAG, SELFMAG);
	head[PAGE] = 7;
	cr_assert_eq(write_core(false), MS_OK);
	layout = layout_of();
	cr_assert(at(&layout, 0x400000));
	cr_expect(!memcmp(at(&layout, 0x400000), ELFMAG, SELFMAG));
	cr_expect_null(at(&layout, 0x400000 + PAGE));
	cr_expect_eq(layout.segments.at[0].range.end, 0x400000u + 4 * PAGE);
	cr_assert_eq(layout.mapped.n, 1);
	cr_expect_str_eq(layout.mapped.at[0].path, "/prog");
	cr_expect_eq(layout.mapped.at[0].range.begin, 0x400000u);
}

Test(dump, heap_only_omits_what_is_shared_or_constant)
{
	struct ms_core_layout layout;

	(void)ms_fake_map(&fake, 0x10000, PAGE, MS_PROT_READ, "");
	(void)ms_fake_map(&fake, 0x20000, PAGE, RW, "");
	(void)ms_fake_map(&fake, 0x30000, PAGE, RW, "/dev/shm/x");
	fake.base.mappings.at[2].shared = true;
	cr_assert_eq(write_core(true), MS_OK);
	layout = layout_of();
	cr_expect_null(at(&layout, 0x10000));
	cr_expect(at(&layout, 0x20000));
	cr_expect_null(at(&layout, 0x30000));
	cr_expect(layout.by_memscan && !layout.complete);
}

Test(dump, threads_and_what_only_the_kernel_knew)
{
	uint64_t *word = ms_vec_push(&arena, &fake.base.kernel_words);
	struct ms_core_layout layout;
	uint64_t registers[GENERAL];

	cr_assert(word);
	*word = 0xfeed;
	fake.base.unknown_stack_bytes = 2048;
	fake.base.n_requests = 7;
	(void)ms_fake_map(&fake, 0x10000, PAGE, RW, "");
	cr_assert_eq(write_core(false), MS_OK);
	layout = layout_of();
	cr_assert_eq(layout.threads.n, 2);
	cr_expect_eq(layout.threads.at[0].tid, 12, "the leader is first");
	cr_expect_eq(layout.threads.at[1].tid, 13);
	memcpy(registers, layout.threads.at[0].general, sizeof(registers));
	cr_expect_eq(registers[GENERAL - 1], 1000 + GENERAL - 1);
	memcpy(registers, layout.threads.at[1].general, sizeof(registers));
	cr_expect_eq(registers[ms_native_arch.dwarf[ms_native_arch.dwarf_pc]], 0x1234,
	             "where one is that sleeps");
	cr_assert_eq(layout.kernel_words.n, 1);
	cr_expect_eq(layout.kernel_words.at[0], 0xfeed);
	cr_expect_eq(layout.unknown_stack_bytes, 2048);
	cr_expect_eq(layout.n_requests, 7);
	cr_expect_eq(layout.pid, 12);
	cr_expect_str_eq(layout.name, "prog");
}

/* What a core of words of 4 bytes says of its first thread. */
static void check_narrow_thread(const struct ms_core_layout *layout)
{
	const struct ms_core_thread *thread = &layout->threads.at[0];
	const struct ms_noted_registers noted = { thread->general, thread->general_bytes,
		                                  thread->vectors, thread->vectors_bytes,
		                                  thread->areas,   thread->areas_bytes };
	struct ms_frozen_thread taken = { 0 };

	cr_assert_eq(layout->threads.n, 2);
	cr_expect_eq(thread->tid, 12, "the leader is first");
	cr_expect_eq(layout->threads.at[1].tid, 13);
	cr_assert(layout->arch->take_noted(&noted, &taken));
	cr_expect_eq(taken.tp, 0xf7d00040u);
	for (int i = 0; i < layout->arch->n_dwarf; i++)
		cr_expect_eq(taken.words[layout->arch->dwarf[i]],
		             frozen->threads[1].words[layout->arch->dwarf[i]], "%d", i);
	cr_expect_eq(taken.sp, frozen->threads[1].words[layout->arch->dwarf[4]]);
}

Test(dump, a_program_with_words_of_4_bytes_has_a_core_of_such)
{
	struct ms_core_layout layout;
	uint8_t *bytes;

	if (!ms_native_arch.compat)
		cr_skip("there are no such programs");
	fake.base.abi = ms_arch_abi(ms_native_arch.compat);
	frozen->arch = ms_native_arch.compat;
	frozen->threads[1].tp = 0xf7d00040;
	(void)ms_fake_map(&fake, 0x400000, PAGE, MS_PROT_READ, "/prog");
	bytes = ms_fake_map(&fake, 0xfffe0000, PAGE, RW, "");
	memset(bytes, 0xaa, PAGE);
	cr_assert_eq(write_core(false), MS_OK);
	cr_expect_eq(core[EI_CLASS], ELFCLASS32);
	layout = layout_of();
	cr_expect_eq(layout.arch, ms_native_arch.compat);
	cr_assert(at(&layout, 0xfffe0000) && *at(&layout, 0xfffe0000) == 0xaa);
	cr_assert_eq(layout.mapped.n, 1);
	cr_expect_str_eq(layout.mapped.at[0].path, "/prog");
	cr_expect_eq(layout.mapped.at[0].range.end, 0x400000u + PAGE);
	cr_expect_eq(layout.pid, 12);
	cr_expect_str_eq(layout.name, "prog");
	cr_expect(layout.by_memscan && !layout.damaged);
	check_narrow_thread(&layout);
}

Test(dump, no_core_of_words_of_4_bytes_is_longer_than_it_can_say)
{
	if (!ms_native_arch.compat)
		cr_skip("there are no such programs");
	fake.base.abi = ms_arch_abi(ms_native_arch.compat);
	frozen->arch = ms_native_arch.compat;
	most_bytes = UINT64_MAX; /* all of it is holes */
	memset(fake.absent, true, sizeof(fake.absent));
	for (ms_addr i = 0; i < 3; i++)
		(void)ms_fake_map(&fake, i << 30, (size_t)1 << 30, RW, "");
	cr_expect_eq(write_core(false), MS_OK);
	core_bytes = 0;
	(void)ms_fake_map(&fake, UINT64_C(3) << 30, (size_t)1 << 30, RW, "");
	cr_expect_eq(write_core(false), MS_E_UNSUPPORTED);
}

Test(dump, the_vdso_is_there_though_no_source_has_it_present)
{
	uint8_t *bytes = ms_fake_map(&fake, 0x10000, PAGE, MS_PROT_READ | MS_PROT_EXEC, "[vdso]");
	struct ms_core_layout layout;

	fake.absent[0] = true;
	memset(bytes, 0xaa, PAGE);
	cr_assert_eq(write_core(false), MS_OK);
	layout = layout_of();
	cr_expect_eq(*at(&layout, 0x10000), 0xaa);
}

Test(dump, a_sink_that_refuses_ends_it)
{
	(void)ms_fake_map(&fake, 0x10000, 16 * PAGE, RW, "");
	most_bytes = 2 * PAGE;
	cr_expect_eq(write_core(false), MS_E_SYS);
}
