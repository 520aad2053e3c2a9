/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/rows.h"

#include <string.h>

#include "base/file.h"
#include "base/sort.h"
#include "report/diff/holders.h"

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* ---- keys ---- */

static const char *module_of(const struct ms_type *type)
{
	return type ? ms_file_name(type->module) : "";
}

static const char *name_of(const struct ms_type *type)
{
	return type ? type->name : "";
}

int ms_diff_compare_types(const struct ms_type *a, const struct ms_type *b)
{
	int names = strcmp(name_of(a), name_of(b));

	return names ? names : strcmp(module_of(a), module_of(b));
}

static int compare_keys(const struct ms_diff_row *a, const struct ms_diff_row *b)
{
	int ret = compare(a->possible, b->possible);

	if (a->root && b->root)
		return ms_diff_compare_roots(a->root, b->root);
	if (!ret && a->signature && b->signature)
		return strcmp(a->signature, b->signature);
	if (!ret)
		ret = ms_diff_compare_types(a->type, b->type);
	if (!ret)
		ret = compare(a->size, b->size);
	return ret ? ret : compare(a->least_size, b->least_size);
}

static bool key_before(const void *a, const void *b)
{
	return compare_keys(a, b) < 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static void add(struct ms_diff_row *row, const struct ms_diff_row *entry)
{
	for (int side = 0; side < MS_DIFF_SIDES; side++) {
		row->side[side].count = sum(row->side[side].count, entry->side[side].count);
		row->side[side].bytes = sum(row->side[side].bytes, entry->side[side].bytes);
	}
}

/* Sorted ones. */
static void join_same(struct ms_diff_rows *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		if (n && compare_keys(&rows->at[n - 1], &rows->at[i]) == 0)
			add(&rows->at[n - 1], &rows->at[i]);
		else
			rows->at[n++] = rows->at[i];
	}
	rows->n = n;
}

/* ---- what changed ---- */

/* Above 0: it grew; bytes go before blocks. */
static int direction(const struct ms_diff_row *row)
{
	const struct ms_diff_amount *old = &row->side[MS_DIFF_OLD];
	const struct ms_diff_amount *new = &row->side[MS_DIFF_NEW];
	int bytes = compare(new->bytes, old->bytes);

	return bytes ? bytes : compare(new->count, old->count);
}

static enum ms_change change_of(const struct ms_diff_row *row)
{
	if (!row->side[MS_DIFF_OLD].count)
		return MS_CHANGE_NEW;
	if (!row->side[MS_DIFF_NEW].count)
		return MS_CHANGE_GONE;
	return direction(row) > 0 ? MS_CHANGE_GROWN : MS_CHANGE_SHRUNK;
}

static void keep_changed(struct ms_diff_rows *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		if (!direction(&rows->at[i]))
			continue;
		rows->at[n] = rows->at[i];
		rows->at[n].change = (uint8_t)change_of(&rows->at[n]);
		n++;
	}
	rows->n = n;
}

int64_t ms_diff_growth(const struct ms_diff_row *row)
{
	return ms_diff_by(row->side[MS_DIFF_OLD].bytes, row->side[MS_DIFF_NEW].bytes);
}

/* The largest growth first, and behind all growth the largest loss. */
static bool before(const void *a, const void *b)
{
	int64_t x = ms_diff_growth(a);
	int64_t y = ms_diff_growth(b);

	if ((direction(a) > 0) != (direction(b) > 0))
		return direction(a) > 0;
	return direction(a) > 0 ? x > y : x < y;
}

bool ms_diff_join(struct ms_arena *arena, struct ms_diff_rows *rows)
{
	if (!ms_sort(arena, rows->at, rows->n, sizeof(*rows->at), key_before))
		return false;
	join_same(rows);
	keep_changed(rows);
	return ms_sort(arena, rows->at, rows->n, sizeof(*rows->at), before);
}
