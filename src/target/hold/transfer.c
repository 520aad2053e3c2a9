/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_vm_readv() for all that the program itself may read, twice as fast as
 * /proc/TID/mem; the file for what is left: PROT_NONE pages, and whatever stops
 * the call short, page by page.
 */
#include "target/hold/transfer.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/page.h"

enum { BATCH_RANGES = 512, BATCH_BYTES = 16 << 20 };

/* Pieces that go into one call. */
struct batch {
	struct iovec local[BATCH_RANGES];
	struct iovec remote[BATCH_RANGES];
	size_t n;
	size_t done; /* those before it are copied */
	size_t bytes;
};

/* The kernel's interface wants an address of the target as a pointer. */
static void *as_pointer(ms_addr addr)
{
	return (void *)(uintptr_t)addr; /* NOLINT(performance-no-int-to-ptr) */
}

static ms_addr as_addr(const void *pointer)
{
	return (uintptr_t)pointer;
}

/* Go @len bytes on; they are copied, or lost. */
static void advance(struct batch *batch, size_t len)
{
	while (len) {
		struct iovec *local = &batch->local[batch->done];
		struct iovec *remote = &batch->remote[batch->done];
		size_t step = len < local->iov_len ? len : local->iov_len;

		local->iov_base = (char *)local->iov_base + step;
		remote->iov_base = (char *)remote->iov_base + step;
		local->iov_len -= step;
		remote->iov_len -= step;
		len -= step;
		if (!local->iov_len)
			batch->done++;
	}
}

static bool add_lost(struct ms_transfer *transfer, ms_addr addr, size_t len)
{
	struct ms_ranges *lost = &transfer->lost;
	struct ms_range *last = lost->n ? &lost->at[lost->n - 1] : NULL;

	if (last && last->end == addr) {
		last->end += len;
		return true;
	}
	last = ms_vec_push(transfer->arena, lost);
	if (last)
		*last = (struct ms_range){ addr, addr + len };
	return last;
}

/* Copy what is left of the first piece by the file, or lose its first page. */
static enum ms_status rescue(struct ms_transfer *transfer, struct batch *batch, size_t max,
                             struct ms_error *err)
{
	struct iovec *local = &batch->local[batch->done];
	ms_addr addr = as_addr(batch->remote[batch->done].iov_base);
	size_t len = local->iov_len < max ? local->iov_len : max;
	ssize_t got = pread(transfer->mem_fd, local->iov_base, len, (off_t)addr);

	/* It reads 0 bytes when the process has no memory any more. */
	if (!got)
		return ms_fail(err, MS_E_GONE, "process %d ended while it was copied",
		               transfer->tid);
	if (got < 0) {
		got = len < MS_PAGE_BYTES ? (ssize_t)len : MS_PAGE_BYTES;
		if (!add_lost(transfer, addr, (size_t)got))
			return ms_fail(err, MS_E_NOMEM, "no memory for the list of lost pages");
	} else {
		transfer->bytes += (size_t)got;
	}
	advance(batch, (size_t)got);
	return MS_OK;
}

static enum ms_status flush(struct ms_transfer *transfer, struct batch *batch, struct ms_error *err)
{
	while (batch->done < batch->n) {
		size_t left = batch->n - batch->done;
		ssize_t got = process_vm_readv(transfer->tid, batch->local + batch->done, left,
		                               batch->remote + batch->done, left, 0);
		enum ms_status st = MS_OK;

		if (got > 0) {
			transfer->bytes += (size_t)got;
			advance(batch, (size_t)got);
		} else {
			/* EFAULT is one page's fault; EPERM or ENOSYS is the call's. */
			st = rescue(transfer, batch,
			            got < 0 && errno != EFAULT ? BATCH_BYTES : MS_PAGE_BYTES, err);
		}
		if (st)
			return st;
	}
	batch->n = 0;
	batch->done = 0;
	batch->bytes = 0;
	return MS_OK;
}

static void put(struct batch *batch, void *local, ms_addr remote, size_t len)
{
	batch->local[batch->n] = (struct iovec){ local, len };
	batch->remote[batch->n] = (struct iovec){ as_pointer(remote), len };
	batch->n++;
	batch->bytes += len;
}

/* Pages without access: the file alone reads them. */
static enum ms_status copy_forced(struct ms_transfer *transfer, struct batch *batch,
                                  struct ms_error *err)
{
	while (batch->done < batch->n) {
		enum ms_status st = rescue(transfer, batch, BATCH_BYTES, err);

		if (st)
			return st;
	}
	return flush(transfer, batch, err);
}

static enum ms_status copy_one(struct ms_transfer *transfer, struct batch *batch,
                               const struct ms_wanted *want, char *local, struct ms_error *err)
{
	ms_addr at = want->range.begin;
	enum ms_status st = MS_OK;

	if (want->forced)
		st = flush(transfer, batch, err);
	while (!st && at < want->range.end) {
		size_t room = BATCH_BYTES - batch->bytes;
		uint64_t left = want->range.end - at;
		size_t len = left < room ? (size_t)left : room;

		put(batch, local, at, len);
		at += len;
		local += len;
		if (want->forced)
			st = copy_forced(transfer, batch, err);
		else if (batch->n == BATCH_RANGES || batch->bytes == BATCH_BYTES)
			st = flush(transfer, batch, err);
	}
	return st;
}

enum ms_status ms_transfer_run(struct ms_transfer *transfer, const struct ms_wanted_list *wanted,
                               struct ms_mirrors *mirrors, struct ms_error *err)
{
	struct batch *batch = ms_arena_alloc(transfer->arena, sizeof(*batch));
	const struct ms_wanted *want;
	enum ms_status st;

	if (!batch)
		return ms_fail(err, MS_E_NOMEM, "no memory for copying");
	ms_vec_for_each (want, wanted) {
		char *local = ms_mirrors_at(mirrors, want->range.begin);

		st = copy_one(transfer, batch, want, local, err);
		if (st)
			return st;
	}
	return flush(transfer, batch, err);
}
