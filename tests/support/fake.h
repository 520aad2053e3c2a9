/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FAKE_H
#define MS_TESTS_FAKE_H

/*
 * A source over memory that a test writes itself.
 *
 *	struct ms_fake fake;
 *
 *	ms_fake_init(&fake);
 *	uint64_t *words = ms_fake_map(&fake, 0x10000, 4096, MS_PROT_READ | MS_PROT_WRITE, "");
 *	...
 *	ms_fake_deinit(&fake);
 *
 * Maps must be made in address order. Bytes outside of them fault.
 */

#include <stdbool.h>
#include <stddef.h>

#include "engine/source.h"

enum { MS_FAKE_MAPS = 64 };

struct ms_fake {
	struct ms_source base;
	struct ms_arena arena;
	unsigned char *bytes[MS_FAKE_MAPS]; /* of each mapping */
	bool no_view;                       /* answer NULL to view() */
	bool taken_away;                    /* is_whole() says no */
	_Atomic size_t reads;               /* calls of read() so far */
	bool absent[MS_FAKE_MAPS];          /* present() passes the mapping over */
	unsigned char *pages[MS_FAKE_MAPS]; /* of each mapping, what is known of its pages */
	bool hides_zeros; /* present() passes pages of zeros over, and shows one page at a time; */
			  /* a mapping's last page is shown */
};

void ms_fake_init(struct ms_fake *fake);
void ms_fake_deinit(struct ms_fake *fake);

/*
 * Add a mapping of @len zero bytes and return them. A @name that begins with "/"
 * makes it a private file mapping; mappings of one name are one file, with offset
 * 0 for the first.
 */
void *ms_fake_map(struct ms_fake *fake, ms_addr addr, size_t len, int prot, const char *name);

/*
 * Make two mappings of the one that has @addr, which is the begin of a page, not of
 * the mapping. Returns the upper one.
 */
struct ms_mapping *ms_fake_split(struct ms_fake *fake, ms_addr addr);

/* The host's address of the byte at @addr, which must be mapped; for its page and the next. */
void *ms_fake_at(struct ms_fake *fake, ms_addr addr);

/* Store the word @value at @addr. */
void ms_fake_put(struct ms_fake *fake, ms_addr addr, uint64_t value);

/* Add a stopped thread without registers; its words may be set in the result. */
struct ms_thread *ms_fake_thread(struct ms_fake *fake, int tid, ms_addr sp, ms_addr tp);

/*
 * x86-64's, whatever the machine: for what is drawn by that one's red zone, signal frames, or
 * control blocks. A source is drawn with the machine's own.
 */
extern const struct ms_abi ms_fake_abi_x86_64;

#endif
