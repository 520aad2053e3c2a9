/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_SANITIZED_H
#define MS_TESTS_SANITIZED_H

/*
 * Whether this runs with AddressSanitizer: some ten times as long, and with a malloc that is not
 * glibc's and has nothing else in front of it. A unit test that includes this file differs then,
 * and make check runs it without as well (DIFFER in the Makefile).
 */
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#endif
