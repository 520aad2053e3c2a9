/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_REPORT_H
#define MS_ENGINE_REPORT_H

/*
 * The model of a scan's outcome: what the engine fills, the pipe carries and the
 * writers print. Everything but the names of functions, which are added last, is
 * plain data of fixed size in vectors, without pointers from one entry to another,
 * so that a report travels between processes as bytes. Names and values are those of
 * memscan.report/1 (docs/JSON.md).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/elf/notes.h"
#include "base/range.h"
#include "base/vec.h"
#include "engine/anchors.h"
#include "engine/answer.h"
#include "engine/backtrace.h"
#include "engine/retained.h"

enum {
	MS_NOTE_TEXT = 192,
	MS_NAME_TEXT = 128,
	MS_PATH_TEXT = 512,
	MS_TYPE_TEXT = 256, /* template names are long */
	MS_CONTENTS = 32,
	MS_SIGNATURE_TEXT = 24,
	MS_CMDLINE_TEXT = 4096
};

/* One sentence: a warning, or a heap's evidence. */
struct ms_note {
	char text[MS_NOTE_TEXT];
};

struct ms_notes MS_VEC(struct ms_note);

enum ms_leak_kind { MS_LEAK_DIRECT, MS_LEAK_INDIRECT, MS_LEAK_POSSIBLE, MS_LEAK_KINDS };

/* Why a possible leak is not called a leak. */
enum ms_reason {
	MS_REASON_NONE,
	MS_REASON_INTERIOR,
	MS_REASON_MAPPING,
	MS_REASON_STACK,
	MS_REASON_UNALIGNED,
	MS_REASON_TAGGED,
	MS_REASON_OUTSIDE,
	MS_REASON_RELATIVE,
	MS_REASON_SIGNAL_STACK,
	MS_REASON_REQUESTS,
	MS_REASON_FUSE,
	MS_REASON_UNSEEN,
	MS_REASON_GC,
	MS_REASONS
};

/* How the type of a block was told. */
enum ms_how {
	MS_HOW_VTABLE,    /* its first word points to a C++ class's virtual table */
	MS_HOW_FUNCTIONS, /* its first word points to a constant table of functions: no name */
	MS_HOW_DEBUG,     /* debug information has the type of what points to it */
	MS_HOW_OBJECT,    /* its own words are those of a structure that is known */
	MS_HOW_CONTAINER, /* what points to it is a container, or another holder, that is known */
	MS_HOW_TEXT,      /* it is full of printable characters */
	MS_HOWS
};

/* How surely; of certain ones nothing is said. */
enum ms_sure { MS_SURE_CERTAIN, MS_SURE_LIKELY, MS_SURES };

/* What blocks seem to be; a leak names one by its place in ms_report.types. */
struct ms_type {
	char name[MS_TYPE_TEXT];   /* demangled where that could be done; "" when not known */
	char module[MS_TYPE_TEXT]; /* the program or library that has it: its file's path */
	uint8_t how;               /* enum ms_how; MS_HOWS: in a report of a later memscan */
	uint8_t sure;              /* enum ms_sure */
};

struct ms_types_told MS_VEC(struct ms_type);

/* Whether a report shows no difference between them. */
bool ms_type_is_same(const struct ms_type *a, const struct ms_type *b);

enum { MS_STACK_FRAMES = 1024 }; /* more of one stack are not told */

/* The calls that led to an allocation: a run of ms_report.pcs, innermost first. */
struct ms_stack {
	uint32_t first;
	uint32_t n;
	uint32_t cut; /* not 0: it goes on, but no more of it was kept */
};

struct ms_stack_list MS_VEC(struct ms_stack);

/* Bytes in blocks that were made before attach: all there are without what samples stand for. */
struct ms_older {
	uint64_t live_bytes;
	uint64_t live_bytes_error;
	uint64_t leaked_bytes;
	uint64_t leaked_bytes_error;
};

/* Blocks that an agent in the process samples while they are made (engine/agent.h). */
struct ms_sampling {
	uint8_t on;        /* not 0: there is one; not bool: any byte may arrive */
	uint64_t interval; /* bytes from sample to sample, in the mean; 0: each block is one */
	uint64_t samples;  /* blocks that it knows */
	uint64_t live;     /* of these, live blocks as the allocator has them */
	uint64_t dropped;  /* samples that it had no room for */
	uint64_t stacks;   /* how many ms_report.sites there would be without a limit */
	uint8_t whole; /* not 0: since attach each block might have been one, and none is lost */
	uint8_t has_older; /* not 0: older is known */
	struct ms_older older;
};

/* What samples stand for; errors are standard errors. */
struct ms_estimate {
	uint64_t samples; /* 0: there are none, and nothing else is known */
	uint64_t count;
	uint64_t count_error;
	uint64_t bytes;
	uint64_t bytes_error;
};

/* Addresses in the calling instructions, which return addresses stand behind. */
struct ms_pcs MS_VEC(ms_addr);

/* A mapping of a file that some of these addresses lie in, as it was at the scan. */
struct ms_code {
	struct ms_range range; /* first: searched by it */
	uint64_t offset;
	uint64_t inode;
	uint64_t bias; /* what the loader added to the addresses in the file, if has_bias */
	/*
	 * Of a library that was unloaded before the scan: what was added to the addresses that it
	 * had, range, bias and ms_report.pcs, as another may be there; else 0.
	 */
	uint64_t moved;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint8_t prot;         /* enum ms_prot */
	uint8_t has_bias;     /* not bool: any byte may arrive */
	uint8_t build_id_len; /* 0: not known */
	uint8_t build_id[MS_BUILD_ID_BYTES];
	char name[MS_PATH_TEXT];
};

struct ms_codes MS_VEC(struct ms_code);

/* What the calls of one stack allocated, by samples. */
struct ms_site {
	struct ms_estimate live;   /* blocks that live, reachable or not */
	struct ms_estimate leaked; /* those of them that are unreachable (no possible leaks) */
	uint32_t stack;            /* its entry in ms_report.stacks, from 1 on */
};

struct ms_sites MS_VEC(struct ms_site);

/* What an address is called: the functions that stand there, innermost first, or its symbol. */
struct ms_named {
	struct ms_symbol symbol;
	struct ms_functions functions; /* empty: the symbol's is all that is known */
};

struct ms_names MS_VEC(struct ms_named);

/* The file of a program or library; a leak names one by its place in ms_report.modules. */
struct ms_module_name {
	char path[MS_TYPE_TEXT];
};

struct ms_module_names MS_VEC(struct ms_module_name);

/* The module that has most likely made a block: so many words point there (lost/maker.h). */
struct ms_maker {
	uint32_t module; /* its entry in ms_report.modules, from 1 on; 0: not known */
	uint32_t tables; /* of functions, those of classes too */
	uint32_t code;
	uint32_t constants; /* all others */
};

enum { MS_LEAK_LIKES = 3, MS_PATTERN_TEXT = 96 };

/* Texts of one entry that are alike (lost/texts.h). */
struct ms_like {
	uint64_t count;
	char pattern[MS_PATTERN_TEXT]; /* with "…" where they differ; "" when they do not */
	char first[MS_PREVIEW_TEXT];   /* how two of them begin */
	char last[MS_PREVIEW_TEXT];    /* "" without a pattern */
};

struct ms_likes MS_VEC(struct ms_like);

struct ms_leak {
	uint64_t id; /* 1 is the first of the list */
	ms_addr address;
	uint64_t size; /* bytes, as all sizes here */
	uint64_t referenced_count;
	uint64_t referenced_size;
	uint64_t similar_count;
	uint64_t similar_size;
	uint64_t similar_referenced_count;
	uint64_t similar_referenced_size;
	uint64_t total_size;
	uint8_t kind;         /* enum ms_leak_kind */
	uint8_t reason;       /* enum ms_reason */
	uint8_t older;        /* not 0: it was made before attach, and so were similar ones */
	uint8_t contents_len; /* 0 when contents were not asked for */
	uint32_t type;        /* its entry in ms_report.types, from 1 on; 0: not known */
	uint32_t stack;       /* its entry in ms_report.stacks, from 1 on; 0: not known */
	uint32_t callback;    /* a function that it has: in ms_report.pcs, from 1 on; 0: none */
	uint32_t references;  /* an object's own count of them, in CPython; 0: not known */
	uint32_t references_found; /* pointers to it, in blocks that are unreachable as well */
	uint8_t contents[MS_CONTENTS];
	struct ms_estimate sampled;        /* leaks of its stack, what they reference left out */
	struct ms_maker maker;             /* when its stack is not known */
	char signature[MS_SIGNATURE_TEXT]; /* what leaks of one mistake have in common */
	char text[MS_PREVIEW_TEXT];        /* how it begins, when its type is text */
	uint8_t unproved;                  /* not 0: its maker's words may be residual data */
	uint8_t unused[6];                 /* zeros: tests compare leaks byte by byte */
	uint64_t texts;      /* of several leaks that are one entry: how many are text */
	uint32_t first_like; /* their patterns, most of them first: a run of ms_report.likes */
	uint32_t n_likes;
};

struct ms_leaks MS_VEC(struct ms_leak);

/* Why a heap is not verified; of several reasons the last of these. */
enum ms_doubt {
	MS_DOUBT_NONE,
	MS_DOUBT_DISAGREES, /* what was found is not what the allocator counts or links */
	MS_DOUBT_DAMAGED,   /* headers and links of its memory contradict each other */
	MS_DOUBT_CHANGES,   /* a thread was inside the allocator, which explains anything */
	MS_DOUBTS,
};

/* One allocator found in the target; a process can have several. */
struct ms_heap {
	char allocator[32];
	char version[32]; /* "" when it cannot be told */
	bool verified;    /* every self-check of the decoder held */
	uint8_t doubt;    /* enum ms_doubt; NONE when it is verified */
	uint8_t beside;   /* not 0: malloc does not give these blocks, a language's own calls do */
	uint64_t allocations;
	uint64_t allocation_bytes;
	uint64_t free_bytes;
	uint64_t mapped_bytes;
	uint32_t n_evidence; /* its entries in ms_report.evidence, which are in heap order */
};

struct ms_heaps MS_VEC(struct ms_heap);

/* The heap of malloc with the most blocks, or NULL. Most processes have one. */
struct ms_heap *ms_heaps_main(const struct ms_heaps *heaps);

/* Subtract from the totals of @heap, down to 0. */
void ms_heap_shrink(struct ms_heap *heap, uint64_t allocations, uint64_t bytes);

struct ms_lost_mapping {
	struct ms_range range;
	char name[MS_NAME_TEXT];
};

struct ms_lost_mappings MS_VEC(struct ms_lost_mapping);

/* An unreachable block, as the first of two scans leaves it to the second (confirm.h). */
struct ms_lost {
	ms_addr address;
	uint64_t size;
	uint64_t print; /* a hash of how it looks; odd: it was lost for certain */
};

struct ms_lost_blocks MS_VEC(struct ms_lost);

/* A suppression, and the leaks that it matched. */
struct ms_suppressed {
	char pattern[MS_TYPE_TEXT];
	uint64_t allocations; /* that match; what only they hold is in the totals alone */
	uint64_t bytes;
};

struct ms_suppressed_list MS_VEC(struct ms_suppressed);

enum { MS_LIVE_MOST = 1 << 16 };

/* Live blocks of one type and size, or of a class of sizes. */
struct ms_live {
	uint64_t size;       /* of a class the largest that it has room for */
	uint64_t least_size; /* the smallest, likewise; of one size that */
	uint64_t allocations;
	uint64_t bytes;
	uint64_t leaked_allocations; /* of these */
	uint64_t leaked_bytes;
	uint32_t type; /* its entry in ms_report.types, from 1 on; 0: not known */
};

struct ms_live_list MS_VEC(struct ms_live);

struct ms_totals {
	uint64_t allocations, allocation_bytes;
	uint64_t leaked_allocations, leaked_bytes;
	uint64_t direct_allocations, direct_bytes;
	uint64_t indirect_allocations, indirect_bytes;
	uint64_t possible_allocations, possible_bytes;
	uint64_t interior_allocations, interior_bytes; /* only their middles are pointed to */
	uint64_t suppressed_allocations, suppressed_bytes;
	uint64_t unconfirmed_allocations, unconfirmed_bytes; /* unreachable in one scan only */
	uint64_t unread_bytes; /* against so many outside of heaps, the rest is next to nothing */
	/* Entries there would be without a limit, and what of them was too small for the list. */
	uint64_t leaks, small_leaks; /* possible ones included */
	uint64_t possible, small_possible;
};

enum ms_phase {
	MS_PHASE_FREEZE,
	MS_PHASE_HOLD,
	MS_PHASE_CLASSIFY,
	MS_PHASE_DECODE,
	MS_PHASE_ROOT,
	MS_PHASE_MARK,
	MS_PHASE_FOLD,
	MS_PHASES
};

/* The scan itself; times in nanoseconds. */
struct ms_scan_facts {
	int64_t time; /* wall clock at the freeze, since the epoch */
	char source[8];
	uint32_t attempts;
	uint64_t pause_ns;
	uint64_t duration_ns;
	uint64_t bytes_read;
	uint64_t peak_rss_bytes;
	uint64_t steps; /* single steps that rolled threads out of malloc */
	uint64_t phase_ns[MS_PHASES];
};

struct ms_target_facts {
	int32_t pid;
	int32_t ns_pid; /* in its own pid namespace; 0: that is memscan's, or not known */
	uint32_t threads;
	uint32_t word_size; /* bytes */
	char arch[16];
	char exe[MS_PATH_TEXT];
	char cmdline[MS_CMDLINE_TEXT]; /* arguments, each with its NUL */
	uint32_t cmdline_len;
	int64_t start_time; /* ns since the epoch */
};

struct ms_host_facts {
	char name[MS_NAME_TEXT];
	char kernel[MS_NAME_TEXT];
	char arch[32];
};

struct ms_report {
	struct ms_host_facts host;
	struct ms_target_facts target;
	struct ms_scan_facts scan;
	struct ms_totals totals;
	struct ms_sampling sampling;
	bool possible;       /* --possible was asked for */
	bool confirm;        /* --confirm was asked for */
	bool heap;           /* --heap was asked for: live is filled */
	uint64_t live_limit; /* how many of live a list for people has */
	uint64_t confirm_ns; /* how long was waited for the second scan; 0: there was none */
	struct ms_heaps heaps;
	struct ms_notes evidence;
	struct ms_leaks leaks;
	struct ms_likes likes;          /* of the leaks listed */
	struct ms_sites sites;          /* of leaks, or with heap of all blocks; most bytes first */
	struct ms_live_list live;       /* most bytes first; all together are all live blocks */
	struct ms_types_told types;     /* of the leaks listed, and of live */
	struct ms_module_names modules; /* that have made leaks */
	struct ms_stack_list stacks;    /* of the leaks and sites listed, each once */
	struct ms_pcs pcs;
	struct ms_codes code;  /* all mappings of the files that pcs lie in, by address */
	struct ms_names names; /* of pcs, one each; empty until they are named; not on the wire */
	struct ms_suppressed_list suppressed; /* in the order of their files */
	struct ms_lost_blocks lost; /* of a first scan: all that is unreachable, by address */
	struct ms_lost_mappings mappings;
	struct ms_findings answer;   /* to a question that was asked in place of leaks */
	struct ms_retained retained; /* the same, of MS_ASKED_RETAINED */
	struct ms_notes warnings;
	struct ms_anchors anchors; /* for the next attempt */
};

/* Entries that are not in the list: cut off by the limit, or too small. */
struct ms_unlisted {
	uint64_t leaks; /* certain ones alone */
	uint64_t possible;
	uint64_t small_leaks;
	uint64_t small_possible;
};

struct ms_unlisted ms_report_unlisted(const struct ms_report *report);

/* The phase's name in the report ("freeze", "hold", …). */
const char *ms_phase_name(enum ms_phase phase);

/* What makes a noun one of @n. */
static inline const char *ms_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Append a formatted note; it is dropped silently only when there is no memory for it. */
void ms_note_add(struct ms_arena *arena, struct ms_notes *notes, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), nonnull(1, 2, 3)));

/* The same for @evidence of the last of @heaps, which are not empty. */
void ms_evidence_add(struct ms_arena *arena, struct ms_notes *evidence, struct ms_heaps *heaps,
                     const char *fmt, ...)
	__attribute__((format(printf, 4, 5), nonnull(1, 2, 3, 4)));

#endif
