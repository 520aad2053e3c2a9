/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "target/inject/agent/table.h"

enum {
	LIST_BITS = 32,
	FULL = UINT8_MAX, /* a place of the filter that has lost count, and stays */
};

static_assert(sizeof(struct ms_agent_record) == MS_AGENT_RECORD_BYTES, "a record is a page");
static_assert(MS_AGENT_RECORDS < 1 << MS_AGENT_NUMBER_BITS, "numbers fit into a slot");

/*
 * 32 bits, because the top bits of a 64-bit product would hardly depend on the low bits of
 * an address, in which blocks differ.
 */
static uint32_t hash(uint64_t block)
{
	return (uint32_t)(block >> MS_AGENT_ALIGNED) * (uint32_t)MS_AGENT_HASH;
}

static uint32_t place_of(uint64_t block)
{
	static_assert(MS_AGENT_FILTER == 1 << 13, "the top 13 bits");
	return hash(block) >> MS_AGENT_PLACE_SHIFT;
}

static uint64_t *bucket_of(struct ms_agent_data *data, uint64_t block)
{
	static_assert(MS_AGENT_BUCKETS == 1 << 10, "the top 10 bits");
	return &data->slots[(size_t)(hash(block) >> 22) * MS_AGENT_WAYS];
}

/* Once a place is full nothing is taken off: it may say yes for ever, but never no wrongly. */
static void count(struct ms_agent_data *data, uint64_t block, int by)
{
	uint8_t *place = &data->filter[place_of(block)];
	uint8_t was = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (was != FULL && !__atomic_compare_exchange_n(place, &was, (uint8_t)(was + by), false,
	                                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		continue;
}

/* ---- records ---- */

static uint32_t pop(struct ms_agent_data *data)
{
	uint64_t head = __atomic_load_n(&data->free_list, __ATOMIC_ACQUIRE);

	for (;;) {
		uint32_t number = (uint32_t)head;
		if (!number || number > MS_AGENT_RECORDS)
			return MS_AGENT_NONE;
		uint64_t next = __atomic_load_n(&data->records[number - 1].next, __ATOMIC_RELAXED);
		uint64_t changed = ((head >> LIST_BITS) + 1) << LIST_BITS;
		if (__atomic_compare_exchange_n(&data->free_list, &head, changed | next, false,
		                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return number - 1;
	}
}

uint32_t ms_agent_reserve(struct ms_agent_data *data)
{
	uint32_t record = pop(data);

	if (record != MS_AGENT_NONE)
		return record;
	record = __atomic_load_n(&data->n_used, __ATOMIC_RELAXED);
	while (record < MS_AGENT_RECORDS)
		if (__atomic_compare_exchange_n(&data->n_used, &record, record + 1, false,
		                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return record;
	__atomic_fetch_add(&data->n_dropped, 1, __ATOMIC_RELAXED);
	return MS_AGENT_NONE;
}

void ms_agent_release(struct ms_agent_data *data, uint32_t record)
{
	struct ms_agent_record *own = &data->records[record];
	uint64_t head = __atomic_load_n(&data->free_list, __ATOMIC_ACQUIRE);
	uint64_t changed;

	__atomic_store_n(&own->block, 0, __ATOMIC_RELAXED);
	do {
		__atomic_store_n(&own->next, (uint32_t)head, __ATOMIC_RELAXED);
		changed = ((head >> LIST_BITS) + 1) << LIST_BITS;
	} while (!__atomic_compare_exchange_n(&data->free_list, &head, changed | (record + 1),
	                                      false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

/* ---- blocks ---- */

bool ms_agent_enter(struct ms_agent_data *data, uint64_t block, uint32_t record)
{
	uint64_t *slots = bucket_of(data, block);

	__atomic_store_n(&data->records[record].block, block, __ATOMIC_RELEASE);
	count(data, block, 1);
	for (unsigned i = 0; i < MS_AGENT_WAYS; i++) {
		uint64_t none = 0;
		if (__atomic_compare_exchange_n(&slots[i], &none, ms_agent_slot_of(block, record),
		                                false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			__atomic_fetch_add(&data->n_samples, 1, __ATOMIC_RELAXED);
			return true;
		}
	}
	count(data, block, -1);
	__atomic_fetch_add(&data->n_dropped, 1, __ATOMIC_RELAXED);
	ms_agent_release(data, record);
	return false;
}

bool ms_agent_may_have(const struct ms_agent_data *data, uint64_t block)
{
	return __atomic_load_n(&data->filter[place_of(block)], __ATOMIC_ACQUIRE);
}

uint32_t ms_agent_take(struct ms_agent_data *data, uint64_t block)
{
	uint64_t *slots = bucket_of(data, block);

	if (!block || !ms_agent_may_have(data, block))
		return MS_AGENT_NONE;
	for (unsigned i = 0; i < MS_AGENT_WAYS; i++) {
		uint64_t slot = __atomic_load_n(&slots[i], __ATOMIC_ACQUIRE);
		if (!slot || ms_agent_block_of(slot) != block)
			continue;
		/* Two threads that free one block are the program's own mistake; one has it here.
		 */
		if (!__atomic_compare_exchange_n(&slots[i], &slot, 0, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_RELAXED))
			continue;
		count(data, block, -1);
		return ms_agent_record_of(slot);
	}
	return MS_AGENT_NONE;
}
