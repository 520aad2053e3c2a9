/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_OWN_PTRACE_H
#define MS_TESTS_OWN_PTRACE_H

/*
 * A ptrace() that the collection process calls instead of the C library's. The including test
 * defines before_ptrace(), which runs before each request.
 */

#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static void before_ptrace(enum __ptrace_request request, pid_t tid);

/* As the kernel has it: none of the calls that differ, PEEK*, is made here. */
long ptrace(enum __ptrace_request request, ...)
{
	void *addr, *data;
	va_list args;
	pid_t tid;

	va_start(args, request);
	tid = va_arg(args, pid_t);
	addr = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	before_ptrace(request, tid);
	return syscall(SYS_ptrace, (long)request, (long)tid, addr, data);
}

#endif
