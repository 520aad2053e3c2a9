/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A preloaded library that logs each block that a program is given, frees or resizes, to
 * ask afterwards whether what memscan called a leak was one. Every call is passed on to
 * the malloc that the program would have had.
 *
 * The log is a file in the folder FREELOG, named by the process and by how many programs
 * it was before: PID.N. It is mapped whole from the start, with no
 * access but to the windows that are being written: whatever folder, user or descriptors
 * the program gives up, the log goes on, and a scan has next to nothing of it to read. A
 * child by fork gets a log of its own; one by vfork, which has its parent's heap, its parent's.
 *
 * Nothing here calls malloc. A block is logged as given after it was, and as freed before
 * it is, so that the records of one address are in order, whichever threads are at work.
 */
#include "log.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	WINDOW_BYTES = 1 << 20,
	WINDOWS = 1 << 14,
	PER_WINDOW = WINDOW_BYTES / sizeof(struct log_record)
};

/* The C library's, for what comes before the next malloc is known. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
void __libc_free(void *p);

static int first_posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *p = __libc_memalign(alignment, size);

	if (p)
		*ret = p;
	return p ? 0 : ENOMEM;
}

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	void (*free)(void *);
} next = {
	.malloc = __libc_malloc,
	.calloc = __libc_calloc,
	.realloc = __libc_realloc,
	.memalign = __libc_memalign,
	.posix_memalign = first_posix_memalign,
	.aligned_alloc = __libc_memalign,
	.valloc = __libc_valloc,
	.pvalloc = __libc_pvalloc,
	.free = __libc_free,
};

static struct {
	struct log_record *records; /* NULL: nothing is logged */
	_Atomic uint64_t n;
	_Atomic uint64_t n_open; /* windows that were opened */
	_Atomic uint32_t written[WINDOWS];
	char folder[256];
} log_;

/* ---- the log ---- */

static void open_window(uint64_t window)
{
	char *at = (char *)log_.records + window * WINDOW_BYTES;

	while (atomic_load(&log_.n_open) != window)
		(void)sched_yield();
	if (window < WINDOWS) {
		(void)mprotect(at, WINDOW_BYTES, PROT_READ | PROT_WRITE);
		/* One call rather than 256 faults; where it is unknown, the faults do it. */
		(void)madvise(at, WINDOW_BYTES, MADV_POPULATE_WRITE);
	}
	atomic_store(&log_.n_open, window + 1);
}

/* All have written it: its pages are not this process's any more, and its place stays taken. */
static void close_window(uint64_t window)
{
	(void)mmap((char *)log_.records + window * WINDOW_BYTES, WINDOW_BYTES, PROT_NONE,
	           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void record(enum log_event event, void *address, size_t size, void *caller)
{
	struct timespec now;
	uint64_t at, window;

	if (!log_.records || !address)
		return;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	at = atomic_fetch_add(&log_.n, 1);
	window = at / PER_WINDOW;
	if (at % PER_WINDOW == 0)
		open_window(window);
	while (atomic_load(&log_.n_open) <= window)
		(void)sched_yield();
	if (window >= WINDOWS)
		return;
	log_.records[at] = (struct log_record){
		.time = ~((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec),
		.address = ~(uint64_t)(uintptr_t)address,
		.what = ~((uint64_t)event << LOG_EVENT_SHIFT | (uint64_t)size),
		.caller = ~(uint64_t)(uintptr_t)caller,
	};
	if (atomic_fetch_add(&log_.written[window], 1) + 1 == PER_WINDOW)
		close_window(window);
}

static int create(void)
{
	char path[sizeof(log_.folder) + 64];

	for (int i = 0; i < 100; i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s/%d.%d", log_.folder, (int)getpid(), i);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static void begin(void)
{
	int error = errno;
	int fd = create();
	void *map = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)WINDOW_BYTES * WINDOWS) == 0)
		map = mmap(NULL, (size_t)WINDOW_BYTES * WINDOWS, PROT_NONE,
		           MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (fd >= 0)
		(void)close(fd);
	if (map != MAP_FAILED)
		log_.records = map;
	record(LOG_BEGUN, (void *)LOG_NOWHERE, 0, NULL); /* NOLINT(performance-no-int-to-ptr) */
	errno = error;
}

static void in_child(void)
{
	if (log_.records)
		(void)munmap(log_.records, (size_t)WINDOW_BYTES * WINDOWS);
	log_.records = NULL;
	atomic_store(&log_.n, 0);
	atomic_store(&log_.n_open, 0);
	memset(log_.written, 0, sizeof(log_.written));
	begin();
}

#define FIND(name)                                                 \
	do {                                                       \
		void *found = dlsym(RTLD_NEXT, #name);             \
		if (found)                                         \
			memcpy(&next.name, &found, sizeof(found)); \
	} while (0)

/* Linked to be called before all other objects, the C library too: it has no environ yet. */
__attribute__((constructor)) static void start(int argc, char **argv, char **environment)
{
	const char *folder = NULL;

	(void)argc;
	(void)argv;
	for (char **word = environment; *word; word++)
		if (!strncmp(*word, "FREELOG=", 8))
			folder = *word + 8;
	FIND(malloc);
	FIND(calloc);
	FIND(realloc);
	FIND(memalign);
	FIND(posix_memalign);
	FIND(aligned_alloc);
	FIND(valloc);
	FIND(pvalloc);
	FIND(free);
	if (!folder || strlen(folder) >= sizeof(log_.folder))
		return;
	strcpy(log_.folder, folder);
	begin();
	(void)pthread_atfork(NULL, NULL, in_child);
}

/* ---- malloc and its kin ---- */

#define CALLER __builtin_return_address(0)

static void *given(void *p, size_t size, void *caller)
{
	record(LOG_GIVEN, p, size, caller);
	return p;
}

EXPORT void *malloc(size_t size)
{
	return given(next.malloc(size), size, CALLER);
}

EXPORT void *calloc(size_t n, size_t size)
{
	return given(next.calloc(n, size), n * size, CALLER);
}

static void *resize(void *p, size_t size, void *caller)
{
	void *q;

	record(LOG_RESIZED, p, size, caller);
	q = next.realloc(p, size);
	/* What could not be resized is what it was. */
	return q || !size ? given(q, size, caller) : (given(p, 0, caller), NULL);
}

EXPORT void *realloc(void *p, size_t size)
{
	return resize(p, size, CALLER);
}

EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return resize(p, bytes, CALLER);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	return given(next.memalign(alignment, size), size, CALLER);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
	int error = next.posix_memalign(ret, alignment, size);

	if (!error)
		record(LOG_GIVEN, *ret, size, CALLER);
	return error;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return given(next.aligned_alloc(alignment, size), size, CALLER);
}

EXPORT void *valloc(size_t size)
{
	return given(next.valloc(size), size, CALLER);
}

EXPORT void *pvalloc(size_t size)
{
	return given(next.pvalloc(size), size, CALLER);
}

EXPORT void free(void *p)
{
	record(LOG_FREED, p, 0, CALLER);
	next.free(p);
}
