/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_EXPORT_H
#define MS_INPROC_EXPORT_H

/* What programs may call; all else of the library is hidden. */
#define MS_EXPORT __attribute__((visibility("default")))

#endif
