/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program whose whole heap hangs on its variables: only debug information says what
 * the blocks are. Prints what truth.h says, each block's kind being its type:
 *
 *	server, session, buffer, user, listener, frame
 *	route_row, user_table     several in a row, pointers to several
 *
 * and `text`, of which nothing says what it is; `lost`, a session that is leaked and points
 * to a user; `entry`, which a pointer to its first member alone leads to.
 */
#include <stdio.h>

#include "truth.h"

struct user; /* what it is only the other half of this file knows */

struct link {
	struct link *next;
	struct link *prev;
};

struct buffer {
	size_t used;
	char bytes[]; /* of any length */
};

typedef struct {
	char *name;
	void *anything;
	int port;
} listener;

struct session {
	struct session *next;
	struct user *user;
	struct buffer *buffer;
	union {
		struct session *parent;
		uint64_t number;
	};
	char *text;
	char more[40];
};

struct route {
	const char *from;
	struct user *to;
	long weight;
};

struct limits {
	long most;
	struct frame *frame;
};

struct server {
	struct session *sessions;
	struct {
		struct route *routes;
		size_t n;
	} table;
	struct user **users;
	const listener *volatile listeners[3];
	struct limits limits[2];
	struct link entries;
};

struct frame {
	struct frame *parent;
	struct server *server;
	double values[5];
};

struct user {
	char name[24];
	struct session *session;
	struct user *friend;
};

struct entry {
	struct link link;
	struct user *user;
	char rest[100];
};

enum { SESSIONS = 5, ROUTES = 7, USERS = 9 };

static struct server *g_server;

static void *block(const char *kind, size_t size)
{
	void *p = calloc(1, size);

	tell(kind, p);
	return p;
}

static struct user *new_user(struct session *session)
{
	struct user *user = block("user", sizeof(*user));

	user->session = session;
	return user;
}

static void add_session(struct server *server)
{
	struct session *session = block("session", sizeof(*session));

	session->user = new_user(session);
	session->user->friend = new_user(NULL);
	session->buffer = block("buffer", sizeof(*session->buffer) + 777);
	session->text = block("text", 50);
	session->next = server->sessions;
	session->parent = session->next;
	server->sessions = session;
}

static void add_entry(struct server *server)
{
	struct entry *entry = block("entry", sizeof(*entry));

	entry->link.next = &server->entries;
	entry->user = block("text", sizeof(*entry->user)); /* through nothing that is typed */
	server->entries.next = &entry->link;
}

static void fill(struct server *server)
{
	static listener *volatile kept; /* in a function, and yet a variable */

	for (int i = 0; i < SESSIONS; i++)
		add_session(server);
	server->table.n = ROUTES;
	server->table.routes = block("route_row", ROUTES * sizeof(struct route));
	for (int i = 0; i < ROUTES; i++)
		server->table.routes[i].to = new_user(NULL);
	server->users = block("user_table", USERS * sizeof(*server->users));
	for (int i = 0; i < USERS; i += 2)
		server->users[i] = new_user(NULL);
	kept = block("listener", sizeof(*kept));
	server->listeners[2] = block("listener", sizeof(*kept));
	server->limits[1].frame = block("frame", sizeof(struct frame));
	server->limits[1].frame->server = server;
	server->limits[1].frame->parent = server->limits[1].frame; /* a cycle */
	add_entry(server);
}

static NOINLINE void lose(void)
{
	struct session *session = calloc(1, sizeof(*session));

	session->user = g_server->sessions->user;
	tell("lost", session);
}

int main(void)
{
	g_server = block("server", sizeof(*g_server));
	fill(g_server);
	lose();
	ready();
}
