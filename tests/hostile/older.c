/* SPDX-License-Identifier: Apache-2.0 */
/* older RELEASE COMMAND...: executes a command to which this kernel answers as an older one would.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "../support/older.h"

int main(int argc, char **argv)
{
	unsigned major, minor;

	if (argc < 3 || sscanf(argv[1], "%u.%u", &major, &minor) != 2) {
		(void)fprintf(stderr, "usage: older RELEASE COMMAND...\n");
		return 2;
	}
	if (older_refuse(major * 100 + minor)) {
		perror("older: seccomp");
		return 2;
	}
	(void)execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
