/* SPDX-License-Identifier: Apache-2.0 */
#include "report/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "report/utf8.h"

void ms_text_put(struct ms_text *t, const char *bytes, size_t len)
{
	t->ok = t->ok && t->sink->write(t->sink, bytes, len);
}

void ms_text_print(struct ms_text *t, const char *fmt, ...)
{
	char piece[512] = "";
	const char *at = piece;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(piece, sizeof(piece), fmt, ap);
	va_end(ap);
	while (*at) {
		size_t len = strcspn(at, "\n");

		ms_text_name(t, at, len);
		at += len;
		if (*at)
			ms_text_put(t, at++, 1);
	}
}

void ms_text_name(struct ms_text *t, const char *name, size_t len)
{
	char clean[256];

	while (len > 0) {
		size_t used = ms_utf8_clean(name, len, true, clean, sizeof(clean));

		ms_text_put(t, clean, strlen(clean));
		name += used;
		len -= used;
	}
}

void ms_text_type(struct ms_text *t, const struct ms_type *type)
{
	const char *module = type ? ms_file_name(type->module) : "";

	if (type && type->name[0]) {
		ms_text_name(t, type->name, strlen(type->name));
	} else if (module[0]) {
		ms_text_print(t, "object with a table of functions in ");
		ms_text_name(t, module, strlen(module));
	} else {
		ms_text_print(t, "not known");
	}
}

void ms_text_amount(struct ms_text *t, uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB" };
	size_t unit = 0;

	while (bytes >= 10000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes = bytes / 1024 + (bytes % 1024 >= 512);
		unit++;
	}
	ms_text_print(t, "%" PRIu64 " %s", bytes, units[unit]);
}

const char *ms_text_abi(const char *arch)
{
	return strcmp(arch, "aarch64") != 0 ? arch : "arm64";
}
