/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ANSWER_H
#define MS_ENGINE_ANSWER_H

/*
 * The model of the answer to a question (question.h): which blocks were asked for, and by
 * which chains they are held. Like the rest of a report it is plain data in vectors; an
 * answer is bounded, however long chains are.
 */

#include "base/range.h"
#include "base/vec.h"

enum {
	MS_ANSWER_SUBJECTS = 3, /* blocks of a type that are looked at */
	MS_ANSWER_CHAINS = 20,  /* of one of them */
	MS_ANSWER_STEPS = 100,  /* of a chain, and of those that point to a block */
	MS_ANSWER_TYPES = 5,    /* that are suggested */
	MS_SPOT_TEXT = 512,
	MS_THREAD_TEXT = 64,
	MS_PREVIEW_TEXT = 25, /* the first characters of a text, and its NUL */
};

/* What a root is, and from where its name counts. */
enum ms_root_kind {
	MS_ROOT_GLOBALS,  /* bytes from the first mapping of the program or library */
	MS_ROOT_BREAK,    /* bytes from the begin of its mapping */
	MS_ROOT_UNPROVED, /* bytes from the begin of its mapping */
	MS_ROOT_STACK,    /* bytes from the thread's stack pointer; see ms_root_name() */
	MS_ROOT_TLS,      /* bytes from the thread pointer */
	MS_ROOT_REGISTER, /* index in ms_thread.words */
	MS_ROOT_KERNEL,   /* index in ms_source.kernel_words */
	MS_ROOT_TRANSIT,  /* index in ms_source.transit; of a spot, the number that stands there */
	MS_ROOT_KINDS
};

/* A word of a root, named. */
struct ms_spot {
	ms_addr at;     /* 0: in no memory */
	int64_t offset; /* as its kind counts */
	int32_t tid;    /* of STACK, TLS, REGISTER; 0: of a thread that ended */
	uint32_t pc;    /* its symbol: that of this entry of ms_report.pcs, from 1 on; 0: none */
	uint8_t kind;   /* enum ms_root_kind */
	char name[MS_SPOT_TEXT];     /* of the file or mapping that it counts from; of TRANSIT, what
	                              * it is in */
	char thread[MS_THREAD_TEXT]; /* filled in last, "" where it is not known */
};

/* A block, or a mapping, on the way from a root. */
struct ms_answer_step {
	ms_addr address;
	uint64_t size;
	uint64_t offset;   /* where in it the pointer to the next stands, bytes */
	uint64_t omitted;  /* so many steps before it are not listed */
	uint32_t type;     /* its entry in ms_report.types, from 1 on; 0: not known */
	uint32_t callback; /* a function that a word of it points to: its entry in ms_report.pcs,
	                    * from 1 on; 0: none */
	uint64_t callback_offset;   /* of this, from the first mapping of its file, bytes */
	uint8_t mapping;            /* it is memory from mmap(), no block */
	char name[128];             /* of a mapping, or of the callback's file */
	char text[MS_PREVIEW_TEXT]; /* how it begins, when its type is text */
};

struct ms_answer_chain {
	struct ms_spot root;
	uint64_t length; /* in steps, those that are not listed included */
	uint32_t first;  /* its entries in ms_answer.steps */
	uint32_t n;
};

/* What was asked for turned out to be … */
enum ms_standing {
	MS_STANDS_REACHABLE, /* a block, or a mapping, that a root leads to */
	MS_STANDS_POSSIBLE,  /* the same that is a possible leak */
	MS_STANDS_LEAKED,    /* the same that nothing leads to */
	MS_STANDS_ROOT,      /* a part of a root */
	MS_STANDS_CODE,      /* of a program or library, and not written to */
	MS_STANDS_DEAD,      /* stack that is not in use */
	MS_STANDS_MAPPED,    /* a mapping in which no pointer is looked for */
	MS_STANDS_FREE,      /* an allocator's memory, where no block in use is */
	MS_STANDS_NOWHERE,   /* not mapped */
	MS_STANDINGS
};

struct ms_subject {
	ms_addr asked;              /* 0: it was chosen for its type */
	struct ms_answer_step self; /* the block or mapping; of FREE the block before */
	struct ms_spot spot;        /* of what is neither */
	uint64_t roots;             /* with question.all: words of roots that lead there */
	uint64_t holders;           /* of what is not reachable, or by_asker: what points to it */
	uint32_t first_chain;       /* its entries in ms_answer.chains, shortest first */
	uint32_t n_chains;
	uint32_t first_holder; /* in ms_answer.steps */
	uint32_t n_holders;
	uint8_t standing; /* enum ms_standing */
	uint8_t reason;   /* enum ms_reason, of POSSIBLE */
	uint8_t more;     /* REACHABLE: another chain than the first leads there, too */
	uint8_t by_asker; /* REACHABLE, but only from the frames of the thread that asks */
};

struct ms_answer_facts {
	uint64_t of_type;      /* blocks of the type that was asked for */
	uint64_t of_type_held; /* those that are reachable */
	uint64_t known_types;  /* with a name; when there is none, types has some of these */
	uint8_t near;          /* these resemble what was asked for */
};

struct ms_findings {
	struct ms_answer_facts facts;
	struct MS_VEC(struct ms_subject) subjects;
	struct MS_VEC(struct ms_answer_chain) chains;
	struct MS_VEC(struct ms_answer_step) steps;
};

#endif
