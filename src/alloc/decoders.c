/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/decoders.h"

const struct ms_decoder *const ms_decoders[] = { &ms_glibc_decoder,     &ms_mallocng_decoder,
	                                         &ms_oldmalloc_decoder, &ms_jemalloc_decoder,
	                                         &ms_tcmalloc_decoder,  &ms_mimalloc_decoder,
	                                         &ms_pymalloc_decoder,  NULL };

const struct ms_annotator *const ms_annotators[] = { &ms_registry_annotator, &ms_agent_annotator,
	                                             &ms_mcheck_annotator,
	                                             &ms_malloc_check_annotator, NULL };
