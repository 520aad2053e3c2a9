/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AGENT_TABLE_H
#define MS_TARGET_AGENT_TABLE_H

/*
 * The blocks that an agent in a foreign process has sampled, and their stacks.
 *
 *	filter    how many sampled blocks fall to a place: what free() asks, one byte
 *	slots     16 to a bucket: a block's address and the number of its record, one word
 *	records   size, registers and the bytes of the stack; what is free hangs in a list
 *
 * It runs inside malloc and free, in signal handlers and between fork and exec. So it
 * waits for nobody: no lock, no system call, no function of the C library; each step is
 * one compare-and-swap. Whoever is interrupted in the middle, or does not exist any more
 * behind a fork, costs a record, never a wrong answer. Where there is no room a sample is
 * dropped and counted.
 *
 * It has no pointers in it: memscan reads it from outside, and finds it by the magic at
 * the begin of its mapping.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/inject/agent/layout.h"

#define MS_AGENT_MAGIC "memscan agent 1"

enum {
	MS_AGENT_RECORDS = 8192,
	MS_AGENT_WAYS = 16,
	MS_AGENT_BUCKETS = 1024,
	MS_AGENT_SLOTS = MS_AGENT_WAYS * MS_AGENT_BUCKETS,
	MS_AGENT_FILTER = 8192,
	MS_AGENT_REGISTERS = 8, /* rip rsp rbx rbp r12 r13 r14 r15, once malloc has returned */
	MS_AGENT_RECORD_BYTES = 4096,
	MS_AGENT_STACK = MS_AGENT_RECORD_BYTES - 24 - 8 * MS_AGENT_REGISTERS,
};

struct ms_agent_record {
	uint64_t block; /* 0: free, or being filled */
	uint64_t size;
	uint32_t next; /* in the free list: number plus one */
	uint32_t n_stack;
	uint64_t registers[MS_AGENT_REGISTERS];
	uint8_t stack[MS_AGENT_STACK]; /* from rsp on: what is behind the return address */
};

struct ms_agent_data {
	char magic[16];
	uint64_t interval; /* bytes from sample to sample, in the mean; 0: each block is one */
	uint64_t random;   /* any number to begin with */
	/*
	 * How far a stack may be read: the main thread's, as it was at attach, and others' up
	 * to their thread pointer. Of any other no more is read than the rest of a page.
	 */
	uint64_t main_begin;
	uint64_t main_end;
	uint64_t
		stackblock; /* from the thread pointer: begin, then size of its stack; 0: unknown */
	uint64_t n_samples;
	uint64_t n_dropped;
	uint64_t free_list; /* number plus one; above 32 bits, how often it was changed */
	uint32_t n_used;    /* records from here on were never used: nothing is to be laid out */
	uint8_t filter[MS_AGENT_FILTER] __attribute__((aligned(MS_AGENT_FILTER_AT)));
	uint64_t slots[MS_AGENT_SLOTS];
	struct ms_agent_record records[MS_AGENT_RECORDS];
};

/* What no record has as its number. */
#define MS_AGENT_NONE UINT32_MAX

/* Take a free record, to fill it. Returns its number or NONE, and counts that as dropped. */
uint32_t ms_agent_reserve(struct ms_agent_data *data);

/*
 * Make a filled record known as that of @block.
 *
 * Context: the block is the caller's alone, as before malloc returns it.
 *
 * Returns false when there is no room: the record is free again.
 */
bool ms_agent_enter(struct ms_agent_data *data, uint64_t block, uint32_t record);

/* Whether a block may have been sampled: no more than two loads. */
bool ms_agent_may_have(const struct ms_agent_data *data, uint64_t block);

/*
 * Take a block out, before it is freed. Returns its record, which is the caller's then:
 * to be entered once more, as when realloc fails, or to be released; NONE if there is none.
 */
uint32_t ms_agent_take(struct ms_agent_data *data, uint64_t block);

void ms_agent_release(struct ms_agent_data *data, uint32_t record);

/* A slot's parts, for who reads it from outside. */
uint64_t ms_agent_block_of(uint64_t slot);
uint32_t ms_agent_record_of(uint64_t slot);

#endif
