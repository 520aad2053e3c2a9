/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program with 8 MiB of code of which it runs next to nothing: what of that is resident, others
 * have read. The allocator that is linked into it lies behind that.
 *
 * Usage: much_code [busy]
 *
 * busy: it does not wait for the end of its input in a system call.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of functions, as a compiler makes them. */
__asm__(".text\n"
        ".rept 1 << 15\n"
        ".cfi_startproc\n"
        ".skip 255, 0x90\n"
        "ret\n"
        ".cfi_endproc\n"
        ".endr\n");

enum { BLOCKS = 300 };

static void *held[BLOCKS];

int main(int argc, char **argv)
{
	char byte;

	(void)argv;
	if (argc > 1)
		fcntl(0, F_SETFL, O_NONBLOCK);

	for (int i = 0; i < BLOCKS; i++) {
		held[i] = malloc(100);
		memset(held[i], i, 100);
	}
	for (int i = 0; i < BLOCKS; i += 3) {
		free(held[i]);
		held[i] = NULL;
	}
	held[1] = NULL; /* the leak */
	if (write(1, "READY\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) != 0)
		for (volatile int i = 0; i < 1 << 20; i++)
			;
	return 0;
}
