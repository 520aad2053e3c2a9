/* SPDX-License-Identifier: Apache-2.0 */
#include "target/kernel_roots.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/proc.h"

enum { NAME_BYTES = 32, FIRST_READ = 64 * 1024, TRIES = 10, LEAST_STACK = 2048 /* MINSIGSTKSZ */ };

struct text MS_VEC(char);

static void add_word(struct ms_arena *arena, struct ms_words *words, uint64_t value)
{
	uint64_t *word = value ? ms_vec_push(arena, words) : NULL;

	if (word)
		*word = value;
}

/* Every hexadecimal number that follows @key. */
static void add_after(const char *text, const char *key, struct ms_arena *arena,
                      struct ms_words *words)
{
	for (const char *at = strstr(text, key); at; at = strstr(at, key)) {
		at += strlen(key);
		add_word(arena, words, strtoull(at, NULL, 16));
	}
}

/* "tfd:        5 events:       19 data:     55d0c0ffee10  pos:0 ino:… sdev:…" */
void ms_kernel_roots_parse_epoll(const char *text, struct ms_arena *arena, struct ms_words *words)
{
	add_after(text, " data:", arena, words);
}

/* "signal: 10/000055d0c0ffee10": the signal's number, and the value that comes with it */
void ms_kernel_roots_parse_timers(const char *text, struct ms_arena *arena, struct ms_words *words)
{
	for (const char *at = strstr(text, "signal:"); at; at = strstr(at, "signal:")) {
		const char *slash;

		at += strlen("signal:");
		slash = at + strcspn(at, "/\n");
		if (*slash == '/')
			add_word(arena, words, strtoull(slash + 1, NULL, 16));
	}
}

/* The number that follows @key at the begin of a line; false without it. */
static bool number_after(const char *text, const char *key, uint32_t *ret)
{
	const char *at = strstr(text, key);

	while (at && at > text && at[-1] != '\n')
		at = strstr(at + 1, key);
	if (at)
		*ret = (uint32_t)strtoul(at + strlen(key), NULL, 10);
	return at != NULL;
}

uint32_t ms_kernel_roots_parse_ring(const char *text, struct ms_arena *arena,
                                    struct ms_words *words)
{
	const char *polls = strstr(text, "\nPollList:");
	uint32_t n_polls = 0;
	uint32_t begun;
	uint32_t answered;

	for (const char *at = strstr(text, "user_data:"); at; at = strstr(at, "user_data:")) {
		at += strlen("user_data:");
		add_word(arena, words, strtoull(at, NULL, 10));
	}
	if (!polls || !number_after(text, "CachedSqHead:", &begun) ||
	    !number_after(text, "CachedCqTail:", &answered))
		return UINT32_MAX;
	for (const char *at = strstr(polls, "\n  op="); at; at = strstr(at + 1, "\n  op="))
		n_polls++;
	return begun - answered <= INT32_MAX && begun - answered > n_polls ? begun - answered
	                                                                   : n_polls;
}

/* An epoll instance keeps 64 bits; a program of 32 writes its pointer to half of these. */
void ms_kernel_roots_halve(struct ms_arena *arena, struct ms_words *words)
{
	for (size_t i = 0, n = words->n; i < n; i++) {
		add_word(arena, words, words->at[i] >> 32);
		words->at[i] = (uint32_t)words->at[i];
	}
}

/* All of /proc/@tid/@name as a string in @scratch, or NULL. */
static const char *read_all(pid_t tid, const char *name, struct ms_arena *scratch,
                            struct text *text)
{
	int fd = ms_proc_open(tid, name, O_RDONLY);
	ssize_t n = -1;

	text->n = 0;
	while (fd >= 0 && ms_vec_reserve(scratch, text, text->n + FIRST_READ)) {
		n = read(fd, text->at + text->n, text->cap - text->n - 1);
		if (n <= 0)
			break;
		text->n += (size_t)n;
	}
	if (fd >= 0)
		(void)close(fd);
	if (n < 0)
		return NULL;
	text->at[text->n] = '\0';
	return text->at;
}

static void find_epoll(pid_t tid, const struct ms_descriptors *found, struct ms_arena *arena,
                       struct ms_arena *scratch, struct ms_words *words)
{
	struct text text = { 0 };
	const int32_t *fd;

	ms_vec_for_each (fd, &found->epolls) {
		char name[NAME_BYTES];
		const char *info;

		(void)snprintf(name, sizeof(name), "fdinfo/%d", *fd);
		info = read_all(tid, name, scratch, &text);
		if (info)
			ms_kernel_roots_parse_epoll(info, arena, words);
	}
}

/* What a ring has is not shown while a thread of the kernel is busy with it. */
static void find_requests(pid_t tid, const struct ms_descriptors *found, struct ms_source *ret,
                          struct ms_arena *arena, struct ms_arena *scratch)
{
	struct text text = { 0 };
	const int32_t *fd;

	ms_vec_for_each (fd, &found->rings) {
		uint32_t in_flight = UINT32_MAX;
		char name[NAME_BYTES];

		(void)snprintf(name, sizeof(name), "fdinfo/%d", *fd);
		for (int i = 0; i < TRIES && in_flight == UINT32_MAX; i++) {
			const char *info = read_all(tid, name, scratch, &text);

			if (info)
				in_flight =
					ms_kernel_roots_parse_ring(info, arena, &ret->kernel_words);
		}
		ret->n_requests += in_flight;
	}
}

static void find_timers(pid_t tid, struct ms_arena *arena, struct ms_arena *scratch,
                        struct ms_words *words)
{
	struct text text = { 0 };
	const char *timers = read_all(tid, "timers", scratch, &text);

	if (timers)
		ms_kernel_roots_parse_timers(timers, arena, words);
}

/*
 * How many bytes the signal stack of a thread has at least that could not be asked; 0: it
 * likely has none. Threads of one program are given theirs alike: where one that was asked
 * has none, and no other has, there are none.
 */
static uint64_t least_unknown_stack(const struct ms_collection *frozen)
{
	uint64_t least = frozen->n_unasked == frozen->n_threads ? LEAST_STACK : 0;

	for (uint32_t i = 0; i < frozen->n_threads && frozen->n_unasked; i++) {
		uint64_t len = ms_range_len(frozen->threads[i].signal_stack);

		if (len && (!least || len < least))
			least = len;
	}
	return least;
}

static void warn_of_unasked(const struct ms_collection *frozen, uint64_t least,
                            struct ms_arena *arena, struct ms_notes *warnings)
{
	if (least)
		ms_note_add(arena, warnings,
		            "%u thread%s could not be asked for a signal stack: unreachable blocks "
		            "of %llu bytes or more, which may be one, and what they lead to are "
		            "possible leaks, not leaks (memscan --possible lists them)",
		            frozen->n_unasked, ms_plural(frozen->n_unasked),
		            (unsigned long long)least);
	else
		ms_note_add(
			arena, warnings,
			"%u thread%s could not be asked for a signal stack; the others have none, "
			"but one that is there is reported as leaked",
			frozen->n_unasked, ms_plural(frozen->n_unasked));
}

/* Where the process has the random bytes that it began with; 0: not known. */
static ms_addr find_random(pid_t tid)
{
	struct {
		uint64_t type;
		uint64_t value;
	} entries[64];
	ssize_t n = ms_proc_read(tid, "auxv", (char *)entries, sizeof(entries));

	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(entries[0]); i++)
		if (entries[i].type == AT_RANDOM)
			return entries[i].value;
	return 0;
}

void ms_kernel_roots_find(const struct ms_collection *frozen, const struct ms_descriptors *before,
                          struct ms_arena *arena, struct ms_source *ret, struct ms_notes *warnings)
{
	struct ms_words *words = &ret->kernel_words;
	struct ms_descriptors found;
	struct ms_arena scratch = { 0 };

	for (uint32_t i = 0; i < frozen->n_signal_words && i < MS_SIGNAL_WORDS; i++)
		add_word(arena, words, frozen->signal_words[i]);
	for (uint32_t i = 0; i < frozen->n_threads; i++)
		add_word(arena, words, frozen->threads[i].signal_stack.begin);
	ret->unknown_stack_bytes = least_unknown_stack(frozen);
	if (frozen->n_unasked)
		warn_of_unasked(frozen, ret->unknown_stack_bytes, arena, warnings);
	ms_descriptors_look(frozen->live_tid, before, &scratch, &found);
	if (found.n_unseen)
		ms_note_add(
			arena, warnings,
			"%u descriptor%s could be checked only just before the process was stopped: "
			"if one became an epoll instance or an io_uring meanwhile, what only "
			"that holds is reported as leaked",
			found.n_unseen, ms_plural(found.n_unseen));
	find_epoll(frozen->live_tid, &found, arena, &scratch, words);
	find_requests(frozen->live_tid, &found, ret, arena, &scratch);
	ret->serves_files = found.serves_files;
	find_timers(frozen->live_tid, arena, &scratch, words);
	if (ret->abi.tls_above)
		ret->random = find_random(frozen->live_tid);
	if (ret->abi.word_bytes == sizeof(uint32_t))
		ms_kernel_roots_halve(arena, words);
	ms_arena_deinit(&scratch);
}
