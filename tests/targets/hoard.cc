// SPDX-License-Identifier: Apache-2.0
//
// hoard HOW: holds 1000 entries of 2000 bytes in one way, and some memory in others.
//
//	cache    a global map of sessions, with a plain pointer on either side of it
//	tls      a list in the thread-local storage of a thread that is called "keeper"
//	epoll    what a callback holds, which is registered with epoll
//	timer    what a closure holds, which a timer has
//	cycle    a cycle of shared_ptr, which a global leads into
//	table    a global table of chains, as hash tables in C are
//	shared   two globals lead to the same entries
//
// Beside that a global vector of 50 entries, and three that are leaked. Prints what
// tests/targets/truth.h does: "entries" and the bytes of all that were planted; sleeps until
// its input ends.

#include "truth.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <pthread.h>
#include <string>
#include <vector>

enum { ENTRIES = 1000, ENTRY_BYTES = 2000, TABLE = 64 };

struct Session {
	virtual ~Session() = default;
	char *token = nullptr;
	char more[120] = {};
};

struct Ring {
	std::shared_ptr<Ring> next;
	char data[ENTRY_BYTES] = {};
};

struct Chain {
	Chain *next;
	char data[ENTRY_BYTES];
};

struct Globals {
	char *before;
	std::map<int, Session *> cache;
	char *behind;
} g_state;

// Not to be side by side with others: each is to be a holder by itself.
template <class T> struct Alone {
	long space[8];
	T it;
	long more[8];
};

Alone<Ring *> g_ring;
Alone<Chain *[TABLE]> g_table;
Alone<std::vector<char *> *> g_one;
Alone<std::vector<char *> *> g_two;
Alone<std::vector<char *>> g_small;

static thread_local std::list<char *> t_list;
static pthread_barrier_t kept;

static char *entry()
{
	return (char *)std::memset(std::malloc(ENTRY_BYTES), 'e', ENTRY_BYTES);
}

static std::vector<char *> *entries()
{
	auto *all = new std::vector<char *>;

	for (int i = 0; i < ENTRIES; i++)
		all->push_back(entry());
	return all;
}

static void fill_cache()
{
	g_state.before = entry();
	g_state.behind = entry();
	for (int i = 0; i < ENTRIES; i++) {
		Session *session = new Session;

		session->token = entry();
		g_state.cache[i] = session;
	}
}

static void __attribute__((noinline)) fill_list()
{
	for (int i = 0; i < ENTRIES; i++)
		t_list.push_back(entry());
}

static void *keep_list(void *)
{
	fill_list();
	forget();
	pthread_setname_np(pthread_self(), "keeper");
	pthread_barrier_wait(&kept);
	for (;;)
		pause();
}

static void start_keeper()
{
	pthread_t thread;

	pthread_barrier_init(&kept, nullptr, 2);
	pthread_create(&thread, nullptr, keep_list, nullptr);
	pthread_barrier_wait(&kept);
}

static std::function<size_t()> *closure()
{
	auto *all = entries();

	return new std::function<size_t()>([all] { return all->size(); });
}

static void watch()
{
	epoll_event event = {};

	event.events = EPOLLIN;
	event.data.ptr = closure();
	if (epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, eventfd(0, 0), &event))
		std::exit(1);
}

static void start_timer()
{
	sigevent event = {};
	itimerspec when = {};
	timer_t timer;

	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGRTMAX;
	event.sigev_value.sival_ptr = closure();
	when.it_value.tv_sec = 100000;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &when, nullptr))
		std::exit(1);
}

static void make_ring()
{
	auto first = std::make_shared<Ring>();
	auto last = first;

	for (int i = 1; i < ENTRIES; i++) {
		last->next = std::make_shared<Ring>();
		last = last->next;
	}
	last->next = first;
	g_ring.it = first.get();
}

static void fill_table()
{
	for (int i = 0; i < ENTRIES; i++) {
		Chain *chain = (Chain *)std::calloc(1, sizeof(Chain));

		chain->next = g_table.it[i % TABLE];
		g_table.it[i % TABLE] = chain;
	}
}

static void share()
{
	g_one.it = entries();
	g_two.it = g_one.it;
}

static void __attribute__((noinline)) plant(const std::string &how)
{
	const std::map<std::string, void (*)()> ways = {
		{ "cache", fill_cache },  { "tls", start_keeper }, { "epoll", watch },
		{ "timer", start_timer }, { "cycle", make_ring },  { "table", fill_table },
		{ "shared", share },
	};

	for (int i = 0; i < 50; i++)
		g_small.it.push_back(entry());
	for (int i = 0; i < 3; i++)
		(void)entry();
	ways.at(how)();
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	std::setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
	plant(argv[1]);
	std::printf("entries 0 %lu\n", (unsigned long)ENTRIES * ENTRY_BYTES);
	std::fflush(stdout);
	ready();
}
