/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_SOURCE_H
#define MS_ENGINE_SOURCE_H

/*
 * Port: where the engine's bytes come from.
 *
 * A source is one consistent view of one process: a copy of its memory, a
 * copy-on-write clone, our own address space, a core file. The engine never
 * learns which. Nothing here starts, stops or resumes a process. Several threads
 * may ask one source at once.
 *
 * To add a source:
 *	1. src/target/foo.c: define `struct ms_foo { struct ms_source base; ... }`, a
 *	   `static const struct ms_source_ops`, and ms_foo_open();
 *	2. fill base.abi, base.mappings, base.threads and base.kernel_words before it is used;
 *	3. tests/unit/test_foo.c: run the conformance suite of tests/support/source_suite.h.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/range.h"
#include "base/reader.h"
#include "base/status.h"
#include "engine/abi.h"
#include "engine/anchors.h"

enum ms_prot { MS_PROT_READ = 1, MS_PROT_WRITE = 2, MS_PROT_EXEC = 4 };

/* One line of /proc/PID/maps. */
struct ms_mapping {
	struct ms_range range;
	uint64_t offset; /* into the file, bytes */
	uint64_t inode;  /* of its file; 0: none, or it is not known */
	uint32_t dev_major;
	uint32_t dev_minor;
	uint8_t prot;     /* enum ms_prot */
	bool file;        /* of a file, shared memory's included */
	bool shared;      /* MAP_SHARED */
	const char *name; /* as the kernel prints it; "" when it prints none; never NULL */
};

struct ms_mappings MS_VEC(struct ms_mapping);

/* Whether a thread was caught inside malloc, and could not be led out of it. */
enum ms_in_malloc {
	MS_MALLOC_OUT,
	MS_MALLOC_WAITS, /* for a lock: it has begun nothing in the heap that others see */
	MS_MALLOC_WORKS, /* the heap may be in the middle of a change */
};

/* Whether the kernel made the mapping of this name for itself: the program put nothing there. */
static inline bool ms_is_kernels(const char *name)
{
	return !strcmp(name, "[vdso]") || !strncmp(name, "[vvar", sizeof("[vvar") - 1) ||
	       !strcmp(name, "[vsyscall]") || !strcmp(name, "[uprobes]");
}

static inline bool ms_name_begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/*
 * Whether the mapping of this name is a device's, whose reading may have effects. Shared
 * memory without a file is called /dev/zero, POSIX's lies in /dev/shm, huge pages often in
 * /dev/hugepages.
 */
static inline bool ms_is_device(const char *name)
{
	return ms_name_begins(name, "/dev/") && !ms_name_begins(name, "/dev/zero") &&
	       !ms_name_begins(name, "/dev/shm/") && !ms_name_begins(name, "/dev/hugepages");
}

/* What one thread held when it was stopped. */
struct ms_thread {
	int32_t tid;
	bool stopped;      /* false: asleep in the kernel, only pc and sp are known */
	uint8_t in_malloc; /* enum ms_in_malloc */
	bool runs;         /* it is in no system call, or in one that malloc makes and that ends */
	bool may_wait;     /* it sleeps in a call that malloc makes */
	ms_addr malloc_at; /* the instruction of malloc that it is at or returns to; 0: not known */
	ms_addr pc;
	ms_addr sp;
	ms_addr tp;            /* thread pointer (fs_base); 0 when not known */
	const uint64_t *words; /* general, floating-point and vector registers; borrowed */
	size_t n_words;
};

struct ms_threads MS_VEC(struct ms_thread);

struct ms_words MS_VEC(uint64_t);

/* Where bytes are that were sent and not received yet. */
enum ms_transit_place {
	MS_TRANSIT_PIPE,
	MS_TRANSIT_SOCKET,
	MS_TRANSIT_QUEUE, /* a message queue of System V */
	MS_TRANSIT_PLACES
};

/* What may be an address among them. */
struct ms_transit_word {
	uint64_t value;
	int32_t number; /* of the descriptor by which it would be received; of a queue, its id */
	enum ms_transit_place place;
};

struct ms_transit_words MS_VEC(struct ms_transit_word);

struct ms_source;

struct ms_source_ops {
	const char *name; /* the report's scan.source: "copy", "fork", "self", "core" */

	/*
	 * Copy up to @len bytes at @addr into @buf.
	 *
	 * Returns how many bytes from @addr on were readable, 0 to @len. @len may
	 * be 0. Memory that was mapped but never touched reads as zeros. What the
	 * source cannot show is not readable, and is in base.unseen. Required.
	 */
	size_t (*read)(struct ms_source *src, ms_addr addr, void *buf, size_t len);

	/*
	 * The same bytes without copying: @len contiguous bytes at @addr, good until
	 * close(), or NULL when the source cannot show them in one piece. Optional
	 * (NULL member); callers then read().
	 */
	const void *(*view)(struct ms_source *src, ms_addr addr, size_t len);

	/*
	 * Find the first run of bytes in @within that can hold something other
	 * than zeros or unchanged file content. Runs are page-aligned save where
	 * @within cuts them. False when there is none. Required.
	 */
	bool (*present)(struct ms_source *src, struct ms_range within, struct ms_range *ret);

	/*
	 * False when what it shows was taken away meanwhile: of nothing that was read then
	 * anything follows. Optional (NULL member): that cannot be.
	 */
	bool (*is_whole)(struct ms_source *src);

	/* Release everything the source holds beside the arena it was made in. Required. */
	void (*close)(struct ms_source *src);
};

struct ms_source {
	const struct ms_source_ops *ops;
	struct ms_abi abi;
	struct ms_mappings mappings; /* by address, no overlap */
	struct ms_threads threads;
	/* Where instructions of malloc are known to be; none: nowhere, or nobody looked. Borrowed.
	 */
	const struct ms_range *malloc_code;
	size_t n_malloc_code;
	/* So many of these, the last ones, are of allocators linked in, known by this state. */
	size_t n_linked_code;
	struct ms_anchors anchors;
	ms_addr random; /* of the 16 bytes that the kernel gave as random; 0: not known */
	struct ms_words kernel_words;    /* what only the kernel holds: epoll data, timer values */
	struct ms_transit_words transit; /* pointers that were sent, and wait to be received */
	uint64_t n_requests;             /* of values besides that it holds and does not show */
	bool serves_files; /* it may hold the address of any block, as a file's handle */
	/* A block of so many bytes can be a thread's signal stack that is not known; 0: none can.
	 */
	uint64_t unknown_stack_bytes;
	/*
	 * Memory that may hold pointers and that this source cannot show: it is neither zeros nor
	 * unchanged file content. By address, no overlap.
	 */
	struct ms_ranges unseen;
};

/* What was frozen of thread @tid, or NULL. */
static inline const struct ms_thread *ms_source_thread(const struct ms_source *src, int32_t tid)
{
	const struct ms_thread *t;

	ms_vec_for_each (t, &src->threads)
		if (t->tid == tid)
			return t;
	return NULL;
}

static inline size_t ms_source_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	return src->ops->read(src, addr, buf, len);
}

static inline const void *ms_source_view(struct ms_source *src, ms_addr addr, size_t len)
{
	return src->ops->view ? src->ops->view(src, addr, len) : NULL;
}

static inline bool ms_source_present(struct ms_source *src, struct ms_range within,
                                     struct ms_range *ret)
{
	return src->ops->present(src, within, ret);
}

static inline bool ms_source_is_whole(struct ms_source *src)
{
	return !src->ops->is_whole || src->ops->is_whole(src);
}

/* Read @len bytes at @addr; pages that are not readable are zeros. */
static inline void ms_source_fill(struct ms_source *src, ms_addr addr, uint8_t *buf, size_t len)
{
	const uint32_t page = src->abi.page_bytes;
	size_t done = 0;

	while (done < len) {
		size_t skip;

		done += ms_source_read(src, addr + done, buf + done, len - done);
		if (done == len)
			break;
		skip = page - (size_t)((addr + done) % page);
		skip = skip < len - done ? skip : len - done;
		memset(buf + done, 0, skip);
		done += skip;
	}
}

/* @src for what reads ELF. */
static inline size_t ms_source_reader_read(void *src, ms_addr addr, void *buf, size_t len)
{
	return ms_source_read(src, addr, buf, len);
}

static inline struct ms_reader ms_source_reader(struct ms_source *src)
{
	return (struct ms_reader){ ms_source_reader_read, src };
}

/* Read one word; false when not all of it is readable. */
static inline bool ms_source_word(struct ms_source *src, ms_addr addr, uint64_t *ret)
{
	uint8_t bytes[MS_WORD_MAX];

	if (ms_source_read(src, addr, bytes, src->abi.word_bytes) != src->abi.word_bytes)
		return false;
	*ret = ms_abi_word(&src->abi, bytes);
	return true;
}

/* Read up to @n words. Returns how many, from @addr on, were readable. */
static inline size_t ms_source_words(struct ms_source *src, ms_addr addr, uint64_t *words, size_t n)
{
	const struct ms_abi *abi = &src->abi;
	size_t got = ms_source_read(src, addr, words, n * abi->word_bytes) / abi->word_bytes;

	ms_abi_spread(abi, words, got);
	return got;
}

#endif
