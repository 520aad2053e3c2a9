/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/record.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/newfile.h"
#include "shim/block.h"
#include "shim/out/private.h"
#include "shim/out/say.h"
#include "shim/pointer.h"

enum { LINE_BYTES = 160, BUFFER_BYTES = 8192, LAST_PASS = 4 };

/* What is reserved: generation in the upper half, slots in the lower. */
static struct {
	struct ms_record *slot; /* touched as they are used */
	size_t max;
	uint64_t reserved;
	bool said_full;
	pthread_key_t key;
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static void add(enum ms_record_what what)
{
	ms_record_fill(ms_record_reserve(), &(struct ms_record){ .what = what });
}

/* After the destructors that free what a thread has, which come in rounds. */
static void thread_done(void *pass)
{
	uintptr_t n = (uintptr_t)pass;

	if (n < LAST_PASS)
		(void)pthread_setspecific(state.key, ms_pointer(n + 1));
	else
		add(MS_RECORD_THREAD_DONE);
}

bool ms_record_init(size_t max)
{
	void *p = mmap(NULL, max * sizeof(*state.slot), PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || pthread_key_create(&state.key, thread_done) != 0) {
		ms_say("Unable to make room for %zu records: %s", max, strerror(errno));
		return false;
	}
	state.slot = p;
	state.max = max;
	state.reserved = UINT64_C(1) << 32;
	return true;
}

uint64_t ms_record_reserve(void)
{
	uint64_t slot;

	if (!state.slot)
		return 0;
	if ((uint32_t)__atomic_load_n(&state.reserved, __ATOMIC_RELAXED) < state.max) {
		slot = __atomic_fetch_add(&state.reserved, 1, __ATOMIC_RELAXED);
		if ((uint32_t)slot < state.max)
			return slot;
	}
	if (!__atomic_exchange_n(&state.said_full, true, __ATOMIC_RELAXED))
		ms_say("Maximum number of records added, all new operations will be dropped.");
	return 0;
}

void ms_record_fill(uint64_t slot, const struct ms_record *record)
{
	uint32_t generation = (uint32_t)(slot >> 32);
	struct ms_block_times times;
	struct ms_record *to;

	if (!slot || generation != __atomic_load_n(&state.reserved, __ATOMIC_RELAXED) >> 32)
		return;
	times = ms_block_times();
	to = &state.slot[(uint32_t)slot];
	__atomic_store_n(&to->generation, 0, __ATOMIC_RELAXED);
	*to = *record;
	/* inverted: to what looks for leaks, records are no references */
	to->p = ~record->p;
	to->more = ~record->more;
	to->tid = gettid();
	to->start_ns = times.start_ns;
	to->end_ns = record->what == MS_RECORD_THREAD_DONE ? ms_now_ns() : times.end_ns;
	__atomic_store_n(&to->generation, generation, __ATOMIC_RELEASE);
	if (record->what != MS_RECORD_THREAD_DONE && !pthread_getspecific(state.key))
		(void)pthread_setspecific(state.key, ms_pointer(1));
}

static int text_of(const struct ms_record *kept, char *line)
{
	static const char *const names[] = {
		[MS_RECORD_MALLOC] = "malloc",   [MS_RECORD_CALLOC] = "calloc",
		[MS_RECORD_REALLOC] = "realloc", [MS_RECORD_MEMALIGN] = "memalign",
		[MS_RECORD_FREE] = "free",       [MS_RECORD_THREAD_DONE] = "thread_done",
	};
	struct ms_record record = *kept;
	const struct ms_record *r = &record;
	char middle[64] = "";
	int n = 0;

	record.p = ~kept->p;
	record.more = ~kept->more;

	if (r->what == MS_RECORD_MALLOC)
		n = snprintf(middle, sizeof(middle), " %" PRIu64, r->size);
	else if (r->what == MS_RECORD_CALLOC || r->what == MS_RECORD_MEMALIGN)
		n = snprintf(middle, sizeof(middle), " %" PRIu64 " %" PRIu64, r->more, r->size);
	else if (r->what == MS_RECORD_REALLOC)
		n = snprintf(middle, sizeof(middle), " 0x%" PRIx64 " %" PRIu64, r->more, r->size);
	if (n >= 0 && r->what != MS_RECORD_THREAD_DONE)
		(void)snprintf(middle + n, sizeof(middle) - (size_t)n, " %" PRIu64, r->start_ns);
	return snprintf(line, LINE_BYTES, "%" PRId32 ": %s 0x%" PRIx64 "%s %" PRIu64 "\n", r->tid,
	                names[r->what], r->p, middle, r->end_ns);
}

static bool write_slots(int fd, uint64_t reserved)
{
	char buffer[BUFFER_BYTES];
	size_t used = 0;
	size_t n = (uint32_t)reserved < state.max ? (uint32_t)reserved : state.max;

	for (size_t i = 0; i < n; i++) {
		const struct ms_record *slot = &state.slot[i];

		if (__atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) != reserved >> 32)
			continue;
		if (used > sizeof(buffer) - LINE_BYTES) {
			if (!ms_fd_write_all(fd, buffer, used))
				return false;
			used = 0;
		}
		used += (size_t)text_of(slot, buffer + used);
	}
	return ms_fd_write_all(fd, buffer, used);
}

/* They are recorded anew when these are in the file. */
static void forget(uint64_t reserved)
{
	__atomic_store_n(&state.reserved, ((reserved >> 32) + 1) << 32, __ATOMIC_RELEASE);
	__atomic_store_n(&state.said_full, false, __ATOMIC_RELAXED);
}

void ms_record_write(const char *path)
{
	uint64_t reserved = __atomic_load_n(&state.reserved, __ATOMIC_ACQUIRE);
	struct ms_newfile file;
	int error;
	bool whole;

	if (!state.slot)
		return;
	if (!(uint32_t)reserved) {
		ms_say("No alloc entries to write.");
		return;
	}
	error = ms_private_begin(path, &file);
	if (error) {
		ms_say("Cannot create record alloc file %s: %s", path, strerror(error));
		return;
	}
	whole = write_slots(file.fd, reserved);
	if (!whole)
		ms_say("Failed to write record alloc information: %s", strerror(errno));
	if (!ms_private_end(path, &file, whole) && whole)
		forget(reserved);
}

struct malloc_debug_list ms_record_slots(void)
{
	return (struct malloc_debug_list){ (uintptr_t)state.slot, (uint32_t)state.max,
		                           sizeof(*state.slot) };
}
