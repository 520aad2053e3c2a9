/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/guard/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/pointer.h"

size_t ms_guard_offset(const struct ms_opts *options)
{
	return MS_HEADER_BEFORE + MS_HEADER_BYTES + options->front_guard;
}

size_t ms_guard_extra(const struct ms_opts *options, size_t align)
{
	return ms_guard_offset(options) + options->rear_guard + options->expand +
	       (align > MS_BLOCK_ALIGN ? align - MS_BLOCK_ALIGN : 0);
}

struct ms_header *ms_guard_header(const struct ms_opts *options, const void *p)
{
	return ms_pointer((uintptr_t)p - options->front_guard - MS_HEADER_BYTES);
}

static uint32_t sum_of(const struct ms_header *header)
{
	uint64_t sum = (uint64_t)(uintptr_t)header->orig;

	sum = (sum ^ header->size) * UINT64_C(0x9e3779b97f4a7c15);
	sum = (sum ^ header->usable) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(sum >> 32);
}

bool ms_guard_is_whole(const struct ms_opts *options, const void *p)
{
	const struct ms_header *header = ms_guard_header(options, p);

	return header->sum == sum_of(header);
}

void *ms_guard_make(const struct ms_opts *options, void *orig, size_t whole, size_t align,
                    size_t size)
{
	size_t offset = ms_guard_offset(options);
	char *user = (char *)orig + offset;
	struct ms_header *header;

	user += -(uintptr_t)user & (align - 1);
	header = ms_guard_header(options, user);
	header->tag = MS_TAG_LIVE;
	header->orig = orig;
	header->usable = whole - (size_t)(user - (char *)orig);
	memset(user - options->front_guard, MS_FRONT_BYTE, options->front_guard);
	ms_guard_shrink(options, user, size);
	return user;
}

void ms_guard_shrink(const struct ms_opts *options, void *p, size_t size)
{
	struct ms_header *header = ms_guard_header(options, p);

	header->size = size;
	if (options->on & MS_OPT_REAR_GUARD) {
		header->usable = size;
		memset((char *)p + size, MS_REAR_BYTE, options->rear_guard);
	}
	header->sum = sum_of(header);
}

size_t ms_guard_differs(const void *p, uint8_t expected, size_t n)
{
	const uint8_t *bytes = p;
	size_t i = 0;

	/* All equal to the first, and that is the one: at memcmp()'s speed. */
	if (n && bytes[0] == expected && memcmp(bytes, bytes + 1, n - 1) == 0)
		return n;
	while (i < n && bytes[i] == expected)
		i++;
	return i;
}

/* The kernel reads for us: it does not mind an address that is none. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes it */
bool ms_guard_probe_tag(const struct ms_opts *options, const void *p, uint32_t *ret)
{
	struct iovec local = { ret, sizeof(*ret) };
	struct iovec remote = { ms_guard_header(options, p), sizeof(*ret) };
	int kept = errno;
	bool done = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof(*ret);

	errno = kept;
	return done;
}
