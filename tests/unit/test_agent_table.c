/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "target/inject/agent/table.h"

enum { BASE = 0x10000, STEP = 16 };

/* As attach makes it: zeroed, and pages that nobody touches are not there. */
static struct ms_agent_data *table(void)
{
	struct ms_agent_data *data = mmap(NULL, sizeof(*data), PROT_READ | PROT_WRITE,
	                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(data, MAP_FAILED);
	return data;
}

static bool add(struct ms_agent_data *data, uint64_t block)
{
	uint32_t record = ms_agent_reserve(data);

	return record != MS_AGENT_NONE && ms_agent_enter(data, block, record);
}

static bool drop(struct ms_agent_data *data, uint64_t block)
{
	uint32_t record = ms_agent_take(data, block);

	if (record == MS_AGENT_NONE)
		return false;
	ms_agent_release(data, record);
	return true;
}

static size_t n_live(const struct ms_agent_data *data)
{
	size_t n = 0;

	for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
		n += data->slots[i] != 0;
	return n;
}

/* How many records are reserved before none is left. */
static size_t n_free(struct ms_agent_data *data)
{
	size_t n = 0;

	while (ms_agent_reserve(data) != MS_AGENT_NONE)
		n++;
	return n;
}

/* jemalloc's and tcmalloc's are, when they are of so many bytes. */
Test(agent_table, tells_blocks_apart_that_lie_eight_bytes_apart)
{
	struct ms_agent_data *data = table();

	cr_assert(add(data, BASE + 8));
	cr_expect_not(drop(data, BASE), "its neighbour was freed");
	cr_assert(add(data, BASE));
	cr_expect_eq(n_live(data), 2);
	cr_expect(drop(data, BASE + 8) && drop(data, BASE));
	cr_expect_eq(n_live(data), 0);
}

Test(agent_table, keeps_every_bit_of_an_address_and_a_number)
{
	const uint64_t highest = UINT64_C(0x7ffffffffff8);
	const uint64_t slot = ms_agent_slot_of(highest, MS_AGENT_RECORDS - 1);

	cr_expect_eq(ms_agent_block_of(slot), highest);
	cr_expect_eq(ms_agent_record_of(slot), MS_AGENT_RECORDS - 1);
}

Test(agent_table, a_block_is_there_until_it_is_taken)
{
	struct ms_agent_data *data = table();

	cr_expect_not(ms_agent_may_have(data, BASE));
	cr_assert(add(data, BASE));
	cr_expect(ms_agent_may_have(data, BASE));
	uint32_t record = ms_agent_take(data, BASE);
	cr_assert_neq(record, MS_AGENT_NONE);
	cr_expect_eq(data->records[record].block, BASE);
	cr_expect_not(ms_agent_may_have(data, BASE));
	cr_expect_eq(ms_agent_take(data, BASE), MS_AGENT_NONE, "once only");
}

Test(agent_table, a_slot_says_the_whole_address)
{
	static const uint64_t blocks[] = { 16, 0x7fffffffeff0, 0x555555556010 };
	struct ms_agent_data *data = table();

	for (size_t i = 0; i < 3; i++) {
		cr_assert(add(data, blocks[i]));
		size_t at = 0;
		while (!data->slots[at])
			at++;
		cr_expect_eq(ms_agent_block_of(data->slots[at]), blocks[i]);
		cr_expect_eq(data->records[ms_agent_record_of(data->slots[at])].block, blocks[i]);
		cr_expect(drop(data, blocks[i]));
	}
}

Test(agent_table, a_block_that_realloc_left_is_entered_again)
{
	struct ms_agent_data *data = table();

	cr_assert(add(data, BASE));
	cr_expect(ms_agent_enter(data, BASE, ms_agent_take(data, BASE)));
	cr_expect(drop(data, BASE));
	cr_expect_eq(n_live(data), 0);
}

Test(agent_table, what_has_no_room_is_dropped_and_counted)
{
	enum { MORE = 3 * MS_AGENT_RECORDS };
	struct ms_agent_data *data = table();
	bool *known = calloc(MORE, sizeof(*known));
	size_t n = 0;

	for (size_t i = 0; i < MORE; i++)
		n += known[i] = add(data, BASE + i * STEP);
	cr_expect_gt(n, MS_AGENT_RECORDS / 2);
	cr_expect_eq(n, data->n_samples);
	cr_expect_eq(MORE - n, data->n_dropped);
	cr_expect_eq(n, n_live(data));
	for (size_t i = 0; i < MORE; i++)
		cr_expect_eq(drop(data, BASE + i * STEP), known[i], "%zu", i);
	cr_expect_eq(n_live(data), 0);
	cr_expect_eq(n_free(data), MS_AGENT_RECORDS, "no record is lost");
	free(known);
}

/* Which bucket the one block that is live is in. */
static size_t bucket(const struct ms_agent_data *data)
{
	size_t at = 0;

	while (!data->slots[at])
		at++;
	return at / MS_AGENT_WAYS;
}

Test(agent_table, a_bucket_that_is_full_takes_no_more_and_keeps_nothing)
{
	uint64_t same[MS_AGENT_WAYS + 1], block = BASE;
	struct ms_agent_data *data = table();
	size_t first = SIZE_MAX, n = 0;

	for (; n < MS_AGENT_WAYS + 1; block += STEP) {
		cr_assert(add(data, block));
		if (first == SIZE_MAX)
			first = bucket(data);
		if (bucket(data) == first)
			same[n++] = block;
		cr_assert(drop(data, block));
	}
	for (n = 0; n < MS_AGENT_WAYS; n++)
		cr_assert(add(data, same[n]));
	cr_expect_not(add(data, same[n]));
	cr_expect_eq(data->n_dropped, 1);
	cr_expect_not(drop(data, same[n]));
	for (n = 0; n < MS_AGENT_WAYS; n++)
		cr_expect(drop(data, same[n]));
	for (size_t i = 0; i < MS_AGENT_FILTER; i++)
		cr_assert_eq(data->filter[i], 0);
	cr_expect_eq(n_free(data), MS_AGENT_RECORDS, "no record is lost");
}

Test(agent_table, a_place_of_the_filter_that_lost_count_stays)
{
	struct ms_agent_data *data = table();

	memset(data->filter, UINT8_MAX, sizeof(data->filter));
	cr_assert(add(data, BASE));
	cr_expect(drop(data, BASE));
	cr_expect(ms_agent_may_have(data, BASE));
	cr_expect_eq(ms_agent_take(data, BASE), MS_AGENT_NONE);
}

/* Each block's own sixteen-fold neighbours fall into its bucket now and then. */
enum { THREADS = 4, ROUNDS = 100000, OWN = 600 };

struct worker {
	struct ms_agent_data *data;
	uint64_t base;
	unsigned seed;
	size_t wrong;
};

static void *churn(void *argument)
{
	struct worker *w = argument;
	bool known[OWN] = { false };

	for (size_t i = 0; i < ROUNDS; i++) {
		size_t k = (size_t)rand_r(&w->seed) % OWN;
		uint64_t block = w->base + k * STEP;

		if (known[k])
			w->wrong += !drop(w->data, block);
		else
			w->wrong += drop(w->data, block);
		known[k] = !known[k] && add(w->data, block);
	}
	for (size_t k = 0; k < OWN; k++)
		w->wrong += drop(w->data, w->base + k * STEP) != known[k];
	return NULL;
}

Test(agent_table, threads_find_each_their_own_blocks_and_no_other)
{
	struct worker workers[THREADS];
	struct ms_agent_data *data = table();
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ data, BASE + i * UINT64_C(0x100000), i, 0 };
		pthread_create(&threads[i], NULL, churn, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(workers[i].wrong, 0);
	}
	cr_expect_eq(n_live(data), 0);
	cr_expect_eq(n_free(data), MS_AGENT_RECORDS, "no record is lost");
	for (size_t i = 0; i < MS_AGENT_FILTER; i++)
		cr_assert_eq(data->filter[i], 0);
}
