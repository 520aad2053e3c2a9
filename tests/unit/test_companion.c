/* SPDX-License-Identifier: Apache-2.0 */
/* A process beside the test's, on kernels that lack a call. lsan: off */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <unistd.h>

#include "inproc/companion.h"
#include "older.h"

enum { OPEN = 500, FAR = 2000, LIMIT = 4000, KERNEL = 504 };

struct seen {
	int file; /* to look for */
	bool alive;
	bool closed;
};

TestSuite(companion, .timeout = 60);

/* Closing a number above FAR, where nothing is open, ends the process. */
static void forbid_far(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FAR, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void look(void *ctx)
{
	struct seen *seen = ctx;

	seen->alive = true;
	seen->closed = fcntl(seen->file, F_GETFD) < 0;
}

Test(companion, closes_what_is_open_and_no_other_number)
{
	const struct rlimit limit = { LIMIT, LIMIT };
	struct ms_companion *process = ms_companion_new(sizeof(struct seen), look);
	struct seen *seen = process->ctx;

	for (int i = 0; i < OPEN; i++)
		seen->file = open("/dev/null", O_RDONLY);
	cr_assert_geq(seen->file, OPEN);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(older_refuse(KERNEL), 0);
	forbid_far();
	cr_assert_eq(ms_companion_begin(process), 0);
	ms_companion_join(process);
	cr_expect(seen->alive, "it tried every number up to the limit");
	cr_expect(seen->closed);
	ms_companion_free(process);
}
