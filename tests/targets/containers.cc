/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of C++'s library, in objects of a class and in globals, reachable and not. The
 * program says what each block of theirs is, as memscan is to name it, with '~' for a blank:
 * "is:node~of~std::list~in~Session+0x40 0xADDR SIZE", and which blocks it leaks.
 */
#include "truth.h"

#include <deque>
#include <dirent.h>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <stdio.h>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

struct Session {
	virtual ~Session()
	{
	}
	std::string name;
	std::vector<int> numbers;
	std::list<long> list;
	std::map<int, int> map;
	std::set<std::string> set;
	std::unordered_map<int, long> table;
	std::deque<long> queue;
};

struct Rest {
	std::string text;
	std::list<int> list;
	std::map<int, int> map;
	std::unordered_set<int> table;
	std::function<long()> call;
};

static Session *g_session;
static Rest g_rest;
static FILE *g_file;
static DIR *g_dir;
static char *g_text;

namespace
{

enum { WORD = sizeof(void *) };

NOINLINE void is(const char *what, const void *owner, const void *member, const void *block,
                 size_t before)
{
	char name[256];
	char *end = put_text(put_text(name, "is:"), what);

	if (owner) {
		end = put_text(end, "~in~Session+0x");
		end = put_number(end,
		                 (uint64_t) static_cast<const char *>(member) -
		                         (uint64_t) static_cast<const char *>(owner),
		                 16);
	}
	*end = '\0';
	tell(name, const_cast<char *>(static_cast<const char *>(block)) - before);
}

NOINLINE void fill(Session *s)
{
	s->name = "a name that is too long for the string itself";
	for (int i = 0; i < 10; i++) {
		s->numbers.push_back(i);
		s->list.push_back(i);
		s->map[i * 7 % 10] = i;
		s->set.insert("one of the strings in a set, number " + std::to_string(i));
		s->table[i] = i;
	}
	for (int i = 0; i < 200; i++)
		s->queue.push_back(i);
}

NOINLINE void say(const Session *s)
{
	is("buffer~of~std::string", s, &s->name, s->name.data(), 0);
	is("elements~of~std::vector", s, &s->numbers, s->numbers.data(), 0);
	for (const auto &item : s->list)
		is("node~of~std::list", s, &s->list, &item, 2 * WORD);
	for (const auto &item : s->map)
		is("node~of~std::map~or~std::set", s, &s->map, &item, 4 * WORD);
	for (const auto &item : s->set)
		is("buffer~of~std::string", nullptr, nullptr, item.data(), 0);
	for (const auto &item : s->table)
		is("node~of~an~unordered~container", s, &s->table, &item, WORD);
	is("elements~of~std::deque", s, &s->queue, &s->queue[0], 0);
	is("elements~of~std::deque", s, &s->queue, &s->queue[512 / sizeof(long)], 0);
}

/* Too large to be in the function itself. */
struct Closure {
	long numbers[5];
	long operator()() const
	{
		return numbers[4];
	}
};

NOINLINE void keep()
{
	g_session = new Session;
	fill(g_session);
	say(g_session);
	g_rest.text.assign(1000, 'x');
	is("buffer~of~std::string", nullptr, nullptr, g_rest.text.data(), 0);
	for (int i = 0; i < 5; i++) {
		g_rest.list.push_back(i);
		g_rest.map[i] = i;
		g_rest.table.insert(i);
	}
	for (const auto &item : g_rest.list)
		is("node~of~std::list", nullptr, nullptr, &item, 2 * WORD);
	for (const auto &item : g_rest.map)
		is("node~of~std::map~or~std::set", nullptr, nullptr, &item, 4 * WORD);
	for (const auto &item : g_rest.table)
		is("node~of~an~unordered~container", nullptr, nullptr, &item, WORD);
	g_rest.call = Closure{ { 1, 2, 3, 4, 5 } };
	is("closure~of~std::function", nullptr, nullptr, g_rest.call.target<Closure>(), 0);
	g_file = fopen("/dev/null", "w");
	(void)fputs("something", g_file);
	g_dir = opendir("/");
	(void)readdir(g_dir);
	g_text = strdup("a text, that nothing but its characters tells");
	is("FILE", nullptr, nullptr, g_file, 0);
	is("buffer~of~FILE", nullptr, nullptr, g_file->_IO_buf_base, 0);
	is("DIR", nullptr, nullptr, g_dir, 0);
	is("text", nullptr, nullptr, g_text, 0);
}

/* The text is a leak by itself. */
NOINLINE void lose()
{
	Session *s = new (fresh(sizeof(Session))) Session;
	char *text = strdup("lost, and in one piece");

	fill(s);
	say(s);
	tell("leak-direct", s);
	tell("leak-direct", text);
}

} // namespace

int main()
{
	keep();
	lose();
	forget();
	ready();
	return g_session->numbers.empty();
}
