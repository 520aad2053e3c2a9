/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A process with a probe of the kernel's on one of its instructions: the kernel maps a
 * page, [uprobes], in which it runs that instruction, and which no clone gets. Ends with
 * 77 where no such probe can be had.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char __ehdr_start;
extern int probed(void);

/* Not an instruction that the kernel emulates. */
__asm__(".text\n.globl probed\n.type probed, @function\nprobed:\n"
        "mov $42, %eax\nret\n.size probed, . - probed");

static int probe_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int type = -1;

	if (file) {
		if (fscanf(file, "%d", &type) != 1)
			type = -1;
		fclose(file);
	}
	return type;
}

static int is_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, "[uprobes]") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

int main(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	char *path = realpath("/proc/self/exe", NULL);
	int type = probe_type();
	char byte;

	if (type < 0 || !path)
		return 77;
	attr.type = (uint32_t)type;
	attr.config1 = (uintptr_t)path;
	attr.config2 = (uintptr_t)probed - (uintptr_t)&__ehdr_start;
	if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0 || probed() != 42 || !is_mapped())
		return 77;
	if (write(1, "READY\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
