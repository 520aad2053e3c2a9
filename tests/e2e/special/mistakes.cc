/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few mistakes, each made many times: objects with a type and without, whose strings and
 * lists have many lengths, and two mistakes of blocks of one size. FRONT makes another build
 * of it, with more code and constants in front. Ends when its input does.
 */
#include "truth.h"

#include <list>
#include <string>
#include <vector>

#ifdef FRONT
extern const char front_text[70000] __attribute__((used));
const char front_text[70000] = { 1 };

extern int front_code(int n) __attribute__((used));
int front_code(int n)
{
	__asm__ volatile(".fill 70000, 1, 0x90");
	return n;
}
#endif

enum { OBJECTS = 300, REPLIES = 40, TIMERS = 60 };

struct Session {
	explicit Session(int n) : number(n), name((size_t)n, 'n'), items((size_t)n % 5, n)
	{
	}
	virtual ~Session()
	{
	}
	long number;
	long more[4] = {};
	std::string name;
	std::list<int> items;
};

struct Record {
	std::string name;
	void (*closed)(Record *record);
	std::list<int> items;
	long number;
};

static_assert(sizeof(Session) != sizeof(Record), "told apart by size, too");

struct reply {
	char *text;
	const char *kind;
	long length;
	long status;
	long more;
};

struct timer {
	long due;
	void (*fire)(struct timer *timer);
	long period;
	struct timer *next;
	long more;
};

static_assert(sizeof(reply) == sizeof(timer), "told apart by their shapes alone");

NOINLINE static void close_record(Record *record)
{
	record->number = 0;
}

NOINLINE static void fire_timer(struct timer *timer)
{
	timer->due = 0;
}

NOINLINE static void lose_session(int n)
{
	Session *session = new Session(n);

	OPAQUE(session);
}

NOINLINE static void lose_record(int n)
{
	size_t length = (size_t)n;
	Record *record = new Record{ std::string(length, 'r'), close_record,
		                     std::list<int>(length % 5, n), n };

	OPAQUE(record);
}

NOINLINE static void lose_reply(int n)
{
	reply *lost = (reply *)malloc(sizeof(*lost));

	lost->text = (char *)malloc((size_t)n + 100);
	lost->kind = "reply";
	lost->length = n;
	lost->status = n % 2 ? 200 : 0;
	lost->more = 0;
	OPAQUE(lost);
}

NOINLINE static void lose_timer(int n)
{
	timer *lost = (timer *)malloc(sizeof(*lost));

	lost->due = 1700000000 + n;
	lost->fire = fire_timer;
	lost->period = n % 3;
	lost->next = lost;
	lost->more = 0;
	OPAQUE(lost);
}

NOINLINE static void repeat(void (*lose)(int n), int times)
{
	for (int n = 0; n < times; n++)
		lose(n);
	forget();
}

int main(void)
{
	repeat(lose_session, OBJECTS);
	repeat(lose_record, OBJECTS);
	repeat(lose_reply, REPLIES);
	repeat(lose_timer, TIMERS);
	forget();
	ready();
	wait_for_end();
	return 0;
}
