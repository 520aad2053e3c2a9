/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/control.h"

#include <string.h>

enum {
	SELF = 0x10, /* in glibc's block: its own address, as at its begin */
	/* In musl's the ring of living threads (engine/libc/musl.c), and what becomes of it. */
	DTV = 0x8,
	PREVIOUS = 0x10,
	NEXT = 0x18,
	STATE = 0x38,
	LAST_STATE = 3,
	PREFIXES = 5, /* bytes at most from such a prefix to the address */
	FS = 0x64,
	NO_BASE = 0x25, /* an address of four bytes alone */
};

/*
 * Source: glibc's sysdeps/x86_64/nptl/tls.h, 2.26 to 2.43: __glibc_unused2, of 512 bytes; it is
 * zero in a new thread. The stack is nptl/descr.h's stackblock and stackblock_size.
 */
const struct ms_control ms_control_glibc = {
	.name = "glibc", .left = 0x80, .started = 0x88, .spare_end = 0xa0, .stack = 0x690
};

/*
 * Source: musl's src/internal/pthread_impl.h, 1.2.1 to 1.2.6. sysinfo is what 32-bit x86 calls the
 * kernel by; here it is zero, and each new thread has its maker's. The byte is one of four that
 * nothing lies in, between tsd_used and map_base.
 */
const struct ms_control ms_control_musl = {
	.name = "musl", .left = 0x20, .started = 0x44, .spare_end = 0x28, .stack = 0x48
};

/* An agent before this one may have left a count, and a 1, on a stack that is used again. */
static const uint64_t most_count = UINT64_C(1) << 40;

/* MS_CONTROL_FREE, MOVING or UNKNOWN. */
static enum ms_control_verdict recognize(const struct ms_control *control, uint64_t tp,
                                         const uint64_t *words)
{
	uint64_t previous = words[PREVIOUS / 8], next = words[NEXT / 8];

	if (words[0] != tp)
		return MS_CONTROL_UNKNOWN;
	if (control == &ms_control_glibc)
		return words[SELF / 8] == tp ? MS_CONTROL_FREE : MS_CONTROL_UNKNOWN;
	if (!words[DTV / 8] || previous % 8 || next % 8 || (uint32_t)words[STATE / 8] > LAST_STATE)
		return MS_CONTROL_UNKNOWN;
	/* It is put into the ring, and taken out of it, while it may stand already, or yet. */
	return previous && next && (previous == tp) == (next == tp) ? MS_CONTROL_FREE
	                                                            : MS_CONTROL_MOVING;
}

enum ms_control_verdict ms_control_check(const struct ms_control *control, uint64_t tp,
                                         const uint64_t words[MS_CONTROL_BYTES / 8], bool agent_was)
{
	const enum ms_control_verdict verdict = recognize(control, tp, words);
	uint64_t started = words[control->started / 8] >> control->started % 8 * 8;

	if (verdict == MS_CONTROL_UNKNOWN)
		return verdict;
	for (uint32_t at = control->started + 8; at < control->spare_end; at += 8)
		if (words[at / 8])
			return MS_CONTROL_USED;
	if (!agent_was && (words[control->left / 8] >= most_count || started > 1))
		return MS_CONTROL_USED;
	return verdict;
}

bool ms_control_is_named(const struct ms_control *control, const uint8_t *text, size_t n)
{
	for (size_t at = PREFIXES; at + 1 + sizeof(uint32_t) <= n; at++) {
		uint32_t distance;

		if (text[at] != NO_BASE || !memchr(text + at - PREFIXES, FS, PREFIXES))
			continue;
		memcpy(&distance, text + at + 1, sizeof(distance));
		if (distance >= control->left && distance < control->left + 8)
			return true;
		if (distance >= control->started && distance / 8 == control->started / 8)
			return true;
	}
	return false;
}
