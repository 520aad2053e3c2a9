/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/naming.h"

#include <stdlib.h>
#include <string.h>

static uint32_t number_of(const struct ms_code *code, const struct ms_suppressions *suppressions)
{
	const char *slash = strrchr(code->name, '/');
	const char *names[] = { code->name, slash ? slash + 1 : code->name };
	size_t found = ms_suppressions_find(suppressions, names, sizeof(names) / sizeof(names[0]));

	return found == suppressions->n ? 0 : (uint32_t)found + 1;
}

/* The first suppression that matches one of the stack's modules. */
static uint32_t judge_stack(const struct ms_report *asked, const struct ms_stack *stack,
                            const uint32_t *by_code)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < stack->n; i++) {
		const struct ms_code *code =
			ms_range_find(&asked->code, asked->pcs.at[stack->first + i]);
		uint32_t number = code ? by_code[code - asked->code.at] : 0;

		if (number && (!first || number < first))
			first = number;
	}
	return first;
}

bool ms_naming_judge(pid_t pid, const struct ms_report *asked,
                     const struct ms_suppressions *suppressions, uint32_t *verdicts,
                     struct ms_error *err)
{
	uint32_t *by_code = calloc(asked->code.n + 1, sizeof(*by_code));

	(void)pid;
	if (!by_code) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
		return false;
	}
	for (size_t i = 0; i < asked->code.n; i++)
		by_code[i] = number_of(&asked->code.at[i], suppressions);
	for (size_t i = 0; i < asked->stacks.n; i++)
		verdicts[i] = judge_stack(asked, &asked->stacks.at[i], by_code);
	free(by_code);
	return true;
}
