/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what reads programs and libraries as they lie in a process: base/elf by a
 * descriptor and by a source, with tls.c and links.c behind it; and the unwind tables
 * of target/stacks/tables.c, in memory and in the file.
 *
 *	fuzz: -max_len=2048
 *
 * The first byte of an input is what stands where the image does not, the second chooses
 * whether the source can be viewed; the rest is the image's bytes. It must neither crash
 * nor run on; what is found must be in it, and in one as drawn all must be found.
 */

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/elf/object.h"
#include "engine/loaded/links.h"
#include "engine/loaded/tls.h"
#include "fake.h"
#include "target/code/image.h"
#include "target/stacks/stacks.h"

#include "module.h"

enum { BYTES = 0x2000 };

static int memory = -1; /* stands for /proc/PID/mem, and for the file */
static uint8_t image[BYTES];

/* An image is at BASE of the memory, and the begin of the file. */
static void place(void)
{
	if (memory < 0)
		memory = memfd_create("memory", MFD_CLOEXEC);
	require(pwrite(memory, image, BYTES, 0) == BYTES &&
	                pwrite(memory, image, BYTES, BASE) == BYTES,
	        "the memory is there");
}

static void check_image(void)
{
	static const char *const names[] = { "malloc", "malloc_info", "none" };
	struct ms_image found;
	size_t n = 0;
	ms_addr at;

	if (!ms_image_open(0, memory, BASE, NULL, &found))
		return;
	require(found.object.span.begin == BASE, "an image begins where it is");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (ms_image_find(&found, names[i], &at)) {
			require(ms_range_has(found.object.span, at), "a function is in its image");
			n++;
		}
	require(n == 2 || !is_drawn(image, BYTES), "what it has is found");
}

static int open_file(const void *ctx, size_t entry)
{
	(void)ctx;
	(void)entry;
	return dup(memory);
}

static void check_table(void)
{
	struct ms_arena arena = { 0 };
	struct stat st;
	struct ms_mapping map = { .range = { BASE, BASE + BYTES }, .name = "" };
	struct ms_frozen_stacks stacks = { .mem = memory, .open = open_file };
	struct ms_unwind_table table;

	require(fstat(memory, &st) == 0, "the file is there");
	map.inode = st.st_ino;
	stacks.maps.at = &map;
	stacks.maps.n = 1;
	ms_unwind_table_find(&stacks, &map, &arena, &table);
	require(table.looked && (!table.found || table.n), "what is found has entries");
	require(table.n == 2 || !is_drawn(image, BYTES), "what it has is found");
	for (uint64_t i = 1; table.found && table.made && i < table.n; i++)
		require(table.made[i].pc >= table.made[i - 1].pc, "entries are in order");
	ms_arena_deinit(&arena);
}

static void check_source(bool no_view)
{
	struct ms_region region = { .range = { BASE, BASE + BYTES }, .kind = MS_REGION_GLOBALS };
	const struct ms_regions regions = { &region, 1, 1 };
	struct ms_arena arena = { 0 };
	struct ms_links links = { 0 };
	struct ms_link *link;
	struct ms_peek peek;
	struct ms_fake fake;
	struct ms_tls tls;
	ms_addr at;

	ms_fake_init(&fake);
	fake.no_view = no_view;
	memcpy(ms_fake_map(&fake, BASE, BYTES, MS_PROT_READ, "/lib"), image, BYTES);
	require(ms_peek_init(&peek, &fake.base, &arena), "there is memory");
	if (ms_tls_find(&peek, BASE, &tls))
		require(tls.far >= tls.near, "far is behind near");
	else
		require(!is_drawn(image, BYTES), "its storage is found");
	require(ms_links_read(&peek, &regions, &arena, &links), "there is memory for links");
	require(links.n == 1 || !is_drawn(image, BYTES), "a program links itself");
	links.n = links.n < 4 ? links.n : 4;
	ms_vec_for_each (link, &links) {
		const struct ms_reader from = ms_peek_reader(&peek);
		struct ms_dynamic dynamic = ms_dynamic_read_at(from, link->dynamic, link->bias, 8);

		at = ms_dynamic_function(from, &dynamic, "malloc");
		require(at == BASE + CODE + 0x20 || !is_drawn(image, BYTES), "malloc is found");
		(void)ms_dynamic_imports(from, &dynamic, "dlsym");
	}
	ms_arena_deinit(&arena);
	ms_fake_deinit(&fake);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return -1;
	memset(image, data[0], sizeof(image));
	memcpy(image, data + 2, size - 2 < BYTES ? size - 2 : (size_t)BYTES);
	place();
	check_image();
	check_table();
	check_source(data[1] % 2);
	return 0;
}

/* Entries that are shorter than any can be, more than there is room for. */
static void draw_short_entries(struct drawn_module *m)
{
	uint8_t *bytes = (uint8_t *)&m->cie;
	const size_t len = m->sections[3].sh_size;

	memset(bytes, 1, len);
	for (size_t at = 0; at + 4 <= len; at += 5)
		memcpy(bytes + at, &(uint32_t){ 1 }, 4);
}

static void draw_variant(struct drawn_module *m, uint8_t number)
{
	enum { TOO_LONG = 70000 };

	draw_module(m);
	switch (number) {
	case 1: /* without a table over its frames */
		m->phdr[3].p_type = PT_NULL;
		break;
	case 2: /* with the other hash */
		m->dynamic[3].d_tag = DT_RPATH;
		break;
	case 3: /* as no library is, but a program */
		m->dynamic[7].d_tag = DT_RPATH;
		break;
	case 4:
		m->ehdr.e_phnum = 1;
		break;
	case 5:
		m->phdr[3].p_type = PT_NULL;
		draw_short_entries(m);
		break;
	case 6:
		m->phdr[3].p_type = PT_NULL;
		m->sections[2].sh_size = TOO_LONG;
		break;
	}
}

void fuzz_seeds(fuzz_take take)
{
	struct {
		uint8_t chosen[2];
		uint8_t bytes[sizeof(struct drawn_module)];
	} seed = { { 0, 0 }, { 0 } };
	struct drawn_module m;

	for (uint8_t i = 0; i <= 6; i++) {
		draw_variant(&m, i);
		seed.chosen[1] = i;
		memcpy(seed.bytes, &m, sizeof(m));
		take(&seed, sizeof(seed));
	}
}
