/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libFuzzer calls first of all, and seeds.c does: --write DIR writes the seeds to files, a
 * corpus, and ends the process.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static size_t n_seeds;
static const char *folder;

static void write_seed(const void *bytes, size_t len)
{
	char path[4096];
	FILE *to;

	(void)snprintf(path, sizeof(path), "%s/seed%zu", folder, n_seeds++);
	to = fopen(path, "w");
	require(to && fwrite(bytes, 1, len, to) == len && fclose(to) == 0, "a seed is written");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	if (*argc != 3 || strcmp((*argv)[1], "--write") != 0)
		return 0;
	folder = (*argv)[2];
	require(mkdir(folder, 0777) == 0 || errno == EEXIST, "a folder can be made");
	fuzz_seeds(write_seed);
	require(n_seeds, "there are seeds");
	exit(0);
}
