/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_NAMES_H
#define MS_CLI_NAMES_H

/*
 * The worker that names addresses, and how it tells: records of fixed size, in the order
 * of the addresses, file by file.
 *
 *	GROUP    what is behind it is of one file, up to the address before @index
 *	STRING   @n bytes follow: string number 1, 2, …, which others refer to by number
 *	NAME     of address @index; @n functions follow
 *	WARNING  string @text is for the report
 *	END
 */

#include "cli/worker.h"
#include "engine/report.h"
#include "sym/codes.h"

enum ms_name_kind {
	MS_NAME_GROUP,
	MS_NAME_STRING,
	MS_NAME_NAME,
	MS_NAME_WARNING,
	MS_NAME_END,
	MS_NAME_KINDS
};

enum { MS_NAME_FUNCTIONS = 256, MS_NAME_LONGEST = 64 * 1024 };

/* Strings by their numbers, 0: there is none. */
struct ms_name_record {
	uint32_t kind; /* enum ms_name_kind */
	uint32_t n;
	uint64_t index;
	uint64_t rel_pc;
	uint64_t function_offset;
	uint32_t text; /* function, warning */
	uint32_t file;
	uint32_t line;
	uint32_t unsized; /* not 0: as in struct ms_symbol */
};

struct ms_name_function {
	uint32_t name;
	uint32_t mangled;
	uint32_t file;
	uint32_t line;
};

struct ms_names_job {
	const struct ms_codes *code;
	const ms_addr *pcs; /* in order, no two alike */
	size_t n;
	size_t from;  /* those before are not looked at */
	bool data;    /* what is no code is a variable */
	bool mangled; /* names as the linker has them are wanted, too */
};

/* What the process does: ms_worker_call.work, with a struct ms_names_job for @ctx. */
int ms_names_work(void *ctx, const struct ms_worker_side *side);

/*
 * How many of @job's addresses from @i on are in one file, that of @ret_code; NULL when
 * address @i is in none, and then those that are not.
 */
size_t ms_names_group(const struct ms_names_job *job, size_t i, const struct ms_code **ret_code);

#endif
