/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a function's unwind tables say of one of its calls never changes, so it is read
 * once and remembered by the call's address: a frame then costs a look into a table and
 * one at the stack. Nothing of a stack itself is remembered, so longjmp(), coroutines and
 * signal handlers change nothing: each walk begins from the registers of its call.
 * Whatever is not plain (a signal's frame, code without tables, an aligned frame) ends it
 * without an answer, and the full unwinder is asked for the whole stack.
 *
 * What is remembered gets wrong only when other code comes to the same address, which
 * takes the end of a module: while one is in any stack, it stays. The loader frees the
 * module's description with our free() and allocates that of the next one with our
 * calloc(), before any of its code runs. So after a call by the loader the next walk asks
 * how many modules have gone, and if it is another number all is forgotten. Where not all
 * calls are seen, each walk asks.
 */

#include "shim/frames/walk.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/elf/rows.h"
#include "base/libc.h"
#include "shim/frames/cfi.h"
#include "shim/pointer.h"
#include "shim/track/loaded.h"

enum { LINES = 1 << 14, WAYS = 4, LINE_BYTES = 64, WORD = 8 };

/*
 * In a rule: its generation, and above it its kind and both offsets in words; that which
 * each frame needs on top. So halves of two entries of one line together stand for an
 * address that is far from either.
 */
enum { GENERATION_BITS = 32, KIND_BITS = 2, CFA_BITS = 15, RBP_BITS = 15 };

/*
 * Written and read without a lock: what is half of one entry and half of another is none,
 * as the address is only there combined with its rule.
 */
struct known {
	uint64_t check; /* the address xor the rule */
	uint64_t rule;
};

_Static_assert(sizeof(struct known) * WAYS == LINE_BYTES, "a line of the cache each");
_Static_assert(GENERATION_BITS + KIND_BITS + CFA_BITS + RBP_BITS == 64, "one word");

static struct {
	int (*find_object)(void *pc, struct dl_find_object *ret);
	void (*forget)(void);
	uint32_t doubts;  /* so far */
	uint32_t settled; /* of them; not before all is forgotten that is to be */
	uint32_t generation;
	uint64_t gone; /* modules, so far */
} state;               /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* By itself, so that a line's address is known soon. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static struct known lines[LINES][WAYS] __attribute__((aligned(LINE_BYTES)));

struct ms_range ms_walk_loader; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

bool ms_walk_init(void (*forget)(void))
{
	void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
	struct dl_find_object loader;
	uintptr_t base = MS_ROW_NATIVE && sizeof(base) == WORD ? getauxval(AT_BASE) : 0;

	memcpy(&state.find_object, &symbol, sizeof(symbol));
	if (!symbol || !base || state.find_object(ms_pointer(base), &loader) != 0) {
		state.find_object = NULL;
		return false;
	}
	ms_walk_loader = (struct ms_range){ (uintptr_t)loader.dlfo_map_start,
		                            (uintptr_t)loader.dlfo_map_end };
	state.forget = forget;
	ms_walk_doubt();
	return true;
}

void ms_walk_doubt(void)
{
	(void)__atomic_add_fetch(&state.doubts, 1, __ATOMIC_RELEASE);
}

/* ---- forgetting ---- */

static bool is_settled(void)
{
	return __atomic_load_n(&state.settled, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&state.doubts, __ATOMIC_ACQUIRE);
}

/* Two threads may both do so: what was forgotten twice is only learned again. */
static void settle(void)
{
	uint32_t doubts = __atomic_load_n(&state.doubts, __ATOMIC_ACQUIRE);
	uint64_t gone = ms_loaded_look();

	if (__atomic_load_n(&state.gone, __ATOMIC_ACQUIRE) != gone) {
		(void)__atomic_add_fetch(&state.generation, 1, __ATOMIC_RELEASE);
		state.forget();
		__atomic_store_n(&state.gone, gone, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&state.settled, doubts, __ATOMIC_RELEASE);
}

/* ---- rules ---- */

static uint64_t pack(struct ms_cfi_rule rule, uint32_t generation)
{
	uint64_t cfa = (uint64_t)((int64_t)rule.cfa / WORD) & ((1U << CFA_BITS) - 1);
	uint64_t rbp = (uint64_t)((int64_t)rule.rbp / WORD) & ((1U << RBP_BITS) - 1);

	return generation | (uint64_t)rule.kind << GENERATION_BITS |
	       rbp << (GENERATION_BITS + KIND_BITS) | cfa << (64 - CFA_BITS);
}

static inline enum ms_cfi_kind kind_of(uint64_t rule)
{
	return (enum ms_cfi_kind)(rule >> GENERATION_BITS & ((1U << KIND_BITS) - 1));
}

/* Sign-extended: the field's high bit is moved to the top and back. Bytes. */
static inline intptr_t cfa_of(uint64_t rule)
{
	return (intptr_t)((int64_t)rule >> (64 - CFA_BITS)) * WORD;
}

static inline intptr_t rbp_of(uint64_t rule)
{
	return (intptr_t)((int64_t)(rule << CFA_BITS) >> (64 - RBP_BITS)) * WORD;
}

static struct known *line_of(uintptr_t pc)
{
	return lines[pc % LINES];
}

/* Of code that is in no module nothing is remembered: it may go unseen. */
static uint64_t learn(uintptr_t pc, uint32_t generation)
{
	struct ms_cfi_rule rule = { MS_CFI_OTHER, 0, 0 };
	struct known *line = line_of(pc);
	struct dl_find_object module;
	unsigned way = 0;
	uint64_t packed;

	if (state.find_object(ms_pointer(pc), &module) != 0)
		return MS_CFI_OTHER;
	if (module.dlfo_eh_frame)
		rule = ms_cfi_find((struct ms_range){ (uintptr_t)module.dlfo_map_start,
		                                      (uintptr_t)module.dlfo_map_end },
		                   (uintptr_t)module.dlfo_eh_frame, pc);
	packed = pack(rule, generation);
	/* the first that is empty or of the past, or else any */
	while (way < WAYS && __atomic_load_n(&line[way].check, __ATOMIC_RELAXED) &&
	       (uint32_t)__atomic_load_n(&line[way].rule, __ATOMIC_RELAXED) == generation)
		way++;
	way = way < WAYS ? way : pc % WAYS;
	__atomic_store_n(&line[way].rule, packed, __ATOMIC_RELAXED);
	__atomic_store_n(&line[way].check, pc ^ packed, __ATOMIC_RELAXED);
	return packed;
}

static inline uint64_t rule_at(uintptr_t pc, uint32_t generation)
{
	const struct known *line = line_of(pc);

	for (unsigned way = 0; way < WAYS; way++) {
		uint64_t rule = __atomic_load_n(&line[way].rule, __ATOMIC_RELAXED);

		if ((__atomic_load_n(&line[way].check, __ATOMIC_RELAXED) ^ rule) == pc &&
		    (uint32_t)rule == generation)
			return rule;
	}
	return learn(pc, generation);
}

/* ---- walking ---- */

static uintptr_t word_at(uintptr_t address)
{
	return *(const uintptr_t *)ms_pointer(address);
}

size_t ms_walk(const void *frame, uint64_t *pc, size_t max)
{
	uintptr_t rbp = word_at((uintptr_t)frame);
	uintptr_t cfa = (uintptr_t)frame + 2 * (uintptr_t)WORD;
	uint32_t generation;

	if (__builtin_expect(!is_settled(), 0))
		settle();
	generation = __atomic_load_n(&state.generation, __ATOMIC_ACQUIRE);
	for (size_t n = 0;;) {
		uintptr_t call = word_at(cfa - WORD);
		uintptr_t callers;
		uint64_t rule;

		if (!call)
			return n;
		pc[n++] = --call; /* it is behind the call, which may end a function */
		if (n == max)
			return n;
		rule = rule_at(call, generation);
		if (kind_of(rule) == MS_CFI_END)
			return n;
		callers = (kind_of(rule) == MS_CFI_RSP ? cfa : rbp) + (uintptr_t)cfa_of(rule);
		if (kind_of(rule) == MS_CFI_OTHER || callers <= cfa || callers % WORD)
			return 0;
		cfa = callers;
		if (rbp_of(rule))
			rbp = word_at(cfa + (uintptr_t)rbp_of(rule));
	}
}
