/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/decoders.h"

const struct ms_decoder *const ms_decoders[] = { &ms_glibc_decoder, NULL };

const struct ms_annotator *const ms_annotators[] = { &ms_registry_annotator, NULL };
