/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_FRAMES_H
#define MS_REPORT_FRAMES_H

/*
 * The frames of a report's stacks. What the addresses were named counts first; of those
 * that were not, the report's code has module and place.
 */

#include "engine/report.h"
#include "report/print.h"

/* One function at an address of the calls. */
struct ms_named_frame {
	ms_addr pc;
	struct ms_symbol symbol; /* its build_id may be what stands below */
	bool inlined;            /* into the function of the frame behind it */
	char build_id[2 * MS_BUILD_ID_BYTES + 1];
};

/* How many frames pcs.at[@pc] stands for: 1, and one more for each function inlined there. */
size_t ms_frames_at(const struct ms_report *report, size_t pc);

/* Frame @i of those, innermost first. */
void ms_frame_tell(const struct ms_report *report, size_t pc, size_t i, struct ms_named_frame *ret);

/* How Android's tools write a frame's place. */
enum ms_frame_style {
	MS_FRAME_PLAIN,     /* Malloc Debug: "<unknown>" is unnamed memory, too; "+0" */
	MS_FRAME_ANONYMOUS, /* debuggerd: "<anonymous:BEGIN>"; no "+0" */
};

/* "/lib/x.so (offset 0x1000) (func+24)" */
void ms_frame_put_place(struct ms_text *t, const struct ms_symbol *symbol,
                        enum ms_frame_style style);

/* "file.c:12", the file without its folders. */
void ms_frame_put_line(struct ms_text *t, const struct ms_symbol *symbol);

/*
 * The lines of the stack of that number in @report, from 1 on, each indented by ten spaces;
 * of 0 none. Not more than @most.
 */
void ms_frames_put(struct ms_text *t, const struct ms_report *report, uint32_t stack, size_t most);

#endif
