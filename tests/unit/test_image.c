/* SPDX-License-Identifier: Apache-2.0 */
/* target/code/image.c over an object drawn into this process. */
#include "target/code/image.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "module.h"

enum { PAGE = 4096 };

/* Of such an object fewer entries can be read than are asked for. */
Test(image, may_end_with_its_dynamic_section)
{
	static const Elf64_Dyn entries[] = { { DT_NEEDED, { 1 } }, { DT_NULL, { 0 } } };
	unsigned char *page = mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE,
	                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ms_image image;
	Elf64_Phdr *phdrs;
	int mem_fd;

	cr_assert_neq(page, MAP_FAILED);
	munmap(page + PAGE, PAGE);
	phdrs = elf_write(page, 2);
	phdrs[0] = elf_load(0, PAGE, PF_R | PF_W);
	phdrs[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = PAGE - sizeof(entries) };
	memcpy(page + PAGE - sizeof(entries), entries, sizeof(entries));
	mem_fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	cr_assert(ms_image_open(0, mem_fd, (ms_addr)page, NULL, &image));
	cr_assert(ms_image_needs_others(&image));
	cr_assert_not(ms_image_read(&image, (ms_addr)page + PAGE - 1, &image, 2));
	close(mem_fd);
}
