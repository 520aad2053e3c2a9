/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIBC_LIBCS_H
#define MS_ENGINE_LIBC_LIBCS_H

/* The C libraries that memscan knows, one by one. */

#include "engine/libc/libc.h"

extern const struct ms_libc_ops ms_libc_musl;
extern const struct ms_libc_ops ms_libc_glibc_i386;
extern const struct ms_libc_ops ms_libc_glibc_aarch64;
extern const struct ms_libc_ops ms_libc_glibc;

#endif
