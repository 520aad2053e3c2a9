/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

#include "shim/frames/cfi.h"
#include "shim/frames/walk.h"

/* ---- stacks of this process ---- */

enum { MOST = 128 };

static void forget(void)
{
}

static void start(void)
{
	cr_assert(ms_walk_init(forget));
}

/*
 * From the frame of this function on: who called it is the innermost. backtrace() has this
 * function, too, and with a sanitizer what stands in front of backtrace().
 */
__attribute__((noinline)) static void compare(void)
{
	void *theirs[MOST];
	uintptr_t pc[MOST];
	size_t n = ms_walk(__builtin_frame_address(0), pc, MOST);
	int m = backtrace(theirs, MOST);

	cr_assert(n > 0 && n < (size_t)m, "%zu, %d", n, m);
	cr_assert_eq(pc[0], (uintptr_t)__builtin_return_address(0) - 1);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(pc[i], (uintptr_t)theirs[i + (size_t)m - n] - 1, "%zu", i);
	cr_assert_eq(ms_walk(__builtin_frame_address(0), pc, 2), 2);
}

__attribute__((noinline)) static void descend(unsigned depth)
{
	volatile char space[256];

	space[depth] = 1;
	if (depth)
		descend(depth - 1);
	else
		compare();
	space[depth + 1] = space[depth];
}

Test(walk, finds_the_callers_that_the_compilers_unwinder_finds, .init = start)
{
	descend(0);
	descend(20);
	descend(21);
}

static int compare_in_sort(const void *a, const void *b)
{
	compare();
	return *(const char *)a - *(const char *)b;
}

Test(walk, finds_callers_behind_the_c_library, .init = start)
{
	char text[] = "ba";

	qsort(text, 2, 1, compare_in_sort);
	cr_assert_str_eq(text, "ab");
}

/* ---- tables ---- */

/* Code that is nowhere at 0x1000 from the header, and what is said of it. */
struct tables {
	uint8_t bytes[256];
	size_t used;
};

enum { CODE = 0x1000, CODE_BYTES = 0x100, HEADER_BYTES = 20 };

static void put(struct tables *t, const void *bytes, size_t n)
{
	cr_assert_leq(t->used + n, sizeof(t->bytes));
	memcpy(t->bytes + t->used, bytes, n);
	t->used += n;
}

static void put32(struct tables *t, int64_t value)
{
	int32_t as32 = (int32_t)value;

	put(t, &as32, sizeof(as32));
}

static void put_header(struct tables *t, int32_t n, int32_t fde)
{
	put(t, "\x01\x1b\x03\x3b", 4);
	put32(t, 0);
	put32(t, n);
	put32(t, CODE);
	put32(t, fde);
}

/* The CIE that compilers write, but for its letters; the CFA is rsp+8. */
static void put_cie(struct tables *t, const char *letters)
{
	size_t n = strlen(letters) + 1;

	put32(t, (int64_t)(4 + 1 + n + 3 + 2 + 5));
	put32(t, 0);
	put(t, "\x01", 1);
	put(t, letters, n);
	put(t, "\x01\x78\x10", 3);
	put(t, "\x01\x1b", 2);
	put(t, "\x0c\x07\x08\x90\x01", 5);
}

static void put_fde(struct tables *t, int64_t cie, const void *instructions, size_t n)
{
	put32(t, (int64_t)(4 + 4 + 4 + 1 + n));
	put32(t, (int64_t)t->used - cie);
	put32(t, CODE - (int64_t)t->used);
	put32(t, CODE_BYTES);
	put(t, "\0", 1);
	put(t, instructions, n);
}

static struct ms_cfi_rule find(const struct tables *t, uintptr_t offset)
{
	uintptr_t begin = (uintptr_t)t->bytes;

	return ms_cfi_find((struct ms_range){ begin, begin + t->used }, begin,
	                   begin + CODE + offset);
}

static struct tables describe(const char *letters, const void *instructions, size_t n)
{
	struct tables t = { .used = 0 };

	put_header(&t, 1, (int32_t)(HEADER_BYTES + 4 + 4 + 1 + strlen(letters) + 1 + 3 + 2 + 5));
	put_cie(&t, letters);
	put_fde(&t, HEADER_BYTES, instructions, n);
	return t;
}

#define DESCRIBED(bytes) describe("zR", bytes, sizeof(bytes) - 1)

static void check(const struct tables *t, uintptr_t offset, struct ms_cfi_rule expected)
{
	struct ms_cfi_rule rule = find(t, offset);

	cr_assert(rule.kind == expected.kind && rule.cfa == expected.cfa &&
	                  rule.rbp == expected.rbp,
	          "at %#zx: kind %d, CFA %d, frame pointer %d", (size_t)offset, rule.kind, rule.cfa,
	          rule.rbp);
}

#define RULE(...) ((struct ms_cfi_rule){ __VA_ARGS__ })

/* push rbp; mov rsp, rbp; ...; leave; ret */
Test(cfi, follows_a_frame_pointer)
{
	struct tables t = DESCRIBED("\x41\x0e\x10\x86\x02\x43\x0d\x06\x60\x0c\x07\x08\xc6");

	check(&t, 0, RULE(MS_CFI_RSP, 8, 0));
	check(&t, 1, RULE(MS_CFI_RSP, 16, -16));
	check(&t, 3, RULE(MS_CFI_RSP, 16, -16));
	check(&t, 4, RULE(MS_CFI_RBP, 16, -16));
	check(&t, 0x23, RULE(MS_CFI_RBP, 16, -16));
	check(&t, 0x24, RULE(MS_CFI_RSP, 8, 0));
	check(&t, CODE_BYTES - 1, RULE(MS_CFI_RSP, 8, 0));
	check(&t, CODE_BYTES, RULE(MS_CFI_OTHER, 0, 0));
}

Test(cfi, knows_the_first_function)
{
	struct tables t = DESCRIBED("\x07\x10");

	cr_assert_eq(find(&t, 5).kind, MS_CFI_END);
}

Test(cfi, recalls_what_it_was_told_to_remember)
{
	struct tables t = DESCRIBED("\x04\x10\0\0\0\x0e\x40\x86\x04\x0a\x02\x10\x0e\x08\xc6"
	                            "\x03\x10\0\x0b");

	check(&t, 0xf, RULE(MS_CFI_RSP, 8, 0));
	check(&t, 0x10, RULE(MS_CFI_RSP, 64, -32));
	check(&t, 0x20, RULE(MS_CFI_RSP, 8, 0));
	check(&t, 0x30, RULE(MS_CFI_RSP, 64, -32));
}

Test(cfi, leaves_what_is_unusual)
{
	struct tables t = DESCRIBED("\x0c\x0a\0");

	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* from r10 */
	t = DESCRIBED("\x0f\x03\x76\x78\x06");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* by an expression */
	t = DESCRIBED("\x10\x06\x02\x76\0");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* the frame pointer by one */
	t = DESCRIBED("\x14\x07\x02");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* the stack pointer is not the CFA */
	t = DESCRIBED("\x0e\x0c");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* half a word */
	t = DESCRIBED("\x3f");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* unknown */
	t = DESCRIBED("\x0b");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* nothing to recall */
	t = DESCRIBED("\x86\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* farther away than there is memory */
	t = DESCRIBED("\x13\xff\xff\xff\xff\xff\xff\xff\xff\x3f");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* so is the CFA */
	t = DESCRIBED("\x11\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f");
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0));
	t = describe("zRS", "", 0);
	check(&t, 0, RULE(MS_CFI_OTHER, 0, 0)); /* a signal's */
}

Test(cfi, believes_no_length)
{
	struct tables whole = DESCRIBED("\x41\x0e\x10\x86\x02\x43\x0d\x06");

	for (size_t used = 0; used < whole.used; used++) {
		struct tables *cut = malloc(sizeof(*cut));

		*cut = whole;
		cut->used = used;
		check(cut, 4, RULE(MS_CFI_OTHER, 0, 0));
		free(cut);
	}
}

Test(cfi, survives_any_byte)
{
	const struct tables whole = DESCRIBED("\x41\x0e\x10\x86\x02\x43\x0d\x06");

	for (size_t at = 0; at < whole.used; at++) {
		for (unsigned value = 0; value < 256; value++) {
			struct tables t = whole;

			t.bytes[at] = (uint8_t)value;
			(void)find(&t, 4);
		}
	}
}
