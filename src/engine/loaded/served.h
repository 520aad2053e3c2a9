/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_SERVED_H
#define MS_ENGINE_LOADED_SERVED_H

/*
 * Whether another allocator than the decoded one answers the program's malloc.
 *
 * The loader binds `malloc` to the first object of its list that defines it. When that
 * is not the C library, it is another allocator, or something that stands in front of
 * malloc and passes calls on: then it keeps the address of what it calls in its data. A
 * chain of those is followed. One linked under names of its own is not seen so; it is
 * named where it can be (rivals.h), and may never be called.
 */

#include "base/elf/object.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

/*
 * Fill in d->rival; leave it alone when there is none.
 *
 * @own:   a module that has the decoded allocator's data (ms_region.module); @n_own of them
 *
 * Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_served_by(struct ms_decoding *d, struct ms_peek *peek,
                                          const uint32_t *own, size_t n_own);

/* Whether an object with a malloc imports a function by which that could call another. */
bool ms_served_may_pass_on(struct ms_reader from, const struct ms_dynamic *dynamic);

#endif
