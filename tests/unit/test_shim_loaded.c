/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

#include "shim/pointer.h"
#include "shim/track/loaded.h"
#include "shim/track/trace.h"

/* A library that nothing else loads, of the C library's own. */
static const char name[] = "libBrokenLocale.so.1";

static const struct malloc_debug_module *entries(void)
{
	return ms_pointer(ms_loaded_list().at);
}

static size_t n_entries(void)
{
	size_t n = 0;

	while (entries()[n].inverted)
		n++;
	return n;
}

/* The last entry of that library; NULL: none. */
static const struct malloc_debug_module *find(void)
{
	for (size_t i = n_entries(); i-- > 0;) {
		const char *path = ms_pointer(entries()[i].path);

		cr_assert_eq(strlen(path), entries()[i].path_len);
		if (strstr(path, name))
			return &entries()[i];
	}
	return NULL;
}

static void *load(void)
{
	void *library = dlopen(name, RTLD_NOW);

	cr_assert(library);
	(void)ms_loaded_look();
	return library;
}

/* How many have gone. */
static uint64_t unload(void *library)
{
	cr_assert_eq(dlclose(library), 0);
	return ms_loaded_look();
}

static uint32_t keep(uint64_t pc)
{
	return ms_trace_keep(&pc, 1);
}

Test(shim_loaded, a_library_is_known_from_the_look_on_that_sees_it)
{
	(void)ms_loaded_look();
	cr_assert_gt(n_entries(), 0);
	cr_assert_null(find());
	(void)keep(1);
	(void)load();
	cr_assert(find());
	cr_expect_eq(find()->first_stack, MS_TRACE_FIRST + 1);
	cr_expect_eq(find()->end_stack, 0);
	cr_expect_gt(find()->build_id_len, 0);
	cr_expect_eq(((const char *)ms_pointer(find()->path))[0], '/');
}

Test(shim_loaded, an_address_of_its_code_lies_in_its_entry)
{
	void *library = load();
	Dl_info info;
	void *symbol = dlsym(library, "__ctype_get_mb_cur_max");
	const struct malloc_debug_module *entry = find();

	cr_assert(symbol && dladdr(symbol, &info));
	cr_expect_eq(~entry->inverted, (uintptr_t)info.dli_fbase);
	cr_expect_lt((uintptr_t)symbol - (~entry->inverted + entry->code_at), entry->code_bytes);
	cr_expect_eq(entry->vaddr, 0);
	cr_expect_eq(entry->code_at, entry->code_offset);
}

Test(shim_loaded, it_ends_with_the_last_stack_before_it_was_seen_to_be_gone)
{
	void *library = load();
	uint64_t gone = ms_loaded_look();

	(void)keep(1);
	(void)keep(2);
	cr_expect_eq(unload(library), gone + 1);
	cr_expect_eq(find()->end_stack, MS_TRACE_FIRST + 2);
}

/* How many entries of that library are at @begin; @ret: the last. */
static size_t count_at(uint64_t begin, const struct malloc_debug_module **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < n_entries(); i++) {
		if (!strstr(ms_pointer(entries()[i].path), name) || ~entries()[i].inverted != begin)
			continue;
		*ret = &entries()[i];
		n++;
	}
	return n;
}

Test(shim_loaded, loaded_again_to_the_same_place_it_is_the_same_entry)
{
	const struct malloc_debug_module *entry = NULL;
	uint64_t mix = ms_loaded_mix();

	for (int i = 0; i < 100; i++) {
		void *library = load();
		Dl_info info;

		cr_assert(dladdr(dlsym(library, "__ctype_get_mb_cur_max"), &info));
		cr_assert_eq(count_at((uintptr_t)info.dli_fbase, &entry), 1);
		cr_assert_eq(entry->end_stack, 0);
		cr_assert_eq(ms_loaded_mix(), mix, "nothing else was there");
		(void)keep((uint64_t)i);
		(void)unload(library);
		cr_assert_neq(entry->end_stack, 0);
	}
}

Test(shim_loaded, without_a_change_all_stays)
{
	size_t n;

	(void)load();
	n = n_entries();
	for (int i = 0; i < 100; i++)
		(void)ms_loaded_look();
	cr_expect_eq(n_entries(), n);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(entries()[i].end_stack, 0);
}
