/* SPDX-License-Identifier: Apache-2.0 */
/*
 * without_call NUMBER FIRST ERROR PROG [ARG]...: run PROG where the system call NUMBER,
 * when its first argument is FIRST, or that is -1, fails with ERROR.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned number = argc > 4 ? (unsigned)atoi(argv[1]) : 0;
	long first = argc > 4 ? atol(argv[2]) : 0;
	unsigned error = argc > 4 ? (unsigned)atoi(argv[3]) : 0;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)first, 0, first < 0 ? 0 : 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (argc <= 4)
		return 2;
	/* Not by no_new_privs, which may be what is to fail; as root this is not needed. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
		perror("seccomp");
		return 2;
	}
	execvp(argv[4], argv + 4);
	perror(argv[4]);
	return 2;
}
