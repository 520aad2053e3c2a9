/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/seccomp.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/libc.h"
#include "target/proc.h"

/* "Seccomp:" in /proc/TID/status, by proc(5). */
enum { MODE_NONE, MODE_STRICT, MODE_FILTER };

/* More than the kernel lets a thread have: 32,768 instructions, each filter counting 4 besides. */
enum { MAX_FILTERS = 8192 };

struct machine {
	const struct seccomp_data *data;
	size_t pc; /* of the next instruction */
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
};

static bool load_data(struct machine *m, uint32_t offset)
{
	if (offset >= sizeof(*m->data) || offset % sizeof(m->a))
		return false;
	memcpy(&m->a, (const char *)m->data + offset, sizeof(m->a));
	return true;
}

/* One of the cells of M[]. The kernel refuses programs that read a cell before they wrote it. */
static bool move_cell(struct machine *m, const struct sock_filter *insn)
{
	if (insn->k >= BPF_MEMWORDS)
		return false;
	switch (insn->code) {
	case BPF_LD | BPF_MEM:
		m->a = m->memory[insn->k];
		return true;
	case BPF_LDX | BPF_MEM:
		m->x = m->memory[insn->k];
		return true;
	case BPF_ST:
		m->memory[insn->k] = m->a;
		return true;
	case BPF_STX:
		m->memory[insn->k] = m->x;
		return true;
	default:
		return false;
	}
}

static bool move(struct machine *m, const struct sock_filter *insn)
{
	switch (insn->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return load_data(m, insn->k);
	case BPF_LD | BPF_W | BPF_LEN:
		m->a = sizeof(*m->data);
		return true;
	case BPF_LDX | BPF_W | BPF_LEN:
		m->x = sizeof(*m->data);
		return true;
	case BPF_LD | BPF_IMM:
		m->a = insn->k;
		return true;
	case BPF_LDX | BPF_IMM:
		m->x = insn->k;
		return true;
	case BPF_MISC | BPF_TAX:
		m->x = m->a;
		return true;
	case BPF_MISC | BPF_TXA:
		m->a = m->x;
		return true;
	default:
		return move_cell(m, insn);
	}
}

/* A shift by @value; one by the constant 32 is refused by the kernel, one by X is masked. */
static bool shift(struct machine *m, const struct sock_filter *insn, uint32_t value)
{
	if (BPF_SRC(insn->code) == BPF_K && value >= 32)
		return false;
	if (BPF_OP(insn->code) == BPF_LSH)
		m->a <<= value & 31;
	else
		m->a >>= value & 31;
	return true;
}

/* All but a division by zero. */
static bool calculate(struct machine *m, const struct sock_filter *insn)
{
	uint32_t value = BPF_SRC(insn->code) == BPF_X ? m->x : insn->k;

	switch (BPF_OP(insn->code)) {
	case BPF_ADD:
		m->a += value;
		return true;
	case BPF_SUB:
		m->a -= value;
		return true;
	case BPF_MUL:
		m->a *= value;
		return true;
	case BPF_DIV:
		if (value)
			m->a /= value;
		return value;
	case BPF_AND:
		m->a &= value;
		return true;
	case BPF_OR:
		m->a |= value;
		return true;
	case BPF_XOR:
		m->a ^= value;
		return true;
	case BPF_LSH:
	case BPF_RSH:
		return shift(m, insn, value);
	case BPF_NEG:
		m->a = -m->a;
		return BPF_SRC(insn->code) == BPF_K;
	default: /* BPF_MOD among them: seccomp does not have it */
		return false;
	}
}

/* The sum cannot wrap: pc is at most BPF_MAXINSNS, and k has 32 of 64 bits. */
static bool jump(struct machine *m, const struct sock_filter *insn)
{
	uint32_t value = BPF_SRC(insn->code) == BPF_X ? m->x : insn->k;
	bool taken;

	switch (BPF_OP(insn->code)) {
	case BPF_JA:
		m->pc += insn->k;
		return BPF_SRC(insn->code) == BPF_K;
	case BPF_JEQ:
		taken = m->a == value;
		break;
	case BPF_JGT:
		taken = m->a > value;
		break;
	case BPF_JGE:
		taken = m->a >= value;
		break;
	case BPF_JSET:
		taken = m->a & value;
		break;
	default:
		return false;
	}
	m->pc += taken ? insn->jt : insn->jf;
	return true;
}

/* Whether @insn ends the program, with what in @ret. */
static bool returns(const struct machine *m, const struct sock_filter *insn, uint32_t *ret)
{
	switch (insn->code) {
	case BPF_RET | BPF_K:
		*ret = insn->k;
		return true;
	case BPF_RET | BPF_A:
		*ret = m->a;
		return true;
	case BPF_ALU | BPF_DIV | BPF_X:
		*ret = 0; /* by zero: SECCOMP_RET_KILL_THREAD, by the kernel's choice */
		return m->x == 0;
	default:
		return false;
	}
}

static bool step(struct machine *m, const struct sock_filter *insn)
{
	if (insn->code > 0xff)
		return false;
	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
		return calculate(m, insn);
	case BPF_JMP:
		return jump(m, insn);
	default:
		return move(m, insn);
	}
}

bool ms_seccomp_runs(const struct sock_filter *code, size_t n, const struct seccomp_data *data,
                     uint32_t *ret_action)
{
	struct machine m = { .data = data };

	if (n > BPF_MAXINSNS)
		return false;
	while (m.pc < n) {
		const struct sock_filter *insn = &code[m.pc++];

		if (returns(&m, insn, ret_action))
			return true;
		if (!step(&m, insn))
			return false;
	}
	return false;
}

/* NULL: the call is made. */
static const char *refusal(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return NULL;
	case SECCOMP_RET_KILL_PROCESS:
		return "KILL_PROCESS";
	case SECCOMP_RET_KILL_THREAD:
		return "KILL_THREAD";
	case SECCOMP_RET_TRAP:
		return "TRAP";
	case SECCOMP_RET_ERRNO:
		return "ERRNO";
	case SECCOMP_RET_USER_NOTIF:
		return "USER_NOTIF";
	case SECCOMP_RET_TRACE:
		return "TRACE";
	default:
		return "an action that is not known";
	}
}

/* The kernel's order: of several filters' answers the lowest signed number counts. */
static int32_t rank(uint32_t action)
{
	return (int32_t)(action & SECCOMP_RET_ACTION_FULL);
}

/* The strictest answer so far, and to which call. */
struct verdict {
	uint32_t action;
	const char *name;
};

static bool ask(const struct sock_filter *code, size_t len, const struct ms_wanted_call *call,
                struct verdict *verdict)
{
	uint32_t action;

	if (!ms_seccomp_runs(code, len, &call->data, &action))
		return false;
	if (rank(action) < rank(verdict->action)) {
		verdict->action = action;
		verdict->name = call->name;
	}
	return true;
}

/* Number of instructions of filter @index, 0 the oldest; minus errno, -ENOENT behind the last. */
static long dump(pid_t tid, size_t index, struct sock_filter *code)
{
	long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);

	if (n >= 0 && n <= BPF_MAXINSNS)
		n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, code);
	return n < 0 ? -errno : n;
}

static enum ms_status fail_unreadable(int sys_errno, struct ms_error *err)
{
	if (sys_errno == ESRCH)
		return ms_fail(err, MS_E_GONE, "a thread ended while its seccomp filter was read");
	if (sys_errno == EACCES)
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "its seccomp filter cannot be read (needs CAP_SYS_ADMIN)");
	return ms_fail(err, MS_E_UNSUPPORTED, "its seccomp filter cannot be read: %s",
	               ms_error_text(sys_errno));
}

static enum ms_status ask_filters(pid_t tid, const struct ms_wanted_call *calls, size_t n,
                                  struct sock_filter *code, struct ms_error *err)
{
	struct verdict verdict = { .action = SECCOMP_RET_ALLOW };
	long len = 0;

	for (size_t index = 0; index < MAX_FILTERS; index++) {
		len = dump(tid, index, code);
		if (len < 0)
			break;
		for (size_t i = 0; i < n; i++)
			if (!ask(code, (size_t)len, &calls[i], &verdict))
				return ms_fail(err, MS_E_UNSUPPORTED,
				               "its seccomp filter %zu is not understood", index);
	}
	if (len != -ENOENT)
		return fail_unreadable(len < 0 ? (int)-len : E2BIG, err);
	if (!refusal(verdict.action))
		return MS_OK;
	return ms_fail(err, MS_E_DENIED, "its seccomp filter answers %s with %s", verdict.name,
	               refusal(verdict.action));
}

enum ms_status ms_seccomp_check(pid_t tid, const struct ms_wanted_call *calls, size_t n,
                                union ms_seccomp_room *room, struct ms_error *err)
{
	ssize_t len = ms_proc_read(tid, "status", room->status, sizeof(room->status));

	if (len < 0)
		return ms_fail(err, MS_E_GONE, "thread %d is gone", tid);
	/* "Groups:" comes before and may be of any length: a cut text says nothing. */
	if (len == sizeof(room->status) - 1 && !strstr(room->status, "\nSeccomp:"))
		return ms_fail(err, MS_E_UNSUPPORTED, "whether it has a seccomp filter is unknown");
	switch (ms_proc_field(room->status, "Seccomp", 10)) {
	case MODE_NONE:
		return MS_OK;
	case MODE_FILTER:
		return ask_filters(tid, calls, n, room->code, err);
	default:
		return ms_fail(err, MS_E_DENIED, "it is in seccomp's strict mode");
	}
}
