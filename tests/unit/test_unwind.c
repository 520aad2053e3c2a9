/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine/unwind/expression.h"
#include "engine/unwind/unwind.h"
#include "fake.h"
#include "target/maps.h"

/* Stacks that were kept, unwound from bytes alone. */

enum { PAGE = 4096, KEPT = 4 * PAGE, MOST = 256 };

/* ---- of this process ---- */

static size_t read_self(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	struct iovec to = { buf, len };
	struct iovec from = { NULL, len };
	ssize_t n;

	(void)src;
	memcpy(&from.iov_base, &addr, sizeof(addr));
	n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	return n < 0 ? 0 : (size_t)n;
}

static const struct ms_source_ops self_ops = { .name = "self", .read = read_self };

static struct ms_source self;
static struct ms_arena arena;
static struct ms_unwinder *unwinder;

static void start(void)
{
	struct ms_error err;

	self = (struct ms_source){ .ops = &self_ops,
		                   .abi = { .word_bytes = 8, .page_bytes = 4096 } };
	cr_assert_eq(ms_maps_read(getpid(), &arena, &self.mappings, &err), MS_OK);
	unwinder = ms_unwinder_new(&self, &arena);
	cr_assert(unwinder);
}

TestSuite(unwind, .init = start, .timeout = 20);

static struct {
	struct ms_kept_stack stack;
	uint8_t bytes[KEPT];
	void *theirs[MOST];
	int n_theirs;
	size_t most;  /* bytes to keep */
	size_t exact; /* addresses that were not called from: those of a signal */
} kept = { .most = PAGE };

static void take_registers(const ucontext_t *context)
{
	static const struct {
		int from;
		unsigned to;
	} registers[] = { { REG_RBX, 3 },  { REG_RBP, 6 },  { REG_RSP, 7 },  { REG_R12, 12 },
		          { REG_R13, 13 }, { REG_R14, 14 }, { REG_R15, 15 }, { REG_RIP, 16 } };

	memset(&kept.stack, 0, sizeof(kept.stack));
	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
		kept.stack.registers[registers[i].to] =
			(uint64_t)context->uc_mcontext.gregs[registers[i].from];
		kept.stack.known |= 1U << registers[i].to;
	}
}

/* Keep this function's own frame, and what the C library's unwinder says of it. */
__attribute__((noinline)) static void keep(void)
{
	ucontext_t context;

	cr_assert_eq(getcontext(&context), 0);
	take_registers(&context);
	kept.stack.at = kept.stack.registers[MS_ROW_RSP];
	kept.stack.n = read_self(&self, kept.stack.at, kept.bytes, kept.most);
	cr_assert(kept.stack.n);
	kept.stack.bytes = kept.bytes;
	kept.n_theirs = backtrace(kept.theirs, MOST);
}

/*
 * The innermost is in keep() at another place, and where bytes end the list ends. With a
 * sanitizer backtrace() has what stands in front of it, too.
 */
static size_t compare(void)
{
	ms_addr pcs[MOST];
	size_t n = ms_unwind(unwinder, &kept.stack, pcs, MOST);
	size_t more = 0;

	cr_assert(n > 3, "%zu", n);
	while (more < 3 && pcs[1] != (uintptr_t)kept.theirs[1 + more] - 1)
		more++;
	cr_assert(n + more <= (size_t)kept.n_theirs, "%zu, %d", n, kept.n_theirs);
	for (size_t i = 1; i < n; i++) {
		uint64_t theirs = (uintptr_t)kept.theirs[i + more];

		cr_assert(pcs[i] == theirs - 1 || pcs[i] == theirs, "%zu: %lx, %lx", i, pcs[i],
		          theirs);
		kept.exact += pcs[i] == theirs;
	}
	return n;
}

__attribute__((noinline)) static void descend(unsigned depth)
{
	volatile char space[64];

	space[0] = 1;
	if (depth)
		descend(depth - 1);
	else
		keep();
	space[1] = space[0];
}

Test(unwind, finds_the_calls_that_the_compilers_unwinder_finds)
{
	descend(0);
	(void)compare();
	descend(12);
	cr_expect(compare() > 13);
	cr_expect_eq(kept.exact, 0);
}

Test(unwind, ends_where_the_bytes_end)
{
	size_t n;

	descend(1000);
	n = compare();
	cr_expect(n > 8 && n < 200, "%zu", n);
	cr_expect(ms_unwinder_was_cut(unwinder));
	kept.stack.n = 0;
	cr_expect_eq(ms_unwind(unwinder, &kept.stack, (ms_addr[4]){ 0 }, 4), 1);
	cr_expect(ms_unwinder_was_cut(unwinder));
}

Test(unwind, says_whether_a_stack_was_cut)
{
	kept.most = sizeof(kept.bytes);
	descend(3);
	(void)compare();
	cr_expect_eq(ms_unwinder_was_cut(unwinder), !ms_unwinder_was_whole(unwinder));
	kept.stack.registers[MS_ROW_RETURN] = 1;
	cr_expect_eq(ms_unwind(unwinder, &kept.stack, (ms_addr[4]){ 0 }, 4), 0);
	cr_expect_not(ms_unwinder_was_cut(unwinder), "there is no code");
}

Test(unwind, lists_no_more_than_there_is_room_for)
{
	ms_addr pcs[3] = { 0, 0, 7 };

	descend(12);
	cr_expect_eq(ms_unwind(unwinder, &kept.stack, pcs, 2), 2);
	cr_expect_eq(pcs[2], 7);
	cr_expect(ms_unwinder_was_cut(unwinder));
}

static int keep_in_sort(const void *a, const void *b)
{
	keep();
	return *(const char *)a - *(const char *)b;
}

Test(unwind, finds_callers_behind_the_c_library)
{
	char text[] = "ba";

	qsort(text, 2, 1, keep_in_sort);
	(void)compare();
}

/* Its CFA is what an expression gives. */
__attribute__((noinline)) static void align(unsigned n)
{
	char space[256] __attribute__((aligned(128)));

	memset(space, (int)n, sizeof(space));
	__asm__ volatile("" : : "r"(space) : "memory");
	descend(n);
	__asm__ volatile("" : : "r"(space) : "memory");
}

Test(unwind, passes_frames_that_were_aligned)
{
	align(3);
	cr_expect(compare() > 5);
}

static void on_signal(int sig)
{
	keep();
	cr_assert_eq(sig, SIGUSR1);
}

Test(unwind, passes_the_frame_of_a_signal)
{
	kept.most = KEPT; /* of which the kernel's frame has some thousands */
	cr_assert_neq(signal(SIGUSR1, on_signal), SIG_ERR);
	(void)raise(SIGUSR1);
	cr_expect(compare() > 5);
	cr_expect_eq(kept.exact, 2, "the trampoline, and where it leads back to");
}

/* Code without a table, which calls what is given with a frame pointer, or with none there. */
static void call_from_made_code(void (*function)(void), bool frame_pointer)
{
	static const uint8_t with[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	static const uint8_t without[] = { 0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3 };
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*call)(void (*)(void));

	cr_assert_neq(page, MAP_FAILED);
	memcpy(page, frame_pointer ? with : without,
	       frame_pointer ? sizeof(with) : sizeof(without));
	cr_assert_eq(mprotect(page, PAGE, PROT_READ | PROT_EXEC), 0);
	memcpy(&call, &page, sizeof(call));
	self.mappings = (struct ms_mappings){ 0 };
	start();
	call(function);
}

static size_t made_frame(void)
{
	ms_addr pcs[MOST];
	size_t n = ms_unwind(unwinder, &kept.stack, pcs, MOST);
	size_t i = 0;

	while (i < n && ms_maps_find(&self.mappings, pcs[i])->file)
		i++;
	return n - i;
}

Test(unwind, follows_the_frame_pointer_through_code_without_a_table)
{
	kept.most = KEPT; /* with a sanitizer there may be less than four frames in a page */
	call_from_made_code(keep, true);
	cr_expect(made_frame() > 3);
	call_from_made_code(keep, false);
	cr_expect_eq(made_frame(), 1);
}

/* ---- expressions ---- */

static struct ms_fake fake;

static void draw(void)
{
	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, 0x10000, 4096, MS_PROT_READ, "/lib/x.so");
}

static bool evaluate(uint8_t word_bytes, const char *code, size_t len, uint64_t *ret)
{
	static const uint64_t words[] = { 0x1111, 0x2222 };
	struct ms_kept_stack stack = { .known = 1U << 7 | 1U << 16,
		                       .word_bytes = word_bytes,
		                       .at = 0x7000,
		                       .bytes = (const uint8_t *)words,
		                       .n = sizeof(words) };
	const uint64_t first = 100;
	uint8_t *at = ms_fake_at(&fake, 0x10000);

	stack.registers[7] = 0x7000;
	stack.registers[16] = 0x400b;
	at[0] = (uint8_t)len;
	memcpy(at + 1, code, len);
	return ms_expression_evaluate(ms_source_reader(&fake.base), 0x10000, &stack, &first, ret);
}

#define EXPRESSION(code, value, good)               \
	{                                           \
		code, sizeof(code) - 1, value, good \
	}

static const struct {
	const char *code;
	size_t len;
	uint64_t value;
	bool good;
} expressions[] = {
	EXPRESSION("", 100, true),
	EXPRESSION("\x77\x08", 0x7008, true),
	EXPRESSION("\x77\x08\x06", 0x2222, true),
	EXPRESSION("\x77\x10\x06", 0, false),
	EXPRESSION("\x76\x00", 0, false),
	/* the one of PLTs: rsp + 8, and 8 more in the last instruction of an entry */
	EXPRESSION("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 0x7010, true),
	EXPRESSION("\x08\xff\x09\xff\x22", 0xfe, true),
	EXPRESSION("\x0b\xfe\xff\x1f", 2, true),
	EXPRESSION("\x10\x80\x01\x11\x7f\x1e", (uint64_t)-128, true),
	EXPRESSION("\x35\x33\x16\x1c", (uint64_t)-2, true),
	EXPRESSION("\x35\x33\x14\x1c", (uint64_t)-2, true),
	EXPRESSION("\x12\x22", 200, true),
	EXPRESSION("\x35\x13", 100, true),
	EXPRESSION("\x35\x15\x01", 100, true),
	EXPRESSION("\x23\x05\x96", 105, true),
	EXPRESSION("\x31\x1f\x34\x26", (uint64_t)-1, true),
	EXPRESSION("\x31\x1f\x08\x3f\x25", 1, true),
	EXPRESSION("\x31\x08\x40\x24", 0, true),
	EXPRESSION("\x33\x35\x27", 6, true),
	EXPRESSION("\x31\x1f\x30\x2d", 1, true),
	EXPRESSION("\x13\x13", 0, false),
	EXPRESSION("\x2f\x00\x00", 0, false),
	EXPRESSION("\x15\x09", 0, false),
	EXPRESSION("\x0e\x01", 0, false),
};

Test(expression, gives_what_the_standard_says, .init = draw)
{
	for (size_t i = 0; i < sizeof(expressions) / sizeof(expressions[0]); i++) {
		uint64_t value = 0;
		bool good = evaluate(8, expressions[i].code, expressions[i].len, &value);

		cr_expect_eq(good, expressions[i].good, "%zu", i);
		if (good)
			cr_expect_eq(value, expressions[i].value, "%zu: %lx", i, value);
	}
}

/* Words of 4 bytes, i386's numbers of registers (esp is 4), and sums that have no 33rd bit. */
static const struct {
	const char *code;
	size_t len;
	uint64_t value;
	bool good;
} narrow[] = {
	EXPRESSION("\x74\x08", 0x7008, true),
	EXPRESSION("\x74\x00\x06", 0x1111, true),
	EXPRESSION("\x74\x04\x06", 0, true),
	EXPRESSION("\x74\x0c\x06", 0, true),
	EXPRESSION("\x74\x10\x06", 0, false),
	EXPRESSION("\x77\x00", 0, false),
	EXPRESSION("\x79\x00", 0, false),
	EXPRESSION("\x74\x08\x0c\xf8\xff\xff\xff\x22\x06", 0x1111, true),
	EXPRESSION("\x0c\xff\xff\xff\xff\x32\x22", 1, true),
};

Test(expression, of_i386_has_its_words_and_registers, .init = draw)
{
	for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++) {
		uint64_t value = 0;
		bool good = evaluate(4, narrow[i].code, narrow[i].len, &value);

		cr_expect_eq(good, narrow[i].good, "%zu", i);
		if (good)
			cr_expect_eq(value, narrow[i].value, "%zu: %lx", i, value);
	}
}

Test(expression, its_stack_has_an_end, .init = draw)
{
	uint64_t value;
	char code[40];

	memset(code, 0x31, sizeof(code));
	cr_expect(evaluate(8, code, 15, &value));
	cr_expect_not(evaluate(8, code, 16, &value));
}
