/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "target/inject/agent/unload.h"

/* What an agent keeps of libraries that go: here they are those of this process, and stay. */

static struct ms_agent_data *data;

/* Two of the C library's own that nothing else loads. */
static const char one[] = "libBrokenLocale.so.1", other[] = "libnss_compat.so.2";

static void init(void)
{
	data = mmap(NULL, sizeof(*data), PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_assert_neq(data, MAP_FAILED);
}

static void deinit(void)
{
	(void)munmap(data, sizeof(*data));
}

TestSuite(agent_unload, .init = init, .fini = deinit, .timeout = 20);

static struct ms_agent_object find(const char *name, const char *function)
{
	int (*find_object)(void *pc, struct ms_agent_object *ret);
	void *library = dlopen(name, RTLD_NOW);
	void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
	struct ms_agent_object ret;

	cr_assert(library);
	if (!symbol)
		cr_skip_test("the C library cannot be asked");
	memcpy(&find_object, &symbol, sizeof(symbol));
	cr_assert_eq(find_object(dlsym(library, function), &ret), 0);
	return ret;
}

static struct ms_agent_object find_one(void)
{
	return find(one, "__ctype_get_mb_cur_max");
}

static struct ms_agent_object find_other(void)
{
	return find(other, "_nss_compat_setpwent");
}

Test(agent_unload, a_library_is_kept_as_it_is)
{
	const struct ms_agent_object object = find_one();
	const struct ms_agent_module *module = &data->modules[0];

	ms_agent_note_unload(data, &object);
	cr_assert_eq(data->n_modules, 1);
	cr_expect_eq(data->n_unloads, 1);
	cr_expect_eq(data->noting, 0);
	cr_expect_eq(module->begin, object.begin);
	cr_expect_eq(module->vaddr, 0);
	cr_expect_gt(module->code, object.begin);
	cr_expect_eq(module->code - object.begin, module->code_offset);
	cr_expect_leq(module->code_end, object.end);
	cr_expect(strstr(module->path, one), "%s", module->path);
	cr_expect_gt(module->build_id_len, 0);
	cr_expect_eq(module->first_unload, 0);
	cr_expect_eq(module->end_unload, 1);
}

Test(agent_unload, its_unwind_table_is_copied)
{
	const struct ms_agent_object object = find_one();
	const struct ms_agent_module *module = &data->modules[0];
	const void *table;

	ms_agent_note_unload(data, &object);
	memcpy(&table, &module->table, sizeof(table));
	cr_assert_eq(module->table, object.eh_frame);
	cr_assert_gt(module->table_bytes, 16);
	cr_expect_eq(data->n_tables, module->table_bytes);
	cr_expect_arr_eq(data->tables + module->table_at, table, module->table_bytes);
}

Test(agent_unload, the_same_library_once_more_is_the_same_entry)
{
	const struct ms_agent_object object = find_one();
	uint32_t n_tables;

	ms_agent_note_unload(data, &object);
	n_tables = data->n_tables;
	for (unsigned i = 0; i < 2 * MS_AGENT_MODULES; i++)
		ms_agent_note_unload(data, &object);
	cr_expect_eq(data->n_modules, 1);
	cr_expect_eq(data->n_tables, n_tables);
	cr_expect_eq(data->modules[0].first_unload, 0);
	cr_expect_eq(data->modules[0].end_unload, 1 + 2 * MS_AGENT_MODULES);
	cr_expect_eq(data->n_unloads, 1 + 2 * MS_AGENT_MODULES);
}

Test(agent_unload, what_was_there_before_another_is_kept_apart)
{
	const struct ms_agent_object object = find_one();

	ms_agent_note_unload(data, &object);
	data->modules[0].build_id[0] ^= 1; /* as if it had been another */
	ms_agent_note_unload(data, &object);
	cr_assert_eq(data->n_modules, 2);
	cr_expect_eq(data->modules[0].end_unload, 1);
	cr_expect_eq(data->modules[1].first_unload, 1);
	cr_expect_eq(data->modules[1].end_unload, 2);
}

Test(agent_unload, one_elsewhere_begins_at_the_first_stack)
{
	const struct ms_agent_object first = find_one();
	const struct ms_agent_object second = find_other();

	ms_agent_note_unload(data, &first);
	ms_agent_note_unload(data, &second);
	cr_assert_eq(data->n_modules, 2);
	cr_expect_eq(data->modules[1].first_unload, 0);
	cr_expect_eq(data->modules[1].end_unload, 2);
	cr_expect_eq(data->modules[1].table_at, data->modules[0].table_bytes);
}

Test(agent_unload, where_there_is_no_room_nothing_is_kept)
{
	const struct ms_agent_object object = find_one();

	data->n_modules = MS_AGENT_MODULES;
	ms_agent_note_unload(data, &object);
	cr_expect_eq(data->n_modules, MS_AGENT_MODULES);
	cr_expect_eq(data->n_unloads, 0);
	data->n_modules = 0;
	data->n_tables = MS_AGENT_TABLES - 8;
	ms_agent_note_unload(data, &object);
	cr_expect_eq(data->n_modules, 1);
	cr_expect_eq(data->modules[0].table_bytes, 0);
	cr_expect_eq(data->n_tables, MS_AGENT_TABLES - 8);
}

Test(agent_unload, another_thread_is_not_waited_for)
{
	const struct ms_agent_object object = find_one();

	data->noting = 1;
	ms_agent_note_unload(data, &object);
	cr_expect_eq(data->n_modules, 0);
}

Test(agent_unload, what_begins_with_no_elf_header_is_not_kept)
{
	const struct ms_agent_object none = { .begin = (uintptr_t)data };

	ms_agent_note_unload(data, &none);
	cr_expect_eq(data->n_modules, 0);
	cr_expect_eq(data->noting, 0);
}
