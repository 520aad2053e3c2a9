/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsan: off. Children die in the middle, by their own filters.
 *
 * The kernel is the reference: programs drawn at random are installed in a child,
 * which asks them through a system call that does not exist, and what it saw must
 * be what our own run of the same program says.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"
#include "target/clone/seccomp.h"

#define N_OF(array)  (sizeof(array) / sizeof((array)[0]))
#define RET(action)  BPF_STMT(BPF_RET | BPF_K, action)
#define RET_A        BPF_STMT(BPF_RET | BPF_A, 0)
#define ALU(op, k)   BPF_STMT(BPF_ALU | (op) | BPF_K, k)
#define ALUX(op)     BPF_STMT(BPF_ALU | (op) | BPF_X, 0)
#define A(value)     BPF_STMT(BPF_LD | BPF_IMM, value)
#define X(value)     BPF_STMT(BPF_LDX | BPF_IMM, value)
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)

#if defined(__aarch64__)
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#else
enum { ARCH = (int)AUDIT_ARCH_X86_64 };
#endif

enum { NR_ASKED = 0x2f00, CELL = BPF_MEMWORDS - 1 };

static const struct seccomp_data asked = {
	.nr = NR_ASKED,
	.arch = (uint32_t)ARCH,
	.instruction_pointer = 0x1111111122222222,
	.args = { 0x3333333344444444, 1, 2, 3, 4, 0x5555555566666666 },
};

/* ---- the interpreter by itself ---- */

enum { PROGRAM = 8 };

static const struct {
	const char *what;
	struct sock_filter code[PROGRAM]; /* up to the last that is not all zero */
	uint32_t value;
} programs[] = {
	{ "a constant", { RET(77) }, 77 },
	{ "A is 0 at first", { RET_A }, 0 },
	{ "the number", { LOAD(0), RET_A }, NR_ASKED },
	{ "the machine", { LOAD(4), RET_A }, (uint32_t)ARCH },
	{ "the place, low half", { LOAD(8), RET_A }, 0x22222222 },
	{ "the place, high half", { LOAD(12), RET_A }, 0x11111111 },
	{ "the last word there is", { LOAD(60), RET_A }, 0x55555555 },
	{ "the length, in A", { BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), RET_A }, 64 },
	{ "the length, in X",
	  { BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_MISC | BPF_TXA, 0), RET_A },
	  64 },
	{ "to X and back",
	  { A(9), BPF_STMT(BPF_MISC | BPF_TAX, 0), A(1), ALUX(BPF_ADD), RET_A },
	  10 },
	{ "stored and loaded",
	  { A(5), BPF_STMT(BPF_ST, CELL), A(0), BPF_STMT(BPF_LD | BPF_MEM, CELL), RET_A },
	  5 },
	{ "stored from X, loaded to X",
	  { X(6), BPF_STMT(BPF_STX, 0), X(0), BPF_STMT(BPF_LDX | BPF_MEM, 0),
	    BPF_STMT(BPF_MISC | BPF_TXA, 0), RET_A },
	  6 },
	{ "addition wraps", { A(0xffffffff), ALU(BPF_ADD, 3), RET_A }, 2 },
	{ "subtraction wraps", { A(2), ALU(BPF_SUB, 3), RET_A }, 0xffffffff },
	{ "multiplication wraps", { A(0x10001), ALU(BPF_MUL, 0x10001), RET_A }, 0x20001 },
	{ "division has no sign", { A(0xfffffff0), ALU(BPF_DIV, 16), RET_A }, 0x0fffffff },
	{ "and", { A(12), ALU(BPF_AND, 10), RET_A }, 8 },
	{ "or", { A(12), ALU(BPF_OR, 10), RET_A }, 14 },
	{ "exclusive or", { A(12), ALU(BPF_XOR, 10), RET_A }, 6 },
	{ "a shift to the left", { A(3), ALU(BPF_LSH, 31), RET_A }, 0x80000000 },
	{ "a shift to the right", { A(0x80000000), ALU(BPF_RSH, 31), RET_A }, 1 },
	{ "a shift by X takes five bits", { A(1), X(33), ALUX(BPF_LSH), RET_A }, 2 },
	{ "negation", { A(1), ALU(BPF_NEG, 0), RET_A }, 0xffffffff },
	{ "division by an X of zero ends it", { A(1), ALUX(BPF_DIV), RET(9) }, 0 },
	{ "a jump", { BPF_STMT(BPF_JMP | BPF_JA, 1), RET(1), RET(2) }, 2 },
	{ "equal", { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), RET(1), RET(2) }, 2 },
	{ "not equal", { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 1, 0), RET(1), RET(2) }, 1 },
	{ "greater has no sign",
	  { A(0x80000000), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 1, 1, 0), RET(1), RET(2) },
	  2 },
	{ "not greater when equal",
	  { BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 1, 0), RET(1), RET(2) },
	  1 },
	{ "greater or equal", { BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0), RET(1), RET(2) }, 2 },
	{ "a bit that is set",
	  { A(6), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 2, 1, 0), RET(1), RET(2) },
	  2 },
	{ "compared with X",
	  { X(4), A(4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0), RET(1), RET(2) },
	  2 },
};

static size_t length_of(const struct sock_filter *code)
{
	static const struct sock_filter none;
	size_t n = PROGRAM;

	while (n && !memcmp(&code[n - 1], &none, sizeof(none)))
		n--;
	return n;
}

Test(seccomp, each_instruction_does_what_the_kernel_says)
{
	for (size_t i = 0; i < N_OF(programs); i++) {
		uint32_t value = ~0U;

		cr_expect(ms_seccomp_runs(programs[i].code, length_of(programs[i].code), &asked,
		                          &value),
		          "%s", programs[i].what);
		cr_expect_eq(value, programs[i].value, "%s: %#x", programs[i].what, value);
	}
}

static const struct {
	const char *what;
	struct sock_filter code[PROGRAM];
} wrong[] = {
	{ "nothing at all", { { 0 } } },
	{ "no end", { A(1) } },
	{ "a jump behind the end", { BPF_STMT(BPF_JMP | BPF_JA, 1), RET(1) } },
	{ "a jump of 4 G", { BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), RET(1) } },
	{ "a comparison that leads behind the end",
	  { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), RET(1) } },
	{ "a load behind the data", { LOAD(64), RET(1) } },
	{ "a load between two words", { LOAD(2), RET(1) } },
	{ "a load of a byte", { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), RET(1) } },
	{ "an indirect load", { BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), RET(1) } },
	{ "a cell that there is not", { BPF_STMT(BPF_LD | BPF_MEM, BPF_MEMWORDS), RET(1) } },
	{ "a store to such a cell", { BPF_STMT(BPF_ST, BPF_MEMWORDS), RET(1) } },
	{ "a remainder", { ALU(BPF_MOD, 3), RET(1) } },
	{ "a division by a constant zero", { ALU(BPF_DIV, 0), RET(1) } },
	{ "a shift by 32", { ALU(BPF_LSH, 32), RET(1) } },
	{ "a negation of X", { ALUX(BPF_NEG), RET(1) } },
	{ "return X", { BPF_STMT(BPF_RET | BPF_X, 0) } },
	{ "a code of more than eight bits", { { 0x100 | BPF_ALU | BPF_ADD, 0, 0, 1 }, RET(1) } },
};

Test(seccomp, a_program_that_the_kernel_would_not_take_is_refused)
{
	for (size_t i = 0; i < N_OF(wrong); i++) {
		uint32_t value = 77;

		cr_expect_not(
			ms_seccomp_runs(wrong[i].code, length_of(wrong[i].code), &asked, &value),
			"%s", wrong[i].what);
		cr_expect_eq(value, 77, "%s", wrong[i].what);
	}
}

Test(seccomp, a_program_longer_than_any_is_refused)
{
	static struct sock_filter code[BPF_MAXINSNS + 1];
	uint32_t value;

	for (size_t i = 0; i <= BPF_MAXINSNS; i++)
		code[i] = (struct sock_filter)A(1);
	code[BPF_MAXINSNS - 1] = (struct sock_filter)RET(5);
	cr_expect(ms_seccomp_runs(code, BPF_MAXINSNS, &asked, &value));
	cr_expect_eq(value, 5);
	cr_expect_not(ms_seccomp_runs(code, BPF_MAXINSNS + 1, &asked, &value));
}

/* ---- the interpreter against the kernel ---- */

/*
 * A drawn program stands between a head, which lets all other calls through and
 * fills every cell, and a tail, which answers 12 bits of A as an error number. Which
 * 12 bits is the last argument's choice.
 */
enum {
	ROUNDS = 250,
	ASKS = 12,
	BODY = 40,
	HEAD = 3 + 2 * BPF_MEMWORDS,
	TAIL = 6,
	SLICE_BITS = 12,
	UNASKED = -1,
};

/* Shared with the child, which may be killed by any of its questions. */
struct trial {
	struct sock_filter code[HEAD + BODY + TAIL];
	uint64_t args[ASKS][6];
	int32_t seen[ASKS]; /* an error number, or UNASKED */
	volatile int ended;
};

static uint32_t drawn_constant(uint32_t op)
{
	static const uint32_t special[] = { 0, 1, 2, 31, 32, 0x7fffffff, 0x80000000, 0xffffffff };
	uint32_t k = (uint32_t)random() << (random() % 2);

	if (op == BPF_LSH || op == BPF_RSH)
		return k % 32;
	k = random() % 2 ? special[(size_t)random() % N_OF(special)] : k;
	return op == BPF_DIV && !k ? 1 : k;
}

static struct sock_filter drawn_move(void)
{
	static const uint16_t codes[] = { BPF_LD | BPF_IMM,
		                          BPF_LDX | BPF_IMM,
		                          BPF_LD | BPF_W | BPF_LEN,
		                          BPF_LDX | BPF_W | BPF_LEN,
		                          BPF_MISC | BPF_TAX,
		                          BPF_MISC | BPF_TXA,
		                          BPF_LD | BPF_MEM,
		                          BPF_LDX | BPF_MEM,
		                          BPF_ST,
		                          BPF_STX,
		                          BPF_LD | BPF_W | BPF_ABS,
		                          BPF_LD | BPF_W | BPF_ABS };
	uint16_t code = codes[(size_t)random() % N_OF(codes)];
	uint32_t k = drawn_constant(0);

	if (code == (BPF_LD | BPF_W | BPF_ABS)) /* not the place, which we do not know */
		k = random() % 4 ? 16 + 4 * (uint32_t)(random() % 12) : 0;
	else if (code != (BPF_LD | BPF_IMM) && code != (BPF_LDX | BPF_IMM))
		k %= BPF_MEMWORDS;
	return (struct sock_filter)BPF_STMT(code, k);
}

static struct sock_filter drawn_instruction(uint32_t left)
{
	static const uint16_t alu[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
		                        BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH };
	static const uint16_t jumps[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
	uint16_t source = random() % 2 ? BPF_X : BPF_K;
	uint16_t op;

	switch (random() % 8) {
	case 0:
	case 1:
	case 2:
		return drawn_move();
	case 3:
		op = jumps[(size_t)random() % N_OF(jumps)];
		return (struct sock_filter)BPF_JUMP(BPF_JMP | op | source, drawn_constant(op),
		                                    (uint8_t)(random() % left),
		                                    (uint8_t)(random() % left));
	case 4:
		if (random() % 4 == 0)
			return (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA,
			                                    (uint32_t)random() % left);
		return (struct sock_filter)BPF_STMT(BPF_ALU | BPF_NEG, 0);
	default:
		op = alu[(size_t)random() % N_OF(alu)];
		return (struct sock_filter)BPF_STMT(BPF_ALU | op | source, drawn_constant(op));
	}
}

static void draw(struct trial *trial)
{
	static const struct sock_filter head[] = {
		LOAD(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_ASKED, 1, 0), RET(SECCOMP_RET_ALLOW)
	};
	static const struct sock_filter tail[TAIL] = { BPF_STMT(BPF_MISC | BPF_TAX, 0),
		                                       LOAD(16 + 5 * 8),
		                                       BPF_STMT(BPF_ST, 0),
		                                       BPF_STMT(BPF_MISC | BPF_TXA, 0),
		                                       BPF_STMT(BPF_LDX | BPF_MEM, 0),
		                                       ALUX(BPF_RSH) };
	struct sock_filter *at = trial->code;

	memcpy(at, head, sizeof(head));
	at += N_OF(head);
	for (uint32_t i = 0; i < BPF_MEMWORDS; i++) {
		*at++ = (struct sock_filter)A(drawn_constant(0));
		*at++ = (struct sock_filter)BPF_STMT(BPF_ST, i);
	}
	for (uint32_t left = BODY - 3; left; left--)
		*at++ = drawn_instruction(left);
	memcpy(at, tail, sizeof(tail));
	at += TAIL;
	*at++ = (struct sock_filter)ALU(BPF_AND, (1 << SLICE_BITS) - 1);
	*at++ = (struct sock_filter)ALU(BPF_OR, SECCOMP_RET_ERRNO);
	*at++ = (struct sock_filter)RET_A;
	for (size_t i = 0; i < ASKS; i++) {
		trial->seen[i] = UNASKED;
		for (size_t j = 0; j < 5; j++)
			trial->args[i][j] = (uint64_t)random() << 33 ^ (uint64_t)random();
		trial->args[i][5] = i % 3 * SLICE_BITS;
	}
}

static int install(const struct sock_filter *code, size_t n)
{
	struct sock_fprog program = { .len = (uint16_t)n };

	memcpy(&program.filter, &code, sizeof(code)); /* the kernel takes it without const */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void ask_kernel(struct trial *trial)
{
	if (install(trial->code, N_OF(trial->code)))
		_exit(1);
	for (size_t i = 0; i < ASKS; i++) {
		const uint64_t *args = trial->args[i];

		errno = 0;
		(void)syscall(NR_ASKED, args[0], args[1], args[2], args[3], args[4], args[5]);
		trial->seen[i] = errno;
	}
	_exit(0);
}

/* Whether the kernel and we agree on all that was asked; false in @ret_whole: it was killed. */
static bool agrees(const struct trial *trial, int round, bool *ret_whole)
{
	for (size_t i = 0; i < ASKS; i++) {
		struct seccomp_data data = { .nr = NR_ASKED, .arch = (uint32_t)ARCH };
		uint32_t action;

		memcpy(data.args, trial->args[i], sizeof(data.args));
		*ret_whole = trial->seen[i] != UNASKED;
		if (!ms_seccomp_runs(trial->code, N_OF(trial->code), &data, &action)) {
			cr_log_error("round %d: not run", round);
			return false;
		}
		if (!*ret_whole)
			return action == SECCOMP_RET_KILL_THREAD;
		/* MAX_ERRNO is 4095: nothing of the 12 bits is lost */
		if (action != (SECCOMP_RET_ERRNO | (uint32_t)trial->seen[i])) {
			cr_log_error("round %d, question %zu: kernel %d, we %#x", round, i,
			             trial->seen[i], action);
			return false;
		}
	}
	return true;
}

Test(seccomp, random_programs_answer_as_they_do_in_the_kernel)
{
	struct trial *trial = child_memory(sizeof(*trial));
	int killed = 0;

	srandom(20261121);
	for (int round = 0; round < ROUNDS; round++) {
		bool whole = true;
		int status;
		pid_t pid;

		draw(trial);
		pid = fork();
		if (!pid)
			ask_kernel(trial);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(!WIFEXITED(status) || !WEXITSTATUS(status),
		          "round %d: the kernel refused the program", round);
		cr_assert(agrees(trial, round, &whole), "round %d", round);
		cr_assert_eq(whole, WIFEXITED(status));
		killed += !whole;
	}
	/* divisions by zero are among them, but do not drown the rest */
	cr_expect(killed > 0 && killed < ROUNDS / 2, "%d killed", killed);
}

/* ---- a thread's filters ---- */

static const struct ms_wanted_call calls[] = {
	{ "prctl", { .nr = SYS_prctl, .arch = (uint32_t)ARCH } },
	{ "clone", { .nr = SYS_clone, .arch = (uint32_t)ARCH, .args = { 0x500 } } },
	{ "wait4", { .nr = SYS_wait4, .arch = (uint32_t)ARCH, .instruction_pointer = 0x7000 } },
};

static union ms_seccomp_room room;

/* A thread's filters, oldest first: what each answers to one call. */
struct scene {
	const char *what;
	struct {
		uint32_t nr;
		uint32_t action;
	} filters[3];
	enum ms_status status;
	const char *text; /* the begin of the refusal's */
};

static const struct scene scenes[] = {
	{ "none", { { 0 } }, MS_OK, "" },
	{ "ALLOW", { { SYS_clone, SECCOMP_RET_ALLOW } }, MS_OK, "" },
	{ "LOG", { { SYS_clone, SECCOMP_RET_LOG } }, MS_OK, "" },
	{ "another call", { { SYS_unshare, SECCOMP_RET_KILL_PROCESS } }, MS_OK, "" },
	{ "KILL_PROCESS",
	  { { SYS_clone, SECCOMP_RET_KILL_PROCESS } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with KILL_PROCESS" },
	{ "KILL_THREAD",
	  { { SYS_clone, SECCOMP_RET_KILL_THREAD } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with KILL_THREAD" },
	{ "TRAP",
	  { { SYS_prctl, SECCOMP_RET_TRAP | 5 } },
	  MS_E_DENIED,
	  "its seccomp filter answers prctl with TRAP" },
	{ "ERRNO",
	  { { SYS_wait4, SECCOMP_RET_ERRNO | EPERM } },
	  MS_E_DENIED,
	  "its seccomp filter answers wait4 with ERRNO" },
	{ "TRACE",
	  { { SYS_clone, SECCOMP_RET_TRACE } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with TRACE" },
	{ "USER_NOTIF",
	  { { SYS_clone, SECCOMP_RET_USER_NOTIF } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with USER_NOTIF" },
	{ "what no kernel knows, and takes for a kill",
	  { { SYS_clone, 0x12340000 } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with an action that is not known" },
	{ "the oldest of three",
	  { { SYS_clone, SECCOMP_RET_ERRNO }, { SYS_unshare, 0 }, { SYS_unshare, 0 } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with ERRNO" },
	{ "the newest of three",
	  { { SYS_unshare, 0 }, { SYS_unshare, 0 }, { SYS_clone, SECCOMP_RET_ERRNO } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with ERRNO" },
	{ "the end of the process is stricter than that of a thread",
	  { { SYS_clone, SECCOMP_RET_KILL_THREAD },
	    { SYS_clone, SECCOMP_RET_KILL_PROCESS },
	    { SYS_clone, SECCOMP_RET_KILL_THREAD } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with KILL_PROCESS" },
	{ "the strictest of three",
	  { { SYS_clone, SECCOMP_RET_ERRNO },
	    { SYS_clone, SECCOMP_RET_KILL_PROCESS },
	    { SYS_clone, SECCOMP_RET_TRAP } },
	  MS_E_DENIED,
	  "its seccomp filter answers clone with KILL_PROCESS" },
};

/* Filters only bite on calls that it does not make any more. */
static void sit_under_filters(void *arg)
{
	const struct scene *scene = arg;

	for (size_t i = 0; i < N_OF(scene->filters); i++) {
		struct sock_filter code[] = {
			LOAD(0),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, scene->filters[i].nr, 0, 1),
			RET(scene->filters[i].action),
			RET(SECCOMP_RET_ALLOW),
		};

		/* read(2) has number 0, and is none of ours */
		if (scene->filters[i].nr &&
		    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) + install(code, N_OF(code)) != 0)
			_exit(1);
	}
	child_ready();
	for (;;)
		(void)pause();
}

static void stop(pid_t pid)
{
	cr_assert_eq(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
	cr_assert_eq(waitpid(pid, NULL, __WALL), pid);
}

static bool may_read_filters(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	return !syscall(SYS_capget, &head, sets) && sets[0].effective & 1U << CAP_SYS_ADMIN;
}

/* An own copy: the body gets it without const. */
static pid_t start_scene(const struct scene *scene)
{
	struct scene *copy = child_memory(sizeof(*copy));

	*copy = *scene;
	return child_start(sit_under_filters, copy);
}

Test(seccomp, a_thread_is_asked_only_what_its_filters_let_through)
{
	if (!may_read_filters())
		cr_skip_test("only CAP_SYS_ADMIN may read filters");
	for (size_t i = 0; i < N_OF(scenes); i++) {
		struct ms_error err = { 0 };
		pid_t pid = start_scene(&scenes[i]);

		stop(pid);
		cr_expect_eq(ms_seccomp_check(pid, calls, N_OF(calls), &room, &err),
		             scenes[i].status, "%s: %s", scenes[i].what, err.text);
		cr_expect_str_eq(err.text, scenes[i].text, "%s", scenes[i].what);
		child_end(pid);
	}
}

/* A filter that looks at a flag, and one that looks at where the call is made. */
static void sit_under_close_looks(void *arg)
{
	struct sock_filter code[] = {
		LOAD(0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2),
		LOAD(16),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x400, 3, 4),
		LOAD(8),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x7000, 0, 2),
		RET(SECCOMP_RET_ERRNO | EACCES),
		RET(SECCOMP_RET_TRAP),
		RET(SECCOMP_RET_ALLOW),
	};

	(void)arg;
	if (install(code, N_OF(code)))
		_exit(1);
	child_ready();
	for (;;)
		(void)pause();
}

Test(seccomp, arguments_and_the_place_of_a_call_count)
{
	struct ms_error err = { 0 };
	pid_t pid;

	if (!may_read_filters())
		cr_skip_test("only CAP_SYS_ADMIN may read filters");
	pid = child_start(sit_under_close_looks, NULL);
	stop(pid);
	cr_expect_eq(ms_seccomp_check(pid, &calls[0], 1, &room, &err), MS_OK, "%s", err.text);
	cr_expect_eq(ms_seccomp_check(pid, &calls[1], 1, &room, &err), MS_E_DENIED);
	cr_expect_str_eq(err.text, "its seccomp filter answers clone with TRAP");
	cr_expect_eq(ms_seccomp_check(pid, &calls[2], 1, &room, &err), MS_E_DENIED);
	cr_expect_str_eq(err.text, "its seccomp filter answers wait4 with ERRNO");
	child_end(pid);
}

#ifdef __x86_64__
/* NR_ASKED from a place of ours; what the kernel calls that place. */
static long ask_from_here(uint64_t *ret_behind)
{
	long result = NR_ASKED;

	__asm__ volatile("lea 1f(%%rip), %1\n\tsyscall\n1:"
	                 : "+a"(result), "=&b"(*ret_behind)
	                 :
	                 : "rcx", "r11", "memory");
	return result;
}

static void answer_from_where(void *arg)
{
	uint64_t *seen = arg;
	struct sock_filter code[] = {
		LOAD(0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_ASKED, 1, 0),
		RET(SECCOMP_RET_ALLOW),
		LOAD(8),
		ALU(BPF_AND, 0xfff),
		ALU(BPF_OR, SECCOMP_RET_ERRNO),
		RET_A,
	};

	if (install(code, N_OF(code)))
		_exit(1);
	seen[0] = (uint64_t)-ask_from_here(&seen[1]);
	child_ready();
	for (;;)
		(void)pause();
}

/* What the header says of the instruction pointer, which callers rely on. */
Test(seccomp, a_filter_sees_the_address_behind_the_call)
{
	uint64_t *seen = child_memory(2 * sizeof(*seen));
	pid_t pid = child_start(answer_from_where, seen);

	cr_expect_neq(seen[1], 0);
	cr_expect_eq(seen[0], seen[1] & 0xfff);
	child_end(pid);
}
#endif

static void sit_strictly(void *arg)
{
	(void)arg;
	child_ready();
	(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	for (;;)
		;
}

Test(seccomp, strict_mode_is_refused)
{
	struct ms_error err = { 0 };
	pid_t pid = child_start(sit_strictly, NULL);
	enum ms_status st = MS_OK;

	for (int i = 0; i < 1000 && st == MS_OK; i++) {
		(void)usleep(1000);
		st = ms_seccomp_check(pid, calls, N_OF(calls), &room, &err);
	}
	cr_expect_eq(st, MS_E_DENIED);
	cr_expect_str_eq(err.text, "it is in seccomp's strict mode");
	child_end(pid);
}

Test(seccomp, without_the_capability_filters_are_unknown)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];
	struct ms_error err = { 0 };
	pid_t pid = start_scene(&scenes[1]);

	stop(pid);
	cr_assert_eq(syscall(SYS_capget, &head, sets), 0);
	sets[0].effective &= ~(1U << CAP_SYS_ADMIN);
	cr_assert_eq(syscall(SYS_capset, &head, sets), 0);
	cr_expect_eq(ms_seccomp_check(pid, calls, N_OF(calls), &room, &err), MS_E_UNSUPPORTED);
	cr_expect_str_eq(err.text, "its seccomp filter cannot be read (needs CAP_SYS_ADMIN)");
	child_end(pid);
}

Test(seccomp, a_thread_that_is_gone_is_told_so)
{
	struct ms_error err = { 0 };
	pid_t pid = start_scene(&scenes[1]);

	child_end(pid);
	cr_expect_eq(ms_seccomp_check(pid, calls, N_OF(calls), &room, &err), MS_E_GONE);
}
