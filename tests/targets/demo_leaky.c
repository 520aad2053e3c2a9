/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program that `make demo` scans: a small server's connection table with
 * three honest mistakes in it. It runs until its standard input ends, or for
 * the number of seconds given (60).
 *
 *   1. session_close() drops a session from the table but frees it only when
 *      the peer had said goodbye; the others are lost, with their strings.
 *   2. journal_rotate() forgets the list of entries it has written.
 *   3. A user and its group point at each other; unloading frees neither.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N_SLOTS = 64, N_CONNECTIONS = 1000, BUFFER_BYTES = 4096 };

struct session {
	uint64_t id;
	char *peer;
	char *user_agent;
	char *buffer;
	int said_goodbye;
};

struct journal_entry {
	struct journal_entry *next;
	uint64_t session_id;
	char text[40];
};

struct group;

struct user {
	char name[32];
	struct group *group;
};

struct group {
	char name[32];
	struct user *first;
};

static struct session *table[N_SLOTS];
static struct journal_entry *journal;

static void *need(void *p)
{
	if (p == NULL)
		abort();
	return p;
}

static char *format_peer(uint64_t id)
{
	char text[64];

	snprintf(text, sizeof(text), "192.0.2.%u:%u", (unsigned)(id % 250), (unsigned)(40000 + id));
	return need(strdup(text));
}

static struct session *session_open(uint64_t id)
{
	struct session *session = need(calloc(1, sizeof(*session)));

	session->id = id;
	session->peer = format_peer(id);
	session->user_agent = need(strdup("demo-client/1.0 (believable; X11; Linux x86_64)"));
	session->buffer = need(calloc(1, BUFFER_BYTES));
	session->said_goodbye = id % 25 != 0;
	return session;
}

static void session_close(struct session *session)
{
	if (!session->said_goodbye)
		return; /* mistake 1: "the reaper will do it", but there is none */
	free(session->buffer);
	free(session->user_agent);
	free(session->peer);
	free(session);
}

static void journal_add(uint64_t id)
{
	struct journal_entry *entry = need(calloc(1, sizeof(*entry)));

	entry->session_id = id;
	snprintf(entry->text, sizeof(entry->text), "closed session %u", (unsigned)id);
	entry->next = journal;
	journal = entry;
}

static void journal_rotate(void)
{
	/* "writes" the entries */
	journal = NULL; /* mistake 2 */
}

static void load_and_unload_users(void)
{
	struct user *user = need(calloc(1, sizeof(*user)));
	struct group *group = need(calloc(1, sizeof(*group)));

	strcpy(user->name, "alice");
	strcpy(group->name, "wheel");
	user->group = group;
	group->first = user; /* mistake 3 */
}

__attribute__((noinline)) static void serve(void)
{
	for (uint64_t id = 1; id <= N_CONNECTIONS; id++) {
		struct session **slot = &table[id % N_SLOTS];

		if (*slot != NULL) {
			session_close(*slot);
			if (id % 100 == 0)
				journal_add(id);
		}
		*slot = session_open(id);
		if (id == 800)
			journal_rotate();
	}
	for (int i = 0; i < 3; i++)
		load_and_unload_users();
}

/* A busy server would long have used this stack again. */
static void use_some_stack(void)
{
	char scratch[64 * 1024];

	memset(scratch, 0, sizeof(scratch));
	__asm__ volatile("" : : "r"(scratch) : "memory");
}

static void sleep_until_end(long seconds)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	time_t end = time(NULL) + seconds;
	char byte;

	while (time(NULL) < end) {
		if (poll(&in, 1, 200) > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
			return;
	}
}

int main(int argc, char **argv)
{
	serve();
	use_some_stack();
	puts("READY");
	fflush(stdout);
	sleep_until_end(argc > 1 ? atol(argv[1]) : 60);
	return 0;
}
