/* SPDX-License-Identifier: Apache-2.0 */
#include "decoded.h"

#include <string.h>

#include "engine/decode.h"

enum ms_status decode_drawn(struct ms_decoding *d, struct ms_regions *regions, struct ms_error *err)
{
	enum ms_status st;

	ms_arena_deinit(d->arena);
	memset(regions, 0, sizeof(*regions));
	memset(d->heaps, 0, sizeof(*d->heaps));
	memset(d->evidence, 0, sizeof(*d->evidence));
	if (d->warnings)
		memset(d->warnings, 0, sizeof(*d->warnings));
	ms_blocks_init(d->blocks, d->src, d->arena);
	d->regions = regions;
	st = ms_classify(d->src, d->arena, regions, err);
	if (!st)
		st = ms_decode(d, NULL, err);
	/* Damage may leave nothing that is known. */
	if (st == MS_E_UNSUPPORTED)
		st = MS_OK;
	if (!st)
		st = ms_blocks_sort(d->blocks);
	if (!st)
		st = ms_blocks_seal(d->blocks);
	return st;
}

bool notes_say(const struct ms_notes *notes, const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, notes)
		if (strstr(note->text, text))
			return true;
	return false;
}
