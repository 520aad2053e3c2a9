/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/agent/agent.h"

/* The Makefile makes the bytes of what is in code/; one more, for there may be none. */
const uint8_t ms_agent_blob[] = {
#include <blob.bytes>
	0
};

const size_t ms_agent_blob_bytes = sizeof(ms_agent_blob) - 1;
