/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_VERSION_H
#define MS_REPORT_VERSION_H

#define MS_VERSION "0.1.0"

#endif
