/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_HEAPDUMP_DUMP_H
#define MS_REPORT_HEAPDUMP_DUMP_H

/*
 * Android's native heap dumps (Malloc Debug), versions 1.0, 1.1 and 1.2, as text:
 *
 *	Android Native Heap Dump v1.2
 *	(blank)
 *	Build fingerprint: 'TEXT'            since 1.2
 *	(blank)
 *	Total memory: N
 *	Allocation records: N
 *	Backtrace size: N                    frames that were asked for
 *	(blank)
 *	z 0  sz       50  num    1  bt a100 b200
 *	  bt_info {"MAP" RELPC "FUNCTION" OFFSET} ...      since 1.1, where symbols were kept
 *	MAPS
 *	(as /proc/PID/maps)
 *	END
 *
 * Dumps come from other machines and may be anything. What Android's viewer counts is
 * counted here: a record needs a frame; the count of a record is 1 in dumps of 1.0
 * that have something else in its place (Android N).
 */

#include <stddef.h>

#include "base/range.h"
#include "base/status.h"

/* Deeper stacks are taken for damage; Malloc Debug keeps 256 frames at most. */
enum { MS_HEAPDUMP_MOST_FRAMES = 1024, MS_HEAPDUMP_MOST_WARNINGS = 10 };

/* What a dump itself says about a frame. */
struct ms_heapdump_info {
	const char *library; /* as mapped; never NULL */
	uint64_t rel_pc;
	const char *function; /* demangled; "": not known */
};

/* Blocks of one size with one stack. */
struct ms_heapdump_record {
	bool app;        /* allocated in a child of the zygote */
	uint64_t size;   /* of one block, bytes */
	uint64_t count;  /* how many blocks */
	size_t first;    /* of its frames in ms_heapdump.pcs, innermost first */
	size_t n_frames; /* > 0 */
	size_t info;     /* of as many entries of ms_heapdump.infos; SIZE_MAX: has none */
	size_t line;
};

struct ms_heapdump_mapping {
	struct ms_range range; /* first: searched by it */
	uint64_t offset;       /* into the file, bytes */
	uint64_t inode;
	const char *name; /* never NULL; "": memory without a file */
	size_t line;
};

struct ms_heapdump_records MS_VEC(struct ms_heapdump_record);
struct ms_heapdump_mappings MS_VEC(struct ms_heapdump_mapping);
struct ms_heapdump_infos MS_VEC(struct ms_heapdump_info);
struct ms_heapdump_pcs MS_VEC(ms_addr);
struct ms_heapdump_warnings MS_VEC(const char *);

struct ms_heapdump {
	char version[16];        /* "1.2"; "": the dump does not say */
	const char *fingerprint; /* NULL: the dump does not say */
	uint64_t total_bytes;    /* these three: as the dump says, 0 when it does not */
	uint64_t total_records;
	uint64_t backtrace_size;
	bool counts_valid; /* else every count was taken for 1 */
	struct ms_heapdump_records records;
	struct ms_heapdump_pcs pcs;
	struct ms_heapdump_infos infos;
	struct ms_heapdump_mappings mappings; /* in address order, no overlap */
	uint64_t bytes;                       /* of all records */
	uint64_t stackless_records;           /* left out, as they have no frames */
	uint64_t stackless_bytes;
	struct ms_heapdump_warnings warnings;
};

/* A file that was read. */
struct ms_heapdump_file {
	const char *name; /* for error texts */
	const char *text;
	size_t len;
};

/*
 * Read @file. All of @ret is in @arena, nothing in the file's text.
 *
 * Returns MS_E_CORRUPT when it is no dump, or damaged or cut off, with the line in
 * err; MS_E_UNSUPPORTED for versions that do not exist yet; MS_E_NOMEM.
 * Sums of bytes and counts fit into an int64_t.
 */
ms_must_check enum ms_status ms_heapdump_parse(const struct ms_heapdump_file *file,
                                               struct ms_arena *arena, struct ms_heapdump *ret,
                                               struct ms_error *err);

#endif
