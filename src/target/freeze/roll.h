/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ROLL_H
#define MS_TARGET_ROLL_H

/* Leading threads out of malloc; the why and how are in roll.c. */

#include "target/freeze/freeze.h"

/* Returns whether any thread was made to run; counts are in shared. */
bool ms_roll_all(struct ms_freezer *freezer);

#endif
