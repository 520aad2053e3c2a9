/* SPDX-License-Identifier: Apache-2.0 */
/* swap NAME TARGET: whatever appears as NAME becomes a link to TARGET, at once, for ever. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	puts("READY");
	fflush(stdout);
	for (;;)
		if (!access(argv[1], F_OK)) {
			unlink(argv[1]);
			symlink(argv[2], argv[1]);
			usleep(20000);
			unlink(argv[1]);
		}
}
