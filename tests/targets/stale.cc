// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that nothing holds but bytes which a container has and does not use: the spare room
 * of a vector, the ends of a deque, what is behind a string. "stale-WHERE 0xADDR SIZE" says of
 * each; they are leaks under --strict-containers alone. Beside them are words that look like
 * containers and are none ("live"). Which of them there are is the same with either library.
 */
#include "truth.h"

#include <deque>
#include <new>
#include <string>
#include <vector>

struct Room {
	long number;
	std::vector<char *> vector;
	std::deque<char *> deque;
	std::string string;
};

/* Something with a reading position, and another holder of what it reads. */
struct Reader {
	char **begin;
	char **at;
	char **end;
	long nothing[5];
};

static Room *g_room;
static std::vector<char *> g_vector;
static std::deque<char *> g_deque;
static std::string g_string;
/* Compilers leave out what nothing reads. */
#define USED __attribute__((used))
USED static char **g_read;
USED static Reader *g_reader;
USED static std::vector<char *> *g_dead;
USED static char **g_reused;

namespace
{

enum { KEPT = 5, LOST = 3, MANY = 1200, SIZE = 40 };

NOINLINE char *made(const char *what)
{
	char *p = static_cast<char *>(malloc(SIZE));

	memset(p, 'x', SIZE);
	if (what)
		tell(what, p);
	return p;
}

NOINLINE void fill(std::vector<char *> &v)
{
	v.reserve(KEPT + 2 * LOST);
	for (int i = 0; i < KEPT; i++)
		v.push_back(made("live"));
	for (int i = 0; i < LOST; i++)
		v.push_back(made("stale-vector"));
	for (int i = 0; i < LOST; i++)
		v.pop_back();
}

NOINLINE void fill(std::deque<char *> &d)
{
	for (int i = 0; i < MANY; i++)
		d.push_back(made(i < MANY - LOST ? NULL : "stale-deque"));
	for (int i = 0; i < LOST; i++)
		d.pop_back();
	for (int i = 0; i < LOST; i++) {
		free(d.front());
		d.front() = made("stale-deque");
		d.pop_front();
	}
}

NOINLINE void fill(std::string &s)
{
	char *lost = made("stale-string");

	s.assign(200, 'x');
	memcpy(&s[128], &lost, sizeof(lost));
	s.resize(40);
}

NOINLINE void fill_rest()
{
	g_reader = static_cast<Reader *>(calloc(1, sizeof(*g_reader)));
	g_reader->begin = g_read = static_cast<char **>(malloc(8 * sizeof(char *)));
	g_reader->at = g_reader->begin + 2;
	g_reader->end = g_reader->begin + 8;
	for (int i = 0; i < 8; i++)
		g_read[i] = made("live");
}

/* What is left of a vector stands where another block's pointers are in use. */
NOINLINE void fill_dead()
{
	using vector = std::vector<char *>;

	g_dead = new vector;
	g_dead->reserve(10);
	g_dead->push_back(NULL);
	g_dead->~vector();
	g_reused = static_cast<char **>(malloc(10 * sizeof(char *)));
	for (int i = 0; i < 10; i++)
		g_reused[i] = made("live");
}

NOINLINE void fill_all()
{
	g_room = new Room;
	fill(g_room->vector);
	fill(g_room->deque);
	fill(g_room->string);
	fill(g_vector);
	fill(g_deque);
	fill(g_string);
	fill_rest();
	fill_dead();
}

NOINLINE void lose()
{
	made("leak");
}

} // namespace

int main()
{
	std::vector<char *> here;

	fill_all();
	fill(here);
	lose();
	forget();
	ready();
	return here.empty();
}
