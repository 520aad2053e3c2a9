/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A waiter looks again after this: whoever held it may have been in a parent. */
static const struct timespec LOOK_AGAIN = { 0, 100 * 1000 * 1000 };

/* The half that tells threads apart, which futexes can wait for. */
static uint32_t *thread_half(struct ms_lock *lock)
{
	return (uint32_t *)(void *)&lock->owner;
}

bool ms_lock_take(struct ms_lock *lock)
{
	uint64_t process = (uint32_t)getpid();
	uint64_t mine = process << 32 | (uint32_t)gettid();

	for (;;) {
		uint64_t seen = 0;

		if (__atomic_compare_exchange_n(&lock->owner, &seen, mine, false, __ATOMIC_ACQUIRE,
		                                __ATOMIC_RELAXED))
			return true;
		if (seen == mine)
			return false;
		if (seen >> 32 != process &&
		    __atomic_compare_exchange_n(&lock->owner, &seen, mine, false, __ATOMIC_ACQUIRE,
		                                __ATOMIC_RELAXED))
			return true;
		(void)syscall(SYS_futex, thread_half(lock), FUTEX_WAIT_PRIVATE, (uint32_t)seen,
		              &LOOK_AGAIN, NULL, 0);
	}
}

void ms_lock_give(struct ms_lock *lock)
{
	__atomic_store_n(&lock->owner, 0, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, thread_half(lock), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
