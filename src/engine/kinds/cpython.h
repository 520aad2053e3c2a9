/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_CPYTHON_H
#define MS_ENGINE_KINDS_CPYTHON_H

/* What CPython's collector of cycles (collector.h) shares with the types of its objects. */

#include "engine/kinds/kinds.h"

/* Whether CPython is in the process; then k->python_type is its type of types. */
bool ms_cpython_begin(struct ms_kinds *k);

/* Whether @word can be an object's count of references. */
bool ms_cpython_is_count(const struct ms_kinds *k, uint64_t word);

/* Whether a type is at @type whose objects the collector looks after. */
bool ms_cpython_is_collected(struct ms_kinds *k, ms_addr type);

#endif
