/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scribble WHAT SEED [ROUND]: writes random words into what the C library keeps of itself in this
 * process's memory, a handful at a time, and puts the right ones back a moment later; in that
 * round, to its end. WHAT is
 *
 *	heap      headers of blocks, and what free ones are linked by
 *	arenas    main_arena, another one, the caches of threads, libc's own data
 *	threads   control blocks, and the vectors of thread-local storage
 *	images    mapped ELF headers, dynamic sections and what they lead to; those of the vdso
 *	lists     the loader's: loaded objects, stacks, all that it keeps
 *
 * Prints "live ADDRESS SIZE" for blocks that are reachable and are never written to, "READY", and
 * for each line that it reads "rounds N calls N broken N". Ends with its input, its status
 * is 1 when a call was broken off. When the scribbling has begun, the C library is not
 * called any more.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <unistd.h>

enum {
	CALLERS = 3,
	BLOCKS = 600, /* of each arena */
	MAPPED = 8,
	MAPPED_BYTES = 300 << 10,
	MAX_WORDS = 1 << 16,
	MAX_DAMAGE = 256,
	PAGE = 4096,
	VDSO_BYTES = 16 << 10, /* it has less */
	HEAP_ALIGN = 64 << 20, /* HEAP_MAX_SIZE, glibc's arena.c */
	ARENA_BYTES = 0x898,   /* struct malloc_state, glibc 2.27 and later */
	OFTEN = 8,
	BINS_AT = 0x60,        /* in it: what the head of the unsorted bin is linked by */
	TAIL_AT = 0x860,       /* behind the bins */
	CACHE_BYTES = 0x288,   /* struct tcache_perthread_struct, 2.30 to 2.41 */
	CONTROL_BYTES = 0x900, /* struct pthread, 2.36 */
	VECTOR_BYTES = 0x200,
	TABLE_BYTES = 4096, /* of each table that a dynamic section leads to */
	LINK_MAP_BYTES = 0x480,
	PREVIOUS_IN_USE = 1,
	IS_MAPPED = 2,
};

static uintptr_t *words[MAX_WORDS]; /* that may be damaged */
static size_t n_words;

static char *volatile kept[2 * BLOCKS + MAPPED];
static size_t n_kept;
static char *volatile chain; /* the first of clean blocks, each of which holds the next */
static void *arenas[2];
static char *control[CALLERS + 2];

static atomic_int n_started;
static atomic_ulong rounds;
static unsigned long only_round = ULONG_MAX;
static atomic_ulong calls;
static atomic_ulong broken;
static atomic_int ending;
static atomic_int ended;
static uint64_t state; /* of the random numbers */

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void add(void *at)
{
	if (n_words < MAX_WORDS)
		words[n_words++] = (uintptr_t *)((uintptr_t)at & -sizeof(uintptr_t));
}

static void add_all(void *begin, size_t bytes)
{
	for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t))
		add((char *)begin + at);
}

/* Of large tables only what is not zero. */
static void add_used(void *begin, size_t bytes)
{
	for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t))
		if (*(uintptr_t *)((char *)begin + at))
			add((char *)begin + at);
}

/* ---- the heap ---- */

static uintptr_t size_of(const char *block)
{
	return ((const uintptr_t *)block)[-1];
}

/* Have a block be held by a global or by another such block, and by nothing else. */
static void keep_clean(char **slot, size_t bytes)
{
	static size_t n;
	char *block = *slot;

	*slot = NULL;
	memset(block, 'c', bytes);
	printf("live %lx %zu\n", (unsigned long)block, malloc_usable_size(block));
	if (++n % 3) {
		kept[n_kept++] = block;
		return;
	}
	*(char **)block = chain;
	chain = block;
}

static void add_block(char *block, bool is_free)
{
	add(block - 8);
	if (!(size_of(block) & PREVIOUS_IN_USE))
		add(block - 16);
	if (is_free)
		add_all(block, 16);
	if (is_free && (size_of(block) & -16) >= 1024)
		add_all(block, 32);
}

/* Blocks of one arena: clean ones, some to be damaged, free ones of every kind. */
static void make_blocks(char *blocks[BLOCKS])
{
	for (size_t i = 0; i < BLOCKS; i++) {
		size_t bytes = i % 7 == 0 ? 1200 + i * 8 : 24 + i % 40 * 8;

		blocks[i] = malloc(bytes);
		if (i % 3 == 0)
			keep_clean(&blocks[i], bytes);
		else
			memset(blocks[i], 0, bytes);
	}
	for (size_t i = 2; i < BLOCKS; i += 3)
		free(blocks[i]);
	/* Some of what was freed goes from the unsorted bin to those of its size. */
	free(malloc(100000));
}

/* Where the arena of @blocks is: main_arena is told by a free block between two others. */
static void *find_arena(char *blocks[BLOCKS], bool is_main)
{
	char *pieces[3];
	char *volatile freed;
	char *arena;

	if (!is_main)
		return *(void **)((uintptr_t)blocks[1] & -(uintptr_t)HEAP_ALIGN);
	for (size_t i = 0; i < 3; i++)
		pieces[i] = malloc(60000);
	freed = pieces[1];
	free(freed);
	arena = ((char **)freed)[1] - BINS_AT;
	free(pieces[0]);
	free(pieces[2]);
	return arena;
}

static char *cache; /* of the main thread: the first of its blocks */
static char *of_arena[2][BLOCKS];

static void *make_arena(void *arg)
{
	make_blocks(of_arena[1]);
	arenas[1] = find_arena(of_arena[1], false);
	return arg;
}

static void make_heap(void)
{
	pthread_t thread;

	cache = (char *)sbrk(0) + 16;
	free(malloc(1));
	make_blocks(of_arena[0]);
	for (size_t i = 0; i < MAPPED; i++) {
		char *block = malloc(MAPPED_BYTES);

		if (i % 2)
			keep_clean(&block, MAPPED_BYTES);
		else
			of_arena[0][3 * i + 1] = block;
	}
	arenas[0] = find_arena(of_arena[0], true);
	if (pthread_create(&thread, NULL, make_arena, NULL))
		abort();
	pthread_join(thread, NULL);
}

static void add_heap(void)
{
	for (size_t i = 0; i < 2 * BLOCKS; i++)
		if (i % BLOCKS % 3)
			add_block(of_arena[i / BLOCKS][i % BLOCKS], i % BLOCKS % 3 == 2);
	for (size_t i = 0; i < 2; i++) /* the size of what lies behind all blocks */
		add(*(char **)((char *)arenas[i] + BINS_AT) + 8);
}

/* ---- what is loaded ---- */

static bool is_writable(const Elf64_Phdr *part)
{
	return part->p_type == PT_LOAD && part->p_flags & PF_W;
}

static int add_data(struct dl_phdr_info *info, size_t size, void *name)
{
	(void)size;
	if (!strstr(info->dlpi_name, name))
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (is_writable(&info->dlpi_phdr[i]))
			add_used((char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
			         info->dlpi_phdr[i].p_memsz);
	return 0;
}

static void add_arenas(void)
{
	char *heap = (char *)((uintptr_t)of_arena[1][1] & -(uintptr_t)HEAP_ALIGN);

	for (size_t i = 0; i < 2; i++)
		add_all(arenas[i], ARENA_BYTES);
	add_all(cache, CACHE_BYTES);
	add_all((char *)arenas[1] + ARENA_BYTES, CACHE_BYTES);
	(void)dl_iterate_phdr(add_data, "libc.so");
	/* Most of that is bins and caches, so what is not has its chance once more, and again. */
	for (size_t times = 0; times < OFTEN; times++) {
		for (size_t i = 0; i < 2; i++) {
			add_all(arenas[i], BINS_AT + 16);
			add_all((char *)arenas[i] + TAIL_AT, ARENA_BYTES - TAIL_AT);
		}
		add_all(heap, (size_t)((char *)arenas[1] - heap));
	}
}

/* Where the segment that has @at ends; 0: none has. */
static uintptr_t segment_end(const struct dl_phdr_info *info, uintptr_t at)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && at - info->dlpi_addr - part->p_vaddr < part->p_memsz)
			return info->dlpi_addr + part->p_vaddr + part->p_memsz;
	}
	return 0;
}

static uintptr_t load_address(const struct dl_phdr_info *info)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			return info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	return 0;
}

/* What an entry of a dynamic section points to; the loader has made addresses of these. */
static void add_table(const struct dl_phdr_info *info, const Elf64_Dyn *entry)
{
	uintptr_t at = entry->d_un.d_ptr;
	uintptr_t base = load_address(info);
	uintptr_t end;

	switch (entry->d_tag) {
	case DT_SYMTAB:
	case DT_STRTAB:
	case DT_GNU_HASH:
	case DT_RELA:
	case DT_VERSYM:
	case DT_VERDEF:
		if (at < base)
			at += base;
		end = segment_end(info, at);
		if (end > at)
			add_used((char *)at, end - at < TABLE_BYTES ? end - at : TABLE_BYTES);
		break;
	default:
		break;
	}
}

static int add_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	add_all((char *)load_address(info), sizeof(Elf64_Ehdr) + 14 * sizeof(Elf64_Phdr));
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *part = &info->dlpi_phdr[i];
		char *at = (char *)(info->dlpi_addr + part->p_vaddr);

		if (part->p_type == PT_DYNAMIC) {
			add_used(at, part->p_memsz);
			for (Elf64_Dyn *entry = (Elf64_Dyn *)at; entry->d_tag != DT_NULL; entry++)
				add_table(info, entry);
		} else if (part->p_type == PT_GNU_EH_FRAME || part->p_type == PT_NOTE) {
			add_used(at, part->p_memsz < PAGE ? part->p_memsz : PAGE);
		}
	}
	return 0;
}

static void add_lists(void)
{
	struct link_map *map;

	add_all(&_r_debug, sizeof(_r_debug));
	for (map = _r_debug.r_map; map; map = map->l_next)
		add_used(map, LINK_MAP_BYTES);
	(void)dl_iterate_phdr(add_data, "/ld-linux");
}

/* ---- threads ---- */

/* The kernel ends a thread whose restartable sequences it finds damaged. */
static bool is_kernels(const char *block, size_t at)
{
	const char *sequences = block + __rseq_offset;

	return block + at + 8 > sequences && block + at < sequences + 32;
}

static void add_threads(void)
{
	for (size_t i = 0; i < CALLERS + 2; i++) {
		for (size_t at = 0; at < CONTROL_BYTES; at += 8)
			if (!is_kernels(control[i], at))
				add(control[i] + at);
		add_all(((char **)control[i])[1] - 16, VECTOR_BYTES);
	}
}

/* Calls whose time-outs come: no other end of them is right. */
static void *make_calls(void *arg)
{
	static const uint64_t signals = 1; /* SIGHUP */
	static const struct timespec moment = { 0, 3000000 };

	control[(uintptr_t)arg] = (char *)pthread_self();
	atomic_fetch_add(&n_started, 1);
	while (!atomic_load(&ending)) {
		const struct raw_args wait = { (long)&signals, 0, (long)&moment, 8 };

		if (raw_sleep(3000) || raw_call(SYS_poll, (struct raw_args){ .c = 3 }) ||
		    raw_call(SYS_rt_sigtimedwait, wait) != -EAGAIN)
			atomic_fetch_add(&broken, 1);
		atomic_fetch_add(&calls, 3);
	}
	for (;;)
		(void)raw_sleep(1000000);
	return NULL;
}

/* ---- the scribbling ---- */

static uintptr_t wrong(uintptr_t word)
{
	uint64_t random = next();

	switch (random % 8) {
	case 0:
		return next();
	case 1:
		return word ^ (uintptr_t)1 << random / 8 % 64;
	case 2:
		return 0;
	case 3:
		return *words[random / 8 % n_words];
	case 4:
		return (uintptr_t)words[random / 8 % n_words];
	case 5:
		return word + (random / 8 % 64 - 32) * 8;
	case 6:
		return -(random / 8 % 4096);
	default:
		return word ^ next() >> 8 * (random / 8 % 8);
	}
}

struct damage {
	uintptr_t *at[MAX_DAMAGE];
	uintptr_t was[MAX_DAMAGE];
	size_t n;
};

/* Damage some words, each 16th time very many. */
static void do_damage(struct damage *damage)
{
	damage->n = 1 + next() % (atomic_load(&rounds) % 16 == 15 ? MAX_DAMAGE : 6);
	for (size_t i = 0; i < damage->n; i++) {
		damage->at[i] = words[next() % n_words];
		damage->was[i] = *damage->at[i];
		*(volatile uintptr_t *)damage->at[i] = wrong(damage->was[i]);
	}
}

static void undo_damage(const struct damage *damage)
{
	for (size_t i = damage->n; i-- > 0;)
		*(volatile uintptr_t *)damage->at[i] = damage->was[i];
}

static void scribble_once(void)
{
	static struct damage damage;
	unsigned long round = atomic_load(&rounds);
	long us = 1000 + (long)(next() % 60000);

	do_damage(&damage);
	if (only_round == ULONG_MAX)
		(void)raw_sleep(us);
	while (round == only_round && !atomic_load(&ending))
		(void)raw_sleep(us);
	undo_damage(&damage);
	atomic_store(&rounds, round + 1);
}

static void *scribble(void *arg)
{
	control[(uintptr_t)arg] = (char *)pthread_self();
	if (atomic_fetch_add(&n_started, 1) < CALLERS)
		abort();
	while (atomic_load(&n_started) < CALLERS + 2)
		(void)raw_sleep(100);
	while (!atomic_load(&ending))
		scribble_once();
	atomic_store(&ended, 1);
	for (;;)
		(void)raw_sleep(1000000);
	return NULL;
}

/* Allow writing to the vdso, which the kernel does as a whole only. Returns its length. */
static size_t allow_vdso(uintptr_t vdso)
{
	const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	size_t bytes = 0;

	while (vdso && bytes < VDSO_BYTES)
		if (!mprotect((void *)vdso, bytes += PAGE, all))
			return bytes;
	return 0;
}

static void allow_writing(void)
{
	uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
	size_t vdso_bytes = allow_vdso(vdso);

	for (size_t i = 0; i < n_words; i++) {
		uintptr_t page = (uintptr_t)words[i] & -(uintptr_t)PAGE;

		if (page - vdso >= vdso_bytes &&
		    mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
			abort();
	}
}

static void add_vdso(void)
{
	char *vdso = (char *)getauxval(AT_SYSINFO_EHDR);

	if (vdso)
		add_used(vdso, 1024);
}

static void choose(const char *what)
{
	if (!strcmp(what, "heap"))
		add_heap();
	else if (!strcmp(what, "arenas"))
		add_arenas();
	else if (!strcmp(what, "threads"))
		add_threads();
	else if (!strcmp(what, "lists"))
		add_lists();
	else if (!strcmp(what, "images"))
		(void)dl_iterate_phdr(add_image, NULL), add_vdso();
	if (!n_words)
		exit(2);
	if (!strcmp(what, "lists") || !strcmp(what, "images") || !strcmp(what, "arenas"))
		allow_writing();
}

static void start_threads(void)
{
	pthread_t id;

	control[CALLERS + 1] = (char *)pthread_self();
	for (uintptr_t i = 0; i < CALLERS; i++)
		if (pthread_create(&id, NULL, make_calls, (void *)i))
			abort();
	while (atomic_load(&n_started) < CALLERS)
		usleep(1000);
	if (pthread_create(&id, NULL, scribble, (void *)(uintptr_t)CALLERS))
		abort();
	while (atomic_load(&n_started) < CALLERS + 1)
		usleep(1000);
}

int main(int argc, char **argv)
{
	int byte;

	if (argc < 3)
		return 2;
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	state = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		only_round = strtoul(argv[3], NULL, 0);
	make_heap();
	start_threads();
	choose(argv[1]);
	puts("READY");
	fflush(stdout);
	atomic_fetch_add(&n_started, 1);
	while ((byte = raw_read_byte()) >= 0) {
		if (byte != '\n')
			continue;
		raw_say("rounds ");
		raw_say_number(atomic_load(&rounds));
		raw_say(" calls ");
		raw_say_number(atomic_load(&calls));
		raw_say(" broken ");
		raw_say_number(atomic_load(&broken));
		raw_say("\n");
	}
	atomic_store(&ending, 1);
	while (!atomic_load(&ended))
		(void)raw_sleep(1000);
	(void)raw_call(SYS_exit_group, (struct raw_args){ .a = atomic_load(&broken) > 0 });
	return 2;
}
