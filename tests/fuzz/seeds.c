/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer's seeds and random changes of them, always the same; for a short test,
 * and without libFuzzer.
 *
 *	fuzz_NAME              run them; the input that it dies of is told in hexadecimal
 *	fuzz_NAME --write DIR  write the seeds to files (written.c)
 *	fuzz_NAME FILE...      run these inputs
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

enum { CHANGED = 20, MOST_CHANGES = 6, LONGEST = 1 << 20 };

static uint8_t input[LONGEST];
static size_t input_len;

static size_t n_seeds;

static uint64_t next_random(void)
{
	static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static size_t below(size_t n)
{
	return n ? (size_t)(next_random() % n) : 0;
}

/* ---- what it died of ---- */

static void print_input(int sig)
{
	static const char digits[] = "0123456789abcdef";

	(void)!write(STDERR_FILENO, "input: ", 7);
	for (size_t i = 0; i < input_len; i++) {
		char text[2] = { digits[input[i] >> 4], digits[input[i] & 15] };

		(void)!write(STDERR_FILENO, text, sizeof(text));
	}
	(void)!write(STDERR_FILENO, "\n", 1);
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

/* From memory of exactly that length, so that a sanitizer sees a read behind it. */
static void run(void)
{
	uint8_t *copy = malloc(input_len ? input_len : 1);

	require(copy, "there is memory");
	memcpy(copy, input, input_len);
	(void)LLVMFuzzerTestOneInput(copy, input_len);
	free(copy);
}

/* ---- the seeds, and changes of them ---- */

static void take_seed(const void *bytes, size_t len)
{
	require(len <= LONGEST, "a seed is short");
	memcpy(input, bytes, len);
	input_len = len;
	n_seeds++;
}

static void change(void)
{
	size_t at = below(input_len);
	size_t len = below(input_len - at < 9 ? input_len - at : 9);

	switch (next_random() % 5) {
	case 0:
		input[at] ^= (uint8_t)(1 << below(8));
		break;
	case 1:
		input[at] = (uint8_t)next_random();
		break;
	case 2:
		memset(input + at, (int)(next_random() % 2) * 255, len);
		break;
	case 3:
		memmove(input + at, input + at + len, input_len - at - len);
		input_len -= len;
		break;
	case 4:
		memmove(input + below(input_len - len + 1), input + at, len);
		break;
	}
}

static void run_seed(const void *bytes, size_t len)
{
	take_seed(bytes, len);
	run();
	for (int i = 0; len && i < CHANGED; i++) {
		memcpy(input, bytes, len);
		input_len = len;
		for (size_t n = 1 + below(MOST_CHANGES); n && input_len; n--)
			change();
		run();
	}
}

/* ---- files ---- */

static void run_file(const char *path)
{
	FILE *from = fopen(path, "r");

	require(from, "an input can be opened");
	input_len = fread(input, 1, sizeof(input), from);
	(void)fclose(from);
	run();
}

int main(int argc, char **argv)
{
	(void)signal(SIGABRT, print_input);
	(void)LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		run_file(argv[i]);
	if (argc > 1)
		return 0;
	fuzz_seeds(run_seed);
	require(n_seeds, "there are seeds");
	return 0;
}
