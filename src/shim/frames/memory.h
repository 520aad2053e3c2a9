/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_MEMORY_H
#define MS_SHIM_FRAMES_MEMORY_H

/*
 * Have libunwind ask the kernel, and not a pipe of its own, whether an address can be read;
 * the pipe is closed. Once, when libunwind is loaded and none of it was called yet: the first
 * call opens the pipe.
 */
void ms_memory_init(void);

#endif
