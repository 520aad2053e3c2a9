/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_AGENT_H
#define MS_ENGINE_AGENT_H

/*
 * What an agent in a foreign process keeps of the blocks that it has sampled, for the agent
 * (target/inject/agent) and for who reads it from outside (alloc/agent).
 *
 *	filter    how many sampled blocks fall to a place: what free() asks, one byte
 *	slots     16 to a bucket: a block's address and the number of its record, one word
 *	records   size, registers and the bytes of the stack; what is free hangs in a list
 *	modules   libraries that were unloaded, as they were
 *	tables    copies of what these had for unwinding, one behind the other
 *
 * It has no pointers in it, and is found by the magic at the begin of its mapping. The
 * agent's code, MS_AGENT_TEXT_BYTES, is mapped directly in front of it.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/agent_layout.h"

#define MS_AGENT_MAGIC "memscan agent 3"

enum {
	MS_AGENT_RECORDS = 8192,
	MS_AGENT_WAYS = 16,
	MS_AGENT_BUCKETS = 1024,
	MS_AGENT_SLOTS = MS_AGENT_WAYS * MS_AGENT_BUCKETS,
	MS_AGENT_FILTER = 8192,
	MS_AGENT_REGISTERS = 8, /* rip rsp rbx rbp r12 r13 r14 r15, once malloc has returned */
	MS_AGENT_RECORD_BYTES = 4096,
	MS_AGENT_STACK = MS_AGENT_RECORD_BYTES - 32 - 8 * MS_AGENT_REGISTERS,
	MS_AGENT_MODULES = 128,
	MS_AGENT_PATH = 240,
	MS_AGENT_BUILD_ID = 32,
	MS_AGENT_TABLES = 1 << 20,
	MS_AGENT_MOST_TABLE = 1 << 18, /* bytes of one library's */
};

struct ms_agent_record {
	uint64_t block; /* 0: free, or being filled */
	uint64_t size;
	uint32_t next; /* in the free list: number plus one */
	uint32_t n_stack;
	uint32_t n_unloads; /* struct ms_agent_data's, when the stack was kept */
	uint32_t unused;
	uint64_t registers[MS_AGENT_REGISTERS];
	uint8_t stack[MS_AGENT_STACK]; /* from rsp on: what is behind the return address */
};

/*
 * A library that was unloaded. What it is of stands in front of what was kept of it. Its are the
 * stacks with counts of unloads from first_unload up to, but not, end_unload.
 */
struct ms_agent_module {
	uint64_t begin; /* where its file begins in memory */
	uint64_t vaddr; /* the same as the ELF file has it */
	uint64_t code;
	uint64_t code_end;
	uint64_t code_offset;  /* in the file */
	uint64_t table;        /* its .eh_frame_hdr; 0: none */
	uint64_t build_id_len; /* 0: none was found */
	uint8_t build_id[MS_AGENT_BUILD_ID];
	char path[MS_AGENT_PATH]; /* as the loader has it; zero to its end */
	uint32_t first_unload;
	uint32_t end_unload;
	uint32_t table_at;    /* in tables: a copy from there on to the end of its segment */
	uint32_t table_bytes; /* 0: there is none */
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
	/* Aligned blocks up to this alignment are made by malloc(), which counts them; 0: none. */
	uint64_t passed_on;
	/* 1: since attach each function that makes blocks has been diverted, with that interval. */
	uint64_t whole;
	/*
	 * From the thread pointer: a word of each thread, the bytes to its next sample; a byte
	 * that says whether there is such a count.
	 */
	uint64_t left;
	uint64_t started;
	/*
	 * A bit for each function that has another make its block, which counts it: the outer one
	 * only looks whether it will be a sample, for the stack of its own caller.
	 */
	uint64_t outer;
	uint64_t find_object; /* the C library's _dl_find_object(); 0: it has none */
	uint32_t noting;      /* not 0: a thread writes to modules or tables */
	uint32_t n_unloads;   /* so far */
	uint32_t n_modules;
	uint32_t n_tables; /* bytes in use */
	uint8_t filter[MS_AGENT_FILTER] __attribute__((aligned(MS_AGENT_FILTER_AT)));
	uint64_t slots[MS_AGENT_SLOTS];
	struct ms_agent_record records[MS_AGENT_RECORDS];
	struct ms_agent_module modules[MS_AGENT_MODULES];
	uint8_t tables[MS_AGENT_TABLES];
};

/* Of a slot: the low bits that no block's address has, and those of the record's number. */
enum { MS_AGENT_ALIGNED = MS_AGENT_HASH_SHIFT, MS_AGENT_NUMBER_BITS = 20 };

static inline uint64_t ms_agent_slot_of(uint64_t block, uint32_t record)
{
	return block >> MS_AGENT_ALIGNED << MS_AGENT_NUMBER_BITS | (record + 1);
}

static inline uint64_t ms_agent_block_of(uint64_t slot)
{
	return slot >> MS_AGENT_NUMBER_BITS << MS_AGENT_ALIGNED;
}

static inline uint32_t ms_agent_record_of(uint64_t slot)
{
	return (uint32_t)(slot & ((1U << MS_AGENT_NUMBER_BITS) - 1)) - 1;
}

#endif
