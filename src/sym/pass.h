/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_PASS_H
#define MS_SYM_PASS_H

/* Messages with a descriptor beside them, over a SOCK_SEQPACKET pair. */

#include <stdbool.h>
#include <stddef.h>

/* Send @len bytes, and @fd unless that is negative; @fd is closed in every case. */
bool ms_pass_send(int channel, const void *bytes, size_t len, int fd);

/*
 * Receive a message of exactly @len bytes. @ret_fd: the descriptor beside it, or -1; NULL:
 * none is taken
 *
 * False when the other side is gone, or sent anything else.
 */
bool ms_pass_receive(int channel, void *bytes, size_t len, int *ret_fd);

#endif
