/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_REGISTRY_H
#define MS_SHIM_REGISTRY_H

/* Let a reader of this process's memory find our tables (malloc_debug/registry.h). */
void ms_registry_publish(void);

/* The program may have learnt unnoticed how many bytes of a block it may use. */
void ms_registry_unnoted(void);

/* A library may have freed blocks of ours past us: entries may be stale. */
void ms_registry_bypassed(void);

#endif
