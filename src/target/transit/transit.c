/* SPDX-License-Identifier: Apache-2.0 */
#include "target/transit/transit.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "base/libc.h"
#include "target/helper.h"
#include "target/jail/jail.h"
#include "target/transit/look.h"

/* Until the helper has listed the descriptors; it has a limit of its own. */
static const uint64_t ready_ns = UINT64_C(300000000);

/* In memory that the three share; what is not found is the same for all, or the sweeper's. */
struct ms_transit {
	pid_t helper;
	int channel;       /* to the helper */
	uint64_t begun_ns; /* 0: it was not told to look */
	bool done;
	struct ms_transit_found found;
};

enum { OURS, THEIRS };

static _Noreturn void be_helper(struct ms_transit_found *found, pid_t pid, const int channel[2],
                                pid_t parent)
{
	const int keep[] = { channel[THEIRS] };
	const struct ms_jail jail = { .keep = keep, .n_keep = 1 };
	struct ms_error err;

	if (!ms_follow_parent(parent))
		_exit(0);
	(void)prctl(PR_SET_NAME, "memscan-transit");
	/* Else the collection process would not see the sweeper end. */
	if (ms_jail_close(&jail, &err))
		_exit(1);
	_exit(ms_transit_serve(found, pid, channel[THEIRS]));
}

/* Hear @word before @until_ns. */
static bool hear(const struct ms_transit *t, char word, uint64_t until_ns)
{
	char heard = 0;

	for (;;) {
		struct pollfd ready = { t->channel, POLLIN, 0 };
		const uint64_t now_ns = ms_now_ns();
		const uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
		const struct timespec limit = { (time_t)(left_ns / UINT64_C(1000000000)),
			                        (long)(left_ns % UINT64_C(1000000000)) };
		int n = ppoll(&ready, 1, &limit, NULL);

		if (n > 0)
			break;
		if (n == 0 || errno != EINTR)
			return false;
	}
	return recv(t->channel, &heard, 1, MSG_DONTWAIT) == 1 && heard == word;
}

struct ms_transit *ms_transit_start(pid_t pid)
{
	const pid_t parent = getpid();
	struct ms_transit *t;
	int channel[2];
	pid_t helper;
	void *memory = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	t = memory;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) {
		(void)munmap(t, sizeof(*t));
		return NULL;
	}
	t->channel = channel[OURS];
	helper = fork();
	if (helper == 0)
		be_helper(&t->found, pid, channel, parent);
	t->helper = helper; /* the helper shares it, and would make it 0 */
	(void)close(channel[THEIRS]);
	return t;
}

void ms_transit_leave(struct ms_transit *t)
{
	if (!t)
		return;
	(void)close(t->channel);
	(void)madvise(t, sizeof(*t), MADV_DONTFORK);
}

void ms_transit_reap(struct ms_transit *t)
{
	if (!t)
		return;
	/* Whoever waits for all children may have seen its end. */
	if (t->helper > 0)
		(void)ms_helper_reap(t->helper, 0, NULL, NULL);
	(void)munmap(t, sizeof(*t));
}

void ms_transit_await(const struct ms_transit *t)
{
	if (t)
		(void)hear(t, MS_TRANSIT_READY, ms_now_ns() + ready_ns);
}

void ms_transit_look(struct ms_transit *t)
{
	const char word = MS_TRANSIT_LOOK;

	if (!t)
		return;
	t->begun_ns = ms_now_ns();
	(void)send(t->channel, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ms_transit_wait(struct ms_transit *t, uint64_t most_ns)
{
	if (!t)
		return;
	t->done = hear(t, MS_TRANSIT_DONE, t->begun_ns + most_ns);
	atomic_store(&t->found.released, true);
}

/* ---- what was found ---- */

struct doubts {
	unsigned n_behind;
	unsigned n_late;
	bool without_memory;
};

static struct doubts add_words(const struct ms_transit_found *found, struct ms_source *src,
                               struct ms_arena *arena)
{
	const unsigned n = atomic_load(&found->n_records);
	struct doubts ret = { 0 };

	for (unsigned i = 0; i < n && i < MS_TRANSIT_RECORDS; i++) {
		const struct ms_transit_record *record = &found->records[i];
		const size_t before = src->transit.n;

		ret.without_memory |=
			!ms_transit_add_words(record, found->bytes + record->at, src, arena);
		/* What carries no pointer first carries hardly any behind, or later. */
		ret.n_behind += record->behind && src->transit.n > before;
		ret.n_late += record->late && src->transit.n > before;
	}
	return ret;
}

static void warn(const struct ms_transit *t, const struct doubts *doubts, struct ms_arena *arena,
                 struct ms_notes *warnings)
{
	const unsigned n_refused = atomic_load(&t->found.n_refused);
	const unsigned n_left = atomic_load(&t->found.n_left);

	if (n_refused)
		ms_note_add(
			arena, warnings,
			"%u of the pipes, sockets and message queues could not be looked into (%s): "
			"what only a pointer in transit holds is reported as leaked",
			n_refused, ms_error_text(atomic_load(&t->found.refusal)));
	if (n_left)
		ms_note_add(
			arena, warnings,
			"%u socket%s could not be looked into, where an error waits or an offset "
			"is set by SO_PEEK_OFF: what only a pointer in there holds is reported "
			"as leaked",
			n_left, ms_plural(n_left));
	if (doubts->n_behind)
		ms_note_add(arena, warnings,
		            "pointers are in %u of the pipes and sockets, and perhaps more behind "
		            "what the kernel shows: what only those hold is reported as leaked",
		            doubts->n_behind);
	if (doubts->n_late)
		ms_note_add(
			arena, warnings,
			"%u of the pipes, sockets and messages with pointers could be looked into "
			"only when the process ran again: what only a pointer that was received "
			"meanwhile held may be reported as leaked",
			doubts->n_late);
	if (!t->done || atomic_load(&t->found.cut) || doubts->without_memory)
		ms_note_add(arena, warnings,
		            "not all pipes, sockets and message queues were looked into within the "
		            "limits of time and size: what only a pointer in the others holds is "
		            "reported as leaked");
}

void ms_transit_end(struct ms_transit *t, struct ms_source *src, struct ms_arena *arena,
                    struct ms_notes *warnings)
{
	struct doubts doubts;

	if (!t) {
		ms_note_add(arena, warnings,
		            "pipes, sockets and message queues were not looked into, as no process "
		            "could be started for it: what only a pointer in transit holds is "
		            "reported as leaked");
		return;
	}
	if (src && !t->done)
		t->done = hear(t, MS_TRANSIT_DONE, t->begun_ns + MS_TRANSIT_MOST_NS);
	if (src) {
		doubts = add_words(&t->found, src, arena);
		warn(t, &doubts, arena, warnings);
	}
	(void)close(t->channel);
	(void)munmap(t, sizeof(*t));
}
