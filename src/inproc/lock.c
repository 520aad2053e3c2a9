/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/proc.h"

/* A waiter looks again after this: the thread that held it may have been in a parent. */
static const struct timespec LOOK_AGAIN = { 0, 100000000L };

/* The half that differs between threads, which futexes can wait for. */
static uint32_t *thread_half(struct ms_lock *lock)
{
	return (uint32_t *)(void *)&lock->owner;
}

static bool try_to_take(struct ms_lock *lock, uint64_t expected, uint64_t mine)
{
	return __atomic_compare_exchange_n(&lock->owner, &expected, mine, false, __ATOMIC_ACQUIRE,
	                                   __ATOMIC_RELAXED);
}

/*
 * Its holder will never give it back. One that was killed keeps its number until its parent
 * waits for it, which may never happen.
 */
static bool is_orphaned(uint64_t owner, uint64_t process)
{
	struct ms_proc_stat stat;
	pid_t thread = (pid_t)owner;

	if (owner >> 32 != process || (syscall(SYS_tkill, thread, 0) != 0 && errno == ESRCH))
		return true;
	return ms_proc_stat(thread, &stat) && (stat.state == 'Z' || stat.state == 'X');
}

bool ms_lock_take(struct ms_lock *lock, pid_t process)
{
	uint64_t mine = (uint64_t)(uint32_t)process << 32 | (uint32_t)gettid();

	while (!try_to_take(lock, 0, mine)) {
		uint64_t owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);

		if (owner == mine)
			return false;
		if (owner && is_orphaned(owner, (uint32_t)process) &&
		    try_to_take(lock, owner, mine))
			return true;
		(void)syscall(SYS_futex, thread_half(lock), FUTEX_WAIT_PRIVATE, (uint32_t)owner,
		              &LOOK_AGAIN, NULL, 0);
	}
	return true;
}

void ms_lock_give(struct ms_lock *lock)
{
	__atomic_store_n(&lock->owner, 0, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, thread_half(lock), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
