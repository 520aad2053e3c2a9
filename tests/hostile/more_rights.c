/* SPDX-License-Identifier: Apache-2.0 */
/*
 * more_rights search | idle: a program that is installed setuid and linked with one of the
 * libraries. It prints "euid N" and "handler N" (whether libmemunreachable would install
 * its own), loses a block, searches itself if asked to, and ends with its input.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool memunreachable_install_handler(void) __attribute__((weak));
bool LogUnreachableMemory(bool log_contents, size_t limit) __attribute__((weak));

int main(int argc, char **argv)
{
	char byte;
	void *lost = malloc(1234);

	memset(lost, 1, 1234);
	lost = NULL;
	printf("euid %d\n", (int)geteuid());
	printf("handler %d\n",
	       memunreachable_install_handler ? memunreachable_install_handler() : -1);
	if (argc > 1 && !strcmp(argv[1], "search") && LogUnreachableMemory)
		printf("logged %d\n", LogUnreachableMemory(false, 10));
	puts("READY");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
