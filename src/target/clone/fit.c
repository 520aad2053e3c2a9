/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/fit.h"

#include <sys/ptrace.h>

#include "base/libc.h"
#include "target/room.h"

enum {
	GET_DISPATCH = 0x4211, /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, Linux 6.4 */
	GET_RSEQ = 0x420f,     /* PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13 */
	RSEQ_CS = 8,           /* offset in struct rseq */
};

struct ms_wanted_call ms_fit_wanted(const struct ms_injection *in, const char *name,
                                    struct ms_call call)
{
	struct ms_wanted_call ret = {
		.name = name,
		.data = { .nr = (int)ms_arch_call(in->arch, call.nr),
		          .arch = in->arch->audit,
		          .instruction_pointer = in->gadgets->call + in->arch->call_bytes },
	};

	for (size_t i = 0; i < 6; i++)
		ret.data.args[i] = call.args[i];
	return ret;
}

enum ms_status ms_fit_check(const struct ms_injection *in, const struct ms_wanted_call *calls,
                            size_t n, union ms_seccomp_room *room, struct ms_error *err)
{
	struct {
		uint64_t mode;
		uint64_t selector;
		uint64_t offset;
		uint64_t len;
	} dispatch = { 0 };

	if (!ptrace((MS_PTRACE_REQUEST)GET_DISPATCH, in->tid, sizeof(dispatch), &dispatch) &&
	    dispatch.mode)
		return ms_fail(err, MS_E_UNSUPPORTED, "its system calls are dispatched by itself");
	if (in->arch->guards_returns(in->tid))
		return ms_fail(err, MS_E_UNSUPPORTED, "its return addresses are guarded (SHSTK)");
	return ms_seccomp_check(in->tid, calls, n, room, err);
}

bool ms_fit_is_in_sequence(pid_t tid)
{
	struct {
		uint64_t at;
		uint32_t size;
		uint32_t signature;
		uint32_t flags;
		uint32_t padding;
	} rseq = { 0 };
	uint64_t cs = 0;
	long n = ptrace((MS_PTRACE_REQUEST)GET_RSEQ, tid, sizeof(rseq), &rseq);

	if (n <= 0 || !rseq.at)
		return false;
	return ms_room_read(tid, rseq.at + RSEQ_CS, &cs, sizeof(cs)) != sizeof(cs) || cs;
}

/* What of the pieces of code stands at @at now. */
static struct ms_gadgets look_at(const struct ms_freezer *freezer, ms_addr at)
{
	struct ms_gadgets found = { 0 };
	uint8_t code[MS_GADGET_BYTES];
	size_t n = ms_room_read(freezer->shared->live_tid, at, code, sizeof(code));

	freezer->arch->calls->find(code, n, at, &found);
	return found;
}

void ms_fit_check_gadgets(const struct ms_freezer *freezer)
{
	struct ms_gadgets *gadgets = &freezer->shared->gadgets;

	if (freezer->arch->calls && gadgets->call && gadgets->restore &&
	    look_at(freezer, gadgets->call).call == gadgets->call &&
	    look_at(freezer, gadgets->restore).restore == gadgets->restore)
		return;
	*gadgets = (struct ms_gadgets){ 0 };
}
