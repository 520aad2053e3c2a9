/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_INJECT_HERE_H
#define MS_TARGET_INJECT_HERE_H

/* attach.h's functions as the helper does them: they may hang, or take long. */

#include "target/inject/attach.h"

typedef enum ms_status ms_attach_work(const struct ms_attach_call *call, struct ms_arena *arena,
                                      struct ms_attached *ret, struct ms_error *err);

ms_attach_work ms_attach_here;
ms_attach_work ms_detach_here;
ms_attach_work ms_attach_status_here;

#endif
