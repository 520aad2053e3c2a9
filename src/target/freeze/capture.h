/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CAPTURE_H
#define MS_TARGET_CAPTURE_H

#include "target/freeze/freeze.h"

/*
 * Write what every stopped thread holds, and the values of queued signals, to
 * shared memory. Returns MS_E_GONE when no thread is left.
 */
ms_must_check enum ms_status ms_capture(struct ms_freezer *freezer, struct ms_error *err);

#endif
