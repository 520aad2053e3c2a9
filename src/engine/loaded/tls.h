/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_TLS_H
#define MS_ENGINE_LOADED_TLS_H

/*
 * Where a program or library has its thread-local variables: in every thread at the same
 * distance below the thread pointer, or above, as far as they were there when the process began.
 */

#include "engine/loaded/peek.h"

/* Bytes from @far below the thread pointer on, up to @near below it; what is negative lies above.
 */
struct ms_tls {
	int64_t far;
	int64_t near;
};

/*
 * Find those of the program or library whose ELF header is at @begin, which must read its
 * own variables without asking the loader where they are, as the C library does.
 *
 * @ret: they all are inside; untouched when the answer is false
 *
 * False when it has none, or it cannot be known.
 */
ms_must_check bool ms_tls_find(struct ms_peek *peek, ms_addr begin, struct ms_tls *ret);

#endif
