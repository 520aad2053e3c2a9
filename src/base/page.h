/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_PAGE_H
#define MS_BASE_PAGE_H

/* A page of this machine's. What a source shows may have others: see its ABI. */
enum { MS_PAGE_BYTES = 4096 };

#endif
