/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_LEAD_H
#define MS_TARGET_LEAD_H

/*
 * Leading the thread of a clone out of malloc: it has the registers of one of the target's
 * threads, and executes what is left of that one's call, and nothing beyond it.
 */

#include "target/freeze/freeze.h"

enum ms_led {
	MS_LED_OUT,     /* its next instruction is the first behind the call */
	MS_LED_WAITING, /* for a lock that another thread holds; it can be led again later */
	MS_LED_STUCK,   /* neither, and its registers mean nothing any more */
};

/*
 * Lead @image, which is stopped inside malloc, until freezer->roll_until_ns. The clone's
 * code is afterwards as it was. Where @image is not stopped any more it was killed.
 *
 * Context: the clone was made by the collection process; no signal of others reaches it.
 * Cost:    the rest of the call at full speed, and some 0.1 ms.
 */
enum ms_led ms_lead_out(struct ms_freezer *freezer, struct ms_tracee *image);

#endif
