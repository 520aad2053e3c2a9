/* SPDX-License-Identifier: Apache-2.0 */
/* target/code/mapped_file.c over a file that this process has mapped. */
#include "target/code/mapped_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "target/maps.h"

enum { PAGE = 4096, PAGES = 3, BYTES = PAGES * PAGE - 100 };

static char path[] = "/tmp/memscan-mapped-XXXXXX";
static uint8_t *memory; /* PAGES pages; each is full of its number, from 1 on */
static struct ms_arena arena;
static struct ms_mappings maps;
static struct ms_running self;

static void map(void)
{
	uint8_t bytes[BYTES];
	int fd = mkstemp(path);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(1 + i / PAGE);
	cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	cr_assert_neq(memory, MAP_FAILED);
	close(fd);
	self = (struct ms_running){ getpid(), open("/proc/self/mem", O_RDONLY | O_CLOEXEC), &maps };
}

static void unmap(void)
{
	(void)unlink(path);
	close(self.mem_fd);
	ms_arena_deinit(&arena);
}

TestSuite(mapped_file, .init = map, .fini = unmap);

/* The mapping that has byte @at of the memory. */
static const struct ms_mapping *mapping(size_t at)
{
	struct ms_error err;

	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	return ms_maps_find(&maps, (ms_addr)(memory + at));
}

static struct ms_range part(size_t begin, size_t end)
{
	return (struct ms_range){ (ms_addr)(memory + begin), (ms_addr)(memory + end) };
}

Test(mapped_file, has_what_stood_there_first)
{
	const struct ms_mapping *all;
	const uint8_t *bytes;
	int fd;

	memory[PAGE + 5] = 77;
	/* Then it is of two mappings, of which the second does not begin with the file. */
	cr_assert_eq(mprotect(memory + PAGE, (size_t)2 * PAGE, PROT_READ), 0);
	all = mapping(PAGE + 5);
	cr_assert_eq(all->range.begin, (ms_addr)memory + PAGE);
	fd = ms_mapped_file_open(&self, all);
	cr_assert(fd >= 0);
	bytes = ms_mapped_file_take(fd, all, part(PAGE + 3, PAGE + 8), &arena);
	cr_assert_arr_eq(bytes, "\2\2\2\2\2", 5);
	/* The last page is not whole in the file, but in memory. */
	bytes = ms_mapped_file_take(fd, all, part(PAGE, PAGES * PAGE), &arena);
	cr_assert_eq(bytes[BYTES - PAGE - 1], 3);
	cr_assert_eq(bytes[BYTES - PAGE], 0);
	cr_assert_eq(truncate(path, PAGE + 10), 0);
	cr_assert_null(ms_mapped_file_take(fd, all, part(PAGE, PAGES * PAGE), &arena));
	close(fd);
}

Test(mapped_file, is_not_one_that_begins_in_another_way)
{
	memory[7] = 77;
	cr_assert_eq(ms_mapped_file_open(&self, mapping(PAGE)), -1);
	memory[7] = 1;
	cr_assert(ms_mapped_file_open(&self, mapping(PAGE)) >= 0);
}

Test(mapped_file, is_none_of_memory_without_a_file)
{
	uint8_t *other = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ms_error err;

	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	cr_assert_eq(ms_mapped_file_open(&self, ms_maps_find(&maps, (ms_addr)other)), -1);
	cr_assert_null(ms_mapped_file_take(-1, maps.at, part(0, 1), &arena));
}
