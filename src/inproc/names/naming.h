/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_NAMES_NAMING_H
#define MS_INPROC_NAMES_NAMING_H

/*
 * Names for the stacks of a report, by the ELF files that this process has mapped: of
 * functions, not of lines or of what was inlined, which takes debug information. Without
 * malloc.
 */

#include "elf/files.h"
#include "engine/report.h"
#include "engine/scan.h"
#include "engine/source.h"

/*
 * Fill report->names, of memory of @files->arena. Without memory they stay empty.
 *
 * @files: opens what is not open yet; its variables says whether data is named, too
 */
void ms_names_fill(struct ms_elf_files *files, struct ms_report *report);

/* Open the files of all code in @maps, and none later, for a process that may not. */
void ms_names_open(struct ms_elf_files *files, const struct ms_mappings *maps);

/* For ms_scan_options.judge. */
struct ms_names_judge {
	struct ms_elf_files files;
	const struct ms_suppressions *suppressions;
};

/* Which suppression matches the module or the function of a frame; the innermost decides. */
bool ms_names_judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                    struct ms_error *err);

#endif
