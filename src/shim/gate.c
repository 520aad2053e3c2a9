/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Nearly every thread has a slot of its own, and says there by plain stores that it is
 * inside. The thread that closes the gate pays for that: by membarrier() each thread orders its
 * store before its look at whether the gate is closed. Without that system call, for a
 * thread that is ending, and for those that find no slot, there are counters that many
 * share, changed atomically.
 */

#include "shim/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/next.h"

enum { SLOTS = 1024, STRIPES = 64, LINE_BYTES = 64 };

/* Longer than any thread is inside that will ever leave. */
enum { YIELDS = 100, ROUNDS = 2000, ROUND_NS = 500000 };

/* In a cache line of its own. */
struct slot {
	uint32_t inside;
	uint32_t owned; /* by a thread; of stripes never */
} __attribute__((aligned(LINE_BYTES)));

static struct {
	uint32_t closed;    /* a futex */
	uint32_t again;     /* how often more, by the same thread */
	const void *closer; /* that thread's `own`: it comes in nevertheless, */
	uint32_t to_all;    /* but not then */
	uint32_t threads;
	uint32_t used; /* slots that ever had an owner; they are the first */
	bool has_slots;
	pthread_key_t key; /* its destructor sees the end of a thread */
	struct slot slot[SLOTS];
	struct slot stripe[STRIPES];
} gate; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static MS_SHIM_TLS struct {
	bool inside;
	bool counted; /* in its slot or stripe */
	bool ending;  /* and has given its slot back */
	struct slot *slot;
	struct slot *stripe;
} own; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static bool membarrier(int command)
{
	int kept = errno;
	bool done = syscall(SYS_membarrier, command, 0, 0) == 0;

	errno = kept;
	return done;
}

static void give_slot_back(void *slot)
{
	own.ending = true;
	own.slot = NULL;
	__atomic_store_n(&((struct slot *)slot)->owned, 0, __ATOMIC_RELEASE);
}

bool ms_gate_init(void)
{
	if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		return true;
	gate.has_slots = pthread_key_create(&gate.key, give_slot_back) == 0;
	return gate.has_slots;
}

bool ms_gate_is_ours(void)
{
	return __atomic_load_n(&gate.closer, __ATOMIC_RELAXED) == &own;
}

static void wait_for_opening(void)
{
	int kept = errno;

	while (__atomic_load_n(&gate.closed, __ATOMIC_ACQUIRE))
		(void)syscall(SYS_futex, &gate.closed, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	errno = kept;
}

/* Of pthread_atfork()'s handlers, some run while ours keep the gate closed, and allocate. */
static bool is_closed_to_us(void)
{
	return __builtin_expect(__atomic_load_n(&gate.closed, __ATOMIC_SEQ_CST) != 0, 0) &&
	       (!ms_gate_is_ours() || __atomic_load_n(&gate.to_all, __ATOMIC_RELAXED));
}

/* ---- which thread counts where ---- */

static bool try_slot(uint32_t i)
{
	uint32_t none = 0;
	uint32_t used = __atomic_load_n(&gate.used, __ATOMIC_RELAXED);

	if (!__atomic_compare_exchange_n(&gate.slot[i].owned, &none, 1, false, __ATOMIC_SEQ_CST,
	                                 __ATOMIC_RELAXED))
		return false;
	while (used <= i && !__atomic_compare_exchange_n(&gate.used, &used, i + 1, false,
	                                                 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	return true;
}

/* Context: this thread counts as inside already, as the C library may allocate. */
static void find_slot(void)
{
	int kept = errno;

	for (uint32_t i = 0; i < SLOTS; i++) {
		if (!try_slot(i))
			continue;
		if (pthread_setspecific(gate.key, &gate.slot[i]) == 0)
			own.slot = &gate.slot[i];
		else
			__atomic_store_n(&gate.slot[i].owned, 0, __ATOMIC_RELEASE);
		break;
	}
	own.ending = !own.slot; /* or not to be asked again */
	errno = kept;
}

static struct slot *own_stripe(void)
{
	if (!own.stripe)
		own.stripe = &gate.stripe[__atomic_fetch_add(&gate.threads, 1, __ATOMIC_RELAXED) %
		                          STRIPES];
	return own.stripe;
}

/* ---- in and out ---- */

/* Only the compiler is kept from exchanging the two: membarrier() does the rest. */
static bool enter_by_slot(void)
{
	__atomic_store_n(&own.slot->inside, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!is_closed_to_us())
		return true;
	__atomic_store_n(&own.slot->inside, 0, __ATOMIC_RELEASE);
	return false;
}

static bool enter_by_stripe(void)
{
	uint32_t *inside = &own_stripe()->inside;

	(void)__atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST);
	if (!is_closed_to_us())
		return true;
	(void)__atomic_fetch_sub(inside, 1, __ATOMIC_SEQ_CST);
	return false;
}

bool ms_gate_enter(void)
{
	if (own.inside)
		return false;
	own.inside = true;
	if (__builtin_expect(!own.slot, 0) && gate.has_slots && !own.ending)
		find_slot();
	while (!(own.slot ? enter_by_slot() : enter_by_stripe()))
		wait_for_opening();
	own.counted = true;
	return true;
}

void ms_gate_leave(void)
{
	own.counted = false;
	if (__builtin_expect(own.slot != NULL, 1))
		__atomic_store_n(&own.slot->inside, 0, __ATOMIC_RELEASE);
	else
		(void)__atomic_fetch_sub(&own_stripe()->inside, 1, __ATOMIC_RELEASE);
	own.inside = false;
}

/* ---- closing ---- */

static uint32_t others_inside(void)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < STRIPES; i++)
		n += __atomic_load_n(&gate.stripe[i].inside, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < __atomic_load_n(&gate.used, __ATOMIC_SEQ_CST); i++)
		n += &gate.slot[i] != own.slot &&
		     __atomic_load_n(&gate.slot[i].inside, __ATOMIC_SEQ_CST);
	return n - (own.counted && !own.slot ? 1 : 0);
}

/* From here on, every other thread with a slot is seen inside, or sees the gate closed. */
static void order_others(void)
{
	for (unsigned i = 0; i < __atomic_load_n(&gate.used, __ATOMIC_SEQ_CST); i++) {
		if (&gate.slot[i] != own.slot &&
		    __atomic_load_n(&gate.slot[i].owned, __ATOMIC_SEQ_CST)) {
			(void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
			return;
		}
	}
}

void ms_gate_close(void)
{
	static const struct timespec round = { 0, ROUND_NS };
	uint32_t open = 0;

	if (ms_gate_is_ours() && !gate.to_all) {
		gate.again++;
		return;
	}
	while (!__atomic_compare_exchange_n(&gate.closed, &open, 1, false, __ATOMIC_SEQ_CST,
	                                    __ATOMIC_SEQ_CST)) {
		wait_for_opening();
		open = 0;
	}
	__atomic_store_n(&gate.closer, &own, __ATOMIC_RELAXED);
	order_others();
	for (unsigned i = 0; i < ROUNDS && others_inside(); i++) {
		if (i < YIELDS)
			(void)sched_yield();
		else
			(void)nanosleep(&round, NULL);
	}
}

void ms_gate_close_to_all(void)
{
	ms_gate_close();
	__atomic_store_n(&gate.to_all, 1, __ATOMIC_RELAXED);
}

void ms_gate_open(void)
{
	__atomic_store_n(&gate.to_all, 0, __ATOMIC_RELAXED);
	if (gate.again) {
		gate.again--;
		return;
	}
	__atomic_store_n(&gate.closer, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&gate.closed, 0, __ATOMIC_SEQ_CST);
	(void)syscall(SYS_futex, &gate.closed, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* The child's memory is another one, and has to be registered again. */
void ms_gate_reset(void)
{
	for (unsigned i = 0; i < STRIPES; i++)
		gate.stripe[i].inside = 0;
	for (unsigned i = 0; i < gate.used; i++)
		gate.slot[i] = (struct slot){ .owned = &gate.slot[i] == own.slot };
	if (gate.has_slots)
		gate.has_slots = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	if (!gate.has_slots)
		own.slot = NULL;
	if (own.counted)
		(own.slot ? own.slot : own_stripe())->inside = 1;
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
