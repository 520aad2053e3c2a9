/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/cfi.h"

#include <string.h>

#include "base/elf/rows.h"
#include "shim/pointer.h"

enum { WORD = 8, FARTHEST = 1 << 17 };

static size_t read_module(void *ctx, ms_addr addr, void *buf, size_t len)
{
	const struct ms_range *module = ctx;

	if (!ms_range_has(*module, addr))
		return 0;
	len = module->end - addr < len ? (size_t)(module->end - addr) : len;
	memcpy(buf, ms_pointer((uintptr_t)addr), len);
	return len;
}

static bool fits(int64_t offset)
{
	return offset > -FARTHEST && offset < FARTHEST && offset % WORD == 0;
}

static bool is_plain(const struct ms_row *row)
{
	enum ms_row_how rbp = row->how[MS_ROW_RBP];

	return !row->signal && row->how[MS_ROW_RSP] == MS_ROW_SAME &&
	       row->how[MS_ROW_RETURN] == MS_ROW_SAVED && row->value[MS_ROW_RETURN] == -WORD &&
	       fits(row->cfa_offset) &&
	       (rbp == MS_ROW_SAME ||
	        (rbp == MS_ROW_SAVED && fits(row->value[MS_ROW_RBP]) && row->value[MS_ROW_RBP])) &&
	       (row->cfa_register == MS_ROW_RSP || row->cfa_register == MS_ROW_RBP);
}

struct ms_cfi_rule ms_cfi_find(struct ms_range module, uintptr_t header, uintptr_t pc)
{
	struct ms_cfi_rule rule = { MS_CFI_OTHER, 0, 0 };
	struct ms_row row;

	if (!ms_row_find((struct ms_reader){ read_module, &module }, header, WORD, pc, &row))
		return rule;
	if (row.how[MS_ROW_RETURN] == MS_ROW_NOWHERE)
		rule.kind = MS_CFI_END;
	else if (is_plain(&row))
		rule = (struct ms_cfi_rule){ row.cfa_register == MS_ROW_RSP ? MS_CFI_RSP
			                                                    : MS_CFI_RBP,
			                     (int32_t)row.cfa_offset,
			                     (int32_t)row.value[MS_ROW_RBP] };
	return rule;
}
