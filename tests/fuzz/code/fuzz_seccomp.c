/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what runs seccomp filters (target/clone/seccomp.h).
 *
 *	fuzz: -max_len=512
 *
 * An input is a program as the kernel hands it out. It must end, whatever it is, and give
 * the same answer when it is run a second time; that it is the kernel's answer, unit tests
 * prove.
 */

#include <linux/audit.h>
#include <string.h>

#include "target/clone/seccomp.h"

#include "fuzz.h"

static const struct seccomp_data asked = {
	.nr = 56,
	.arch = AUDIT_ARCH_X86_64,
	.instruction_pointer = 0x1111111122222222,
	.args = { 0x3333333344444444, 1, 2, 3, 4, 0x5555555566666666 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = size / sizeof(struct sock_filter);
	struct sock_filter *code = malloc(n * sizeof(*code) + 1);
	uint32_t first = 0;
	uint32_t second = 0;
	bool runs;

	require(code, "there is memory");
	memcpy(code, data, n * sizeof(*code));
	runs = ms_seccomp_runs(code, n, &asked, &first);
	require(ms_seccomp_runs(code, n, &asked, &second) == runs && first == second,
	        "a program has one answer");
	require(runs || !first, "nothing is answered by what is no program");
	free(code);
	return 0;
}

/* As programs have them: the machine, the number, and an argument are compared. */
void fuzz_seeds(fuzz_take take)
{
	static const struct sock_filter simple[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 56, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	static const struct sock_filter reckons[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
		BPF_STMT(BPF_ST, 15),
		BPF_STMT(BPF_LDX | BPF_MEM, 15),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 31),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_NEG, 0),
		BPF_STMT(BPF_JMP | BPF_JA, 0),
		BPF_STMT(BPF_STX, 0),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_X, 0, 0, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	take(simple, sizeof(simple));
	take(reckons, sizeof(reckons));
}
