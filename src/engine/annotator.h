/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ANNOTATOR_H
#define MS_ENGINE_ANNOTATOR_H

/*
 * Port: what something else than the allocator knows of its blocks: the size that was
 * asked for, where it was allocated, that it is free after all.
 *
 * An annotator comes after all decoders, and is not asked where these found nothing. It
 * puts no block and proves nothing about the heap.
 *
 * To add an annotator:
 *	1. src/alloc/foo.c (or a room): `const struct ms_annotator ms_foo_annotator`;
 *	2. a row in src/alloc/decoders.c;
 *	3. tests/unit/test_foo.c.
 */

#include "engine/decoder.h"

struct ms_annotator {
	const char *name;

	/*
	 * Say more of d->blocks, which are sorted and not sealed: ms_blocks_number(), then
	 * ms_blocks_trim(); and fill d->origins. Finding nothing is MS_OK.
	 *
	 * Returns MS_E_NOMEM.
	 */
	enum ms_status (*annotate)(struct ms_decoding *d);
};

#endif
