/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/libc/libcs.h"

const struct ms_libc_ops *const ms_libcs[] = { &ms_libc_musl, &ms_libc_glibc_i386,
	                                       &ms_libc_glibc_aarch64, &ms_libc_glibc, NULL };
