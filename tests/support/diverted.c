/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "diverted.h"
#include "target/inject/control.h"

enum {
	PAGE = 4096,
	STEP = 1 << 20,
	TCB_BYTES = 0x900, /* at least, in all versions */
	HEAD = 64,         /* bytes of a function that are looked at */
};

static const struct {
	const char *name;
	unsigned n_arguments;
} functions[MS_AGENT_OF_LIBC] = {
	[MS_AGENT_MALLOC] = { "malloc", 1 },
	[MS_AGENT_FREE] = { "free", 1 },
	[MS_AGENT_CALLOC] = { "calloc", 2 },
	[MS_AGENT_REALLOC] = { "realloc", 2 },
	[MS_AGENT_MEMALIGN] = { "memalign", 2 },
	[MS_AGENT_ALIGNED_ALLOC] = { "aligned_alloc", 2 },
	[MS_AGENT_POSIX_MEMALIGN] = { "posix_memalign", 3 },
	[MS_AGENT_VALLOC] = { "valloc", 1 },
	[MS_AGENT_PVALLOC] = { "pvalloc", 1 },
};

static void need(bool is_so, const char *what)
{
	if (is_so)
		return;
	(void)fprintf(stderr, "diverted: no %s\n", what);
	abort();
}

static uint64_t addr_of(const void *at)
{
	return (uint64_t)(uintptr_t)at;
}

static uint8_t *at_addr(uint64_t addr)
{
	return (uint8_t *)(uintptr_t)addr;
}

static void *find(unsigned function)
{
	void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	need(library, "C library");
	void *found = dlsym(library, functions[function].name);
	need(found, functions[function].name);
	return found;
}

void libc_find(struct libc *ret)
{
	void *found[MS_AGENT_OF_LIBC];

	static_assert(sizeof(found) == sizeof(*ret), "one for each, in their order");
	for (unsigned i = 0; i < MS_AGENT_OF_LIBC; i++)
		found[i] = find(i);
	memcpy(ret, found, sizeof(found));
	/* glibc sets malloc up at its first call, unlocked; a sanitizer's malloc never makes it. */
	ret->free(ret->malloc(1));
}

/* ---- how far stacks may be read ---- */

static void note_main_stack(struct ms_agent_data *data)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long begin, end;
	char line[512];

	need(maps, "maps");
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &begin, &end) == 2) {
			data->main_begin = begin;
			data->main_end = end;
		}
	(void)fclose(maps);
	need(data->main_end, "stack");
}

/* The two words of this thread's control block that are its stack. */
static void *find_stackblock(void *offset)
{
	const uint64_t *tcb = (const uint64_t *)(uintptr_t)pthread_self();
	pthread_attr_t attr;
	size_t size = 0;
	void *begin = NULL;

	need(!pthread_getattr_np(pthread_self(), &attr), "attributes");
	(void)pthread_attr_getstack(&attr, &begin, &size);
	(void)pthread_attr_destroy(&attr);
	for (size_t i = 0; i < TCB_BYTES / sizeof(*tcb); i++)
		if (tcb[i] && tcb[i] % PAGE == 0 && tcb[i] <= addr_of(begin) &&
		    tcb[i] + tcb[i + 1] == addr_of(begin) + size)
			*(uint64_t *)offset = i * sizeof(*tcb);
	return NULL;
}

static void note_thread_stacks(struct ms_agent_data *data)
{
	pthread_t thread;

	need(!pthread_create(&thread, NULL, find_stackblock, &data->stackblock), "thread");
	(void)pthread_join(thread, NULL);
	need(data->stackblock, "stackblock");
}

/* ---- text ---- */

/* Both mappings, as near to the C library as there is room. */
static void map(struct diverted *d)
{
	size_t n = MS_AGENT_TEXT_BYTES + sizeof(*d->data);
	uint64_t at = addr_of(find(MS_AGENT_MALLOC)) & ~(uint64_t)(STEP - 1);
	void *got = MAP_FAILED;

	for (unsigned i = 0; i < 1024 && got == MAP_FAILED; i++, at -= STEP)
		got = mmap(at_addr(at), n, PROT_READ | PROT_WRITE,
		           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
		           0);
	need(got != MAP_FAILED, "room");
	d->text = got;
	d->data = (struct ms_agent_data *)(void *)(d->text + MS_AGENT_TEXT_BYTES);
}

static void write_slot(struct diverted *d, unsigned i)
{
	struct ms_agent_head head;
	struct ms_place *place = &d->functions[i].place;
	uint8_t *slot = d->text + MS_AGENT_SLOTS_AT + (size_t)i * MS_AGENT_SLOT_BYTES;
	uint64_t entry = addr_of(find(i));
	struct ms_moved moved;

	memcpy(&head, d->text, sizeof(head));
	for (unsigned k = 0; k < i; k++)
		if (d->functions[k].place.entry == entry)
			return;
	need(ms_place_choose(at_addr(entry), HEAD, entry, functions[i].n_arguments, place) ==
	             MS_PLACE_FOUND,
	     functions[i].name);
	memcpy(slot, place->undo, place->n_undo);
	need(ms_jump_write(addr_of(slot) + place->n_undo, addr_of(d->text) + head.functions[i].hook,
	                   slot + place->n_undo),
	     "jump to the hook");
	need(ms_place_move(place, addr_of(slot) + MS_AGENT_MOVED_AT, &moved) &&
	             moved.len <= MS_AGENT_SLOT_BYTES - MS_AGENT_MOVED_AT,
	     "moved code");
	memcpy(slot + MS_AGENT_MOVED_AT, moved.bytes, moved.len);
}

static void write_code(uint64_t at, const uint8_t *bytes, size_t n)
{
	uint8_t *page = at_addr(at & ~(uint64_t)(PAGE - 1));

	need(!mprotect(page, (size_t)2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), "writing");
	memcpy(at_addr(at), bytes, n);
	need(!mprotect(page, (size_t)2 * PAGE, PROT_READ | PROT_EXEC), "execution");
}

/* What was freed meanwhile is still in the table, and a thread's count of another interval. */
static void forget(struct ms_agent_data *data)
{
	memset(data->filter, 0, sizeof(data->filter));
	memset(data->slots, 0, sizeof(data->slots));
	data->free_list = 0;
	data->n_used = 0;
#ifdef __x86_64__ /* there is no agent elsewhere */
	__asm__ volatile("movq $0, %%fs:(%0)\n\tmovb $0, %%fs:(%1)"
	                 :
	                 : "r"(data->left), "r"(data->started)
	                 : "memory");
#endif
}

void diverted_put_back(struct diverted *d)
{
	forget(d->data);
	for (unsigned i = 0; i < MS_AGENT_OF_LIBC; i++) {
		const struct ms_place *place = &d->functions[i].place;
		uint64_t slot = addr_of(d->text) + MS_AGENT_SLOTS_AT + i * MS_AGENT_SLOT_BYTES;
		uint8_t jump[MS_JUMP];

		if (!place->entry)
			continue;
		need(ms_jump_write(place->window, slot, jump), "jump");
		write_code(place->window, jump, sizeof(jump));
	}
}

void diverted_take_out(struct diverted *d)
{
	for (unsigned i = 0; i < MS_AGENT_OF_LIBC; i++) {
		const struct ms_place *place = &d->functions[i].place;

		if (place->entry)
			write_code(place->window, place->bytes + (place->window - place->entry),
			           MS_JUMP);
	}
}

static void begin(struct diverted *ret, uint64_t interval)
{
	memset(ret, 0, sizeof(*ret));
	map(ret);
	memcpy(ret->data->magic, MS_AGENT_MAGIC, sizeof(ret->data->magic));
	ret->data->interval = interval;
	ret->data->passed_on = 16;
	ret->data->left = ms_control_glibc.left;
	ret->data->started = ms_control_glibc.started;
	note_main_stack(ret->data);
	note_thread_stacks(ret->data);
	memcpy(ret->text, ms_agent_blob, ms_agent_blob_bytes);
}

void diverted_map(struct diverted *ret, uint64_t interval, const struct libc *libc)
{
	static const uint8_t jump[] = { 0xff, 0x25, 0, 0, 0, 0 }; /* to what stands behind it */
	void *moved[MS_AGENT_OF_LIBC];

	begin(ret, interval);
	memcpy(moved, libc, sizeof(moved));
	for (unsigned i = 0; i < MS_AGENT_OF_LIBC; i++) {
		uint8_t *at =
			ret->text + MS_AGENT_SLOTS_AT + i * MS_AGENT_SLOT_BYTES + MS_AGENT_MOVED_AT;

		memcpy(at, jump, sizeof(jump));
		memcpy(at + sizeof(jump), &moved[i], sizeof(moved[i]));
	}
	need(!mprotect(ret->text, MS_AGENT_TEXT_BYTES, PROT_READ | PROT_EXEC), "text");
}

void diverted_hooks(const struct diverted *d, struct libc *ret)
{
	struct ms_agent_head head;
	void *hooks[MS_AGENT_OF_LIBC];

	memcpy(&head, d->text, sizeof(head));
	for (unsigned i = 0; i < MS_AGENT_OF_LIBC; i++)
		hooks[i] = d->text + head.functions[i].hook;
	memcpy(ret, hooks, sizeof(hooks));
}

void diverted_put(struct diverted *ret, uint64_t interval)
{
	begin(ret, interval);
	for (unsigned i = 0; i < MS_AGENT_OF_LIBC; i++)
		write_slot(ret, i);
	need(!mprotect(ret->text, MS_AGENT_TEXT_BYTES, PROT_READ | PROT_EXEC), "text");
	diverted_put_back(ret);
}

/* ---- the table ---- */

const struct ms_agent_record *diverted_find(const struct diverted *d, const void *block)
{
	for (size_t i = 0; i < MS_AGENT_SLOTS; i++) {
		uint64_t slot = d->data->slots[i];

		if (slot && ms_agent_block_of(slot) == addr_of(block))
			return &d->data->records[ms_agent_record_of(slot)];
	}
	return NULL;
}

size_t diverted_live(const struct diverted *d)
{
	size_t n = 0;

	for (size_t i = 0; i < MS_AGENT_SLOTS; i++)
		n += d->data->slots[i] != 0;
	return n;
}
