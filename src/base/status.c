/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/libc.h"

static void record(struct ms_error *err, enum ms_status status, int sys_errno)
{
	err->status = status;
	err->sys_errno = sys_errno;
	err->addr = 0;
	err->advice[0] = '\0';
}

enum ms_status ms_fail(struct ms_error *err, enum ms_status status, const char *fmt, ...)
{
	va_list ap;

	record(err, status, 0);
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return status;
}

enum ms_status ms_fail_sys(struct ms_error *err, int sys_errno, const char *fmt, ...)
{
	const char *why = ms_error_text(sys_errno);
	size_t used;
	va_list ap;

	record(err, MS_E_SYS, sys_errno);
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	used = strlen(err->text);
	(void)snprintf(err->text + used, sizeof(err->text) - used, ": %s",
	               why ? why : "unknown error");
	return MS_E_SYS;
}

void ms_advise(struct ms_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(err->advice, sizeof(err->advice), fmt, ap);
	va_end(ap);
}

void ms_error_take(struct ms_error *ret, const struct ms_error *foreign)
{
	unsigned int status;

	static_assert(sizeof(status) == sizeof(ret->status), "an enum of another size");
	memcpy(ret, foreign, sizeof(*ret));
	memcpy(&status, &ret->status, sizeof(status));
	if (status > MS_E_DIED)
		ret->status = MS_E_DIED;
	ret->text[sizeof(ret->text) - 1] = '\0';
	ret->advice[sizeof(ret->advice) - 1] = '\0';
}
