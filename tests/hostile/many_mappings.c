/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many_mappings FILE N [OFFSET]: maps FILE N times to be executed, each from OFFSET on, prints
 * "READY" and waits for the end of its input.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = argc > 2 ? open(argv[1], O_RDONLY) : -1;
	long offset = argc > 3 ? atol(argv[3]) : 0;
	struct stat file;
	char byte;

	if (fd < 0 || fstat(fd, &file))
		return 2;
	for (int i = atoi(argv[2]); i > 0; i--)
		if (mmap(NULL, (size_t)(file.st_size - offset), PROT_READ | PROT_EXEC, MAP_PRIVATE,
		         fd, offset) == MAP_FAILED)
			return 2;
	(void)puts("READY");
	(void)fflush(stdout);
	return read(0, &byte, 1) > 0;
}
