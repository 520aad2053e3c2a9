/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/next.h"

/* Threads count themselves in different cache lines. */
enum { STRIPES = 64, LINE_BYTES = 64 };

/* Longer than anybody is inside who will ever leave. */
enum { YIELDS = 100, ROUNDS = 2000, ROUND_NS = 500000 };

static struct {
	uint32_t closed; /* a futex */
	uint32_t threads;
	struct {
		uint32_t inside;
	} __attribute__((aligned(LINE_BYTES))) stripe[STRIPES];
} gate; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static MS_SHIM_TLS struct {
	bool inside;
	bool counted;    /* in its stripe */
	uint32_t stripe; /* plus one; 0 when it has none yet */
} own;                   /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static void wait_for_opening(void)
{
	int kept = errno;

	while (__atomic_load_n(&gate.closed, __ATOMIC_ACQUIRE))
		(void)syscall(SYS_futex, &gate.closed, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	errno = kept;
}

static uint32_t *own_stripe(void)
{
	if (!own.stripe)
		own.stripe = 1 + __atomic_fetch_add(&gate.threads, 1, __ATOMIC_RELAXED) % STRIPES;
	return &gate.stripe[own.stripe - 1].inside;
}

bool ms_gate_enter(void)
{
	uint32_t *stripe;

	if (own.inside)
		return false;
	own.inside = true;
	stripe = own_stripe();
	for (;;) {
		(void)__atomic_fetch_add(stripe, 1, __ATOMIC_SEQ_CST);
		if (__builtin_expect(!__atomic_load_n(&gate.closed, __ATOMIC_SEQ_CST), 1))
			break;
		(void)__atomic_fetch_sub(stripe, 1, __ATOMIC_SEQ_CST);
		wait_for_opening();
	}
	own.counted = true;
	return true;
}

void ms_gate_leave(void)
{
	own.counted = false;
	(void)__atomic_fetch_sub(own_stripe(), 1, __ATOMIC_RELEASE);
	own.inside = false;
}

static uint32_t others_inside(void)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < STRIPES; i++)
		n += __atomic_load_n(&gate.stripe[i].inside, __ATOMIC_SEQ_CST);
	return n - (own.counted ? 1 : 0);
}

void ms_gate_close(void)
{
	static const struct timespec round = { 0, ROUND_NS };
	uint32_t open = 0;

	while (!__atomic_compare_exchange_n(&gate.closed, &open, 1, false, __ATOMIC_SEQ_CST,
	                                    __ATOMIC_SEQ_CST)) {
		wait_for_opening();
		open = 0;
	}
	for (unsigned i = 0; i < ROUNDS && others_inside(); i++) {
		if (i < YIELDS)
			(void)sched_yield();
		else
			(void)nanosleep(&round, NULL);
	}
}

void ms_gate_open(void)
{
	__atomic_store_n(&gate.closed, 0, __ATOMIC_SEQ_CST);
	(void)syscall(SYS_futex, &gate.closed, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void ms_gate_reset(void)
{
	for (unsigned i = 0; i < STRIPES; i++)
		gate.stripe[i].inside = 0;
	if (own.counted)
		*own_stripe() = 1;
	ms_gate_open();
}

bool ms_gate_exclude(void)
{
	bool was = own.inside;

	own.inside = true;
	return was;
}

void ms_gate_include(bool was_inside)
{
	own.inside = was_inside;
}
