/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_CODES_H
#define MS_SYM_CODES_H

/*
 * The files of a process that was scanned, which runs on or has ended meanwhile: by their
 * mapping, which is the file whatever became of its name; by name in the process's root;
 * by name in ours. A file that is not the one that was mapped at the scan is not read.
 *
 * They may be anything: call this in a process that may die of it.
 */

#include "sym/files.h"
#include "sym/opener.h"

/* Why a file is not opened. */
enum ms_code_state {
	MS_CODE_OPEN,
	MS_CODE_ABSENT,
	MS_CODE_CHANGED,
	MS_CODE_NO_ELF,
	MS_CODE_TOO_LARGE
};

/* Have @ret, initialised, open the files of @codes; their numbers are those of the entries. */
void ms_codes_opener(const struct ms_codes *codes, struct ms_opener *ret);

/*
 * Open the file of @codes' entry @number.
 *
 * @ret: set when the answer is MS_CODE_OPEN; lives in @arena
 */
enum ms_code_state ms_code_open(const struct ms_codes *codes, size_t number,
                                const struct ms_finder *finder, struct ms_arena *arena,
                                struct ms_symbol_file **ret);

#endif
