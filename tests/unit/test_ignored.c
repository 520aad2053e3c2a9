/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/page.h"
#include "inproc/annotate/ignored.h"
#include "inproc/annotate/options.h"
#include "inproc/annotate/regions.h"

static const void *at(uintptr_t address)
{
	return (const char *)NULL + address;
}

static uintptr_t nth(size_t i)
{
	return 0x700000000000 + i * 32;
}

static struct ms_ignored *new_set(void)
{
	struct ms_ignored *set = calloc(1, sizeof(*set));

	cr_assert(set);
	return set;
}

static size_t told_by(const struct ms_ignored *set)
{
	return __atomic_load_n(&set->count, __ATOMIC_SEQ_CST);
}

Test(ignored, finds_an_entry_from_the_block_that_has_it)
{
	static const struct {
		uintptr_t entry;
		uintptr_t begin;
		size_t size;
		bool found;
	} rows[] = {
		{ 0x7f0000001000, 0x7f0000001000, 1, true },
		{ 0x7f0000001000, 0x7f0000001001, 100, false },
		{ 0x7f0000001000, 0x7f0000000ff0, 16, false },
		{ 0x7f0000001000, 0x7f0000000ff0, 17, true },
		{ 0x7f0000001008, 0x7f0000001000, 24, true },
		{ 0x7f000000107f, 0x7f0000001000, 128, true },
		{ 0x7f0000001080, 0x7f0000001000, 128, false },
		{ 0x7f0000abcdef, 0x7f0000000000, 0x1000000,
		  true }, /* more than there are buckets */
		{ 0x7f0000abcdef, 0x7f0000000000, 0x100000000,
		  true }, /* more than there are pages */
		{ 0x7f0000abcdef, 0x7e0000000000, 0x100000000, false }, /* as many, elsewhere */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ms_ignored *set = new_set();

		cr_assert(ms_ignored_add(set, at(rows[i].entry)));
		cr_expect_eq(ms_ignored_remove(set, at(rows[i].begin), rows[i].size), rows[i].found,
		             "row %zu", i);
		cr_expect_eq(ms_ignored_any(set), !rows[i].found, "row %zu", i);
		free(set);
	}
}

Test(ignored, keeps_an_entry_once_however_often_it_is_put_in)
{
	struct ms_ignored *set = new_set();

	for (int i = 0; i < 100; i++)
		cr_assert(ms_ignored_add(set, at(nth(0))));
	cr_assert_eq(told_by(set), 1);
	cr_assert(ms_ignored_remove(set, at(nth(0)), 1));
	cr_assert_not(ms_ignored_remove(set, at(nth(0)), 1));
	free(set);
}

/* Every byte of a block at once: many times what a bucket has. */
Test(ignored, forgets_all_addresses_inside_of_a_block)
{
	struct ms_ignored *set = new_set();

	for (uintptr_t i = 0; i < 64; i++)
		cr_assert(ms_ignored_add(set, at(nth(0) + i)));
	cr_assert_eq(told_by(set), 64);
	cr_assert(ms_ignored_remove(set, at(nth(0)), 32));
	cr_assert_eq(told_by(set), 32);
	cr_assert(ms_ignored_remove(set, at(nth(1)), 32));
	cr_assert_not(ms_ignored_any(set));
	free(set);
}

Test(ignored, grows_without_losing_any)
{
	enum { MANY = 500000 };
	struct ms_ignored *set = new_set();

	for (size_t i = 0; i < MANY; i++)
		cr_assert(ms_ignored_add(set, at(nth(i))));
	cr_assert_eq(told_by(set), MANY);
	for (size_t i = 1; i < MANY; i += 2)
		cr_assert(ms_ignored_remove(set, at(nth(i)), 1));
	for (size_t i = 0; i < MANY; i++)
		cr_assert_eq(ms_ignored_remove(set, at(nth(i)), 1), i % 2 == 0, "%zu", i);
	cr_assert_not(ms_ignored_any(set));
	free(set);
}

/* Slots are used again: what comes and goes for ever needs no second table. */
Test(ignored, does_not_grow_by_coming_and_going)
{
	struct ms_ignored *set = new_set();

	for (size_t i = 0; i < 1000000; i++) {
		cr_assert(ms_ignored_add(set, at(nth(i))));
		cr_assert(ms_ignored_remove(set, at(nth(i)), 32));
	}
	cr_assert(set->tables[0]);
	cr_assert_null(set->tables[1]);
	free(set);
}

Test(ignored, keeps_errno)
{
	struct ms_ignored *set = new_set();

	errno = 12345;
	for (size_t i = 0; i < 10000; i++)
		cr_assert(ms_ignored_add(set, at(nth(i))));
	cr_assert_eq(errno, 12345);
	free(set);
}

static bool can_read(const char *p)
{
	char byte;
	struct iovec to = { &byte, 1 };
	struct iovec from = { (void *)(uintptr_t)p, 1 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* Or the kernel would make one mapping of it and of its neighbour, and all be reached. */
Test(ignored, stands_apart_from_other_mappings)
{
	struct ms_ignored *set = new_set();
	const char *table;

	cr_assert(ms_ignored_add(set, at(nth(0))));
	table = (const char *)set->tables[0];
	cr_assert(can_read(table));
	cr_assert(can_read(table + ms_page_bytes() - 1));
	cr_assert_not(can_read(table - 1));
	cr_assert_not(can_read(table + ms_page_bytes()));
	free(set);
}

/* ---- at once ---- */

enum { THREADS = 8, MINE = 3000, ROUNDS = 40 };

struct hammer {
	struct ms_ignored *set;
	size_t first;
	size_t wrong;
};

/* Thread @n's addresses lie between those of all others, in the same buckets. */
static void *hammer(void *arg)
{
	struct hammer *mine = arg;

	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < MINE; i++)
			mine->wrong +=
				!ms_ignored_add(mine->set, at(nth(mine->first + i * THREADS)));
		for (size_t i = 0; i < MINE; i++)
			mine->wrong += !ms_ignored_remove(mine->set,
			                                  at(nth(mine->first + i * THREADS)), 32);
		for (size_t i = 0; i < MINE; i += 7)
			mine->wrong += ms_ignored_remove(mine->set,
			                                 at(nth(mine->first + i * THREADS)), 32);
	}
	return NULL;
}

Test(ignored, is_true_for_each_of_many_threads)
{
	struct hammer hammers[THREADS] = { 0 };
	struct ms_ignored *set = new_set();
	pthread_t ids[THREADS];

	for (size_t i = 0; i < THREADS; i++) {
		hammers[i].set = set;
		hammers[i].first = i;
		cr_assert_eq(pthread_create(&ids[i], NULL, hammer, &hammers[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		cr_expect_eq(hammers[i].wrong, 0, "thread %zu: %zu wrong", i, hammers[i].wrong);
	}
	cr_assert_not(ms_ignored_any(set));
	free(set);
}

Test(ignored, works_in_the_child_of_threads_that_were_in_it, .timeout = 60)
{
	struct hammer one = { .set = new_set() };
	pthread_t id;

	cr_assert_eq(pthread_create(&id, NULL, hammer, &one), 0);
	for (int i = 0; i < 50; i++) {
		struct hammer other = { .set = one.set, .first = 3 };
		pid_t child = fork();
		int status;

		if (child == 0) {
			hammer(&other);
			_exit(other.wrong != 0);
		}
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert_eq(status, 0);
	}
	pthread_join(id, NULL);
	cr_assert_eq(one.wrong, 0);
	free(one.set);
}

static struct {
	struct ms_ignored set;
	size_t calls;
	size_t wrong;
} handled;

static void on_alarm(int number)
{
	(void)number;
	for (size_t i = 0; i < 40; i++)
		handled.wrong += !ms_ignored_add(&handled.set, at(nth(4 * i + 1)));
	for (size_t i = 0; i < 40; i++)
		handled.wrong += !ms_ignored_remove(&handled.set, at(nth(4 * i + 1)), 32);
	handled.calls++;
}

Test(ignored, may_be_called_by_a_handler_that_interrupts_it, .timeout = 60)
{
	struct itimerval often = { { 0, 50 }, { 0, 50 } };
	struct itimerval never = { 0 };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	while (__atomic_load_n(&handled.calls, __ATOMIC_RELAXED) < 2000) {
		for (size_t i = 0; i < 40; i++)
			cr_assert(ms_ignored_add(&handled.set, at(nth(4 * i))));
		for (size_t i = 0; i < 40; i++)
			cr_assert(ms_ignored_remove(&handled.set, at(nth(4 * i)), 32));
	}
	setitimer(ITIMER_REAL, &never, NULL);
	cr_assert_eq(handled.wrong, 0);
	cr_assert_not(ms_ignored_any(&handled.set));
}

/* ---- root regions ---- */

Test(regions, are_known_by_address_and_size)
{
	cr_assert(ms_regions_add(at(0x10000), 100));
	cr_assert(ms_regions_add(at(0x10000), 200));
	cr_assert_not(ms_regions_remove(at(0x10000), 150));
	cr_assert_not(ms_regions_remove(at(0x10010), 100));
	cr_assert(ms_regions_remove(at(0x10000), 100));
	cr_assert_not(ms_regions_remove(at(0x10000), 100));
	cr_assert(ms_regions_remove(at(0x10000), 200));
}

Test(regions, count_each_registration)
{
	for (int i = 0; i < 3; i++)
		cr_assert(ms_regions_add(at(0x20000), (size_t)1 << 40));
	for (int i = 0; i < 3; i++)
		cr_assert(ms_regions_remove(at(0x20000), (size_t)1 << 40));
	cr_assert_not(ms_regions_remove(at(0x20000), (size_t)1 << 40));
}

Test(regions, are_refused_when_there_is_no_slot)
{
	for (uintptr_t i = 0; i < 4096; i++)
		cr_assert(ms_regions_add(at(0x10000 + i), 1));
	cr_assert_not(ms_regions_add(at(0x9000), 1));
	cr_assert(ms_regions_remove(at(0x10000 + 77), 1));
	cr_assert(ms_regions_add(at(0x9000), 1));
}

static void *register_and_back(void *arg)
{
	const char *mine = arg;
	size_t wrong = 0;

	for (size_t i = 0; i < 20000; i++) {
		wrong += !ms_regions_add(mine, 100 + i % 10000);
		wrong += !ms_regions_remove(mine, 100 + i % 10000);
	}
	return wrong ? arg : NULL;
}

Test(regions, are_true_for_each_of_many_threads)
{
	pthread_t ids[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&ids[i], NULL, register_and_back,
		                            (char *)NULL + (i + 1) * 0x10000),
		             0);
	for (size_t i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(ids[i], &wrong);
		cr_expect_null(wrong);
	}
}

/* ---- LeakSanitizer's options ---- */

Test(options, are_read_as_the_sanitizers_read_them)
{
	static const struct {
		char text[80];
		char name[16];
		char value[24]; /* "-": none */
	} rows[] = {
		{ "exitcode=7", "exitcode", "7" },
		{ "", "exitcode", "-" },
		{ "exitcodes=7", "exitcode", "-" },
		{ "exitcode", "exitcode", "-" },
		{ "a=1:exitcode=7:b=2", "exitcode", "7" },
		{ "a=1,exitcode=7 b=2", "exitcode", "7" },
		{ "  a=1\n exitcode=7\n", "exitcode", "7" },
		{ "exitcode=7:exitcode=8", "exitcode", "8" },
		{ "exitcode=", "exitcode", "" },
		{ "x='exitcode=9':exitcode=7", "exitcode", "7" },
		{ "exitcode=7:x='exitcode=9'", "exitcode", "7" },
		{ "suppressions='a b:c':x=1", "suppressions", "a b:c" },
		{ "suppressions=\"a 'b':c", "suppressions", "a 'b':c" },
		{ "suppressions=0123456789012345678901234567", "suppressions", "-" },
		{ ":::", "exitcode", "-" },
		{ "=:=7:exitcode=7=8", "exitcode", "7=8" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char value[24] = "-";
		long length = ms_option_find(rows[i].text, rows[i].name, value, sizeof(value));

		cr_expect_str_eq(value, rows[i].value, "row %zu", i);
		cr_expect_eq(length, rows[i].value[0] == '-' ? -1 : (long)strlen(value), "row %zu",
		             i);
	}
}
