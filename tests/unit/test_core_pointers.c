/* SPDX-License-Identifier: Apache-2.0 */
/* Cores of words of 4 bytes without a note of the thread pointer, as gdb writes them. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drawn_core.h"
#include "fake.h"
#include "target/arch/arch.h"
#include "target/core/core.h"
#include "target/dump/dump.h"

#define BLOCKS UINT64_C(0xf7d00000)
#define STACK  UINT64_C(0xf7e00000)

/* Words of glibc's control block, of i386. */
enum {
	OWN = 0,
	SELF = 2,
	TID = 26,
	ROBUST = 27,
	FLAGS = 32,
	RECORD = 60,
	RW = MS_PROT_READ | MS_PROT_WRITE
};

static struct ms_fake fake;
static struct ms_arena arena;
static struct ms_core_process process;
static struct ms_notes warnings;
static struct ms_source *src;
static int core_fd = -1;

static bool put(void *ctx, const void *bytes, size_t len)
{
	(void)ctx;
	return write(core_fd, bytes, len) == (ssize_t)len;
}

static bool skip(void *ctx, uint64_t len)
{
	(void)ctx;
	return lseek(core_fd, (off_t)len, SEEK_CUR) >= 0;
}

static bool finish(void *ctx)
{
	(void)ctx;
	return ftruncate(core_fd, lseek(core_fd, 0, SEEK_CUR)) == 0;
}

static int open_none(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place)
{
	(void)ctx;
	(void)wanted;
	(void)place;
	return -1;
}

static void set_up(void)
{
	if (!ms_native_arch.compat)
		cr_skip("there are no such programs");
	ms_fake_init(&fake);
	fake.base.abi = ms_arch_abi(ms_native_arch.compat);
	(void)ms_fake_map(&fake, BLOCKS, DRAWN_PAGE, RW, "");
	(void)ms_fake_map(&fake, STACK, DRAWN_PAGE, RW, "");
}

static void tear_down(void)
{
	if (src)
		src->ops->close(src);
	if (core_fd >= 0)
		(void)close(core_fd);
	ms_fake_deinit(&fake);
	ms_arena_deinit(&arena);
}

TestSuite(core_pointers, .init = set_up, .fini = tear_down);

static void put_word(ms_addr block, size_t i, uint32_t value)
{
	memcpy(ms_fake_at(&fake, block + i * sizeof(value)), &value, sizeof(value));
}

static void draw_block(ms_addr at, uint32_t tid)
{
	put_word(at, OWN, (uint32_t)at);
	put_word(at, SELF, (uint32_t)at);
	put_word(at, TID, tid);
	put_word(at, ROBUST, 1);
}

/* Write the core of threads 100 and 101, the second with a stack pointer to @sp, and open it. */
static void open_core(ms_addr sp)
{
	static const struct ms_dump_sink sink = { put, skip, finish, NULL };
	static struct ms_dump_process written = { .info = { .pr_pid = 100 } };
	struct ms_collection *frozen =
		ms_arena_alloc(&arena, sizeof(*frozen) + 2 * sizeof(frozen->threads[0]));
	const struct ms_dump_call dump = {
		.process = &written, .frozen = frozen, .src = &fake.base, .sink = &sink
	};
	struct ms_core_call call = { .path = "core", .open = open_none, .warnings = &warnings };
	struct ms_dump_done done = { 0 };
	struct ms_error err = { 0 };

	cr_assert(frozen);
	frozen->arch = ms_native_arch.compat;
	frozen->pid = 100;
	frozen->n_threads = 2;
	for (uint32_t i = 0; i < frozen->n_threads; i++)
		frozen->threads[i] = (struct ms_frozen_thread){ .tid = 100 + (int32_t)i, .sp = sp };
	core_fd = memfd_create("core", MFD_CLOEXEC);
	cr_assert_eq(ms_dump_write(&dump, &arena, &done, &err), MS_OK, "%s", err.text);
	call.fd = core_fd;
	cr_assert_eq(ms_core_open(&call, &arena, &process, &src, &err), MS_OK, "%s", err.text);
}

static bool warns(void)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &warnings)
		if (strstr(note->text, "thread-local storage"))
			return true;
	return false;
}

Test(core_pointers, a_block_says_which_thread_it_is_of)
{
	draw_block(BLOCKS + 0x40, 101);
	draw_block(BLOCKS + 0x400, 100);
	open_core(0x1000);
	cr_expect_eq(process.frozen->threads[0].tp, BLOCKS + 0x400);
	cr_expect_eq(process.frozen->threads[1].tp, BLOCKS + 0x40);
	cr_expect_not(warns());
}

Test(core_pointers, a_block_of_another_number_is_known_by_its_stack)
{
	draw_block(BLOCKS + 0x40, 7);
	put_word(BLOCKS + 0x40, RECORD, (uint32_t)BLOCKS);
	put_word(BLOCKS + 0x40, RECORD + 1, DRAWN_PAGE);
	open_core(BLOCKS + 0x10);
	cr_expect_eq(process.frozen->threads[0].tp, BLOCKS + 0x40);
	cr_expect(warns(), "of the second one no block is there");
}

Test(core_pointers, what_no_block_says_is_warned_of)
{
	draw_block(BLOCKS + 0x40, 7);
	open_core(STACK + 0x100);
	cr_expect_eq(process.frozen->threads[0].tp, 0);
	cr_expect(warns());
}

Test(core_pointers, a_block_that_was_given_back_is_of_no_thread)
{
	draw_block(BLOCKS + 0x40, 100);
	put_word(BLOCKS + 0x40, FLAGS, 0x30);
	open_core(0x1000);
	cr_expect_eq(process.frozen->threads[0].tp, 0);
}
