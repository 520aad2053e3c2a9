/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_HASH_H
#define MS_BASE_HASH_H

/*
 * FNV-1a of 64 bits, begun with MS_HASH_BASIS. It must stay as it is: signatures in reports are
 * compared with those of other versions.
 */

#include <stddef.h>
#include <stdint.h>

#define MS_HASH_BASIS UINT64_C(0xcbf29ce484222325)

static inline uint64_t ms_hash(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
