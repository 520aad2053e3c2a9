// SPDX-License-Identifier: Apache-2.0
//
// Memory that is held, each in a way of its own: what asks why it lives is to find that way.
//
// Prints what tests/targets/truth.h does, with the kinds
//
//	cache, tls, epoll, timer    a block that only this holds
//	mapped                      one that only memory from mmap() holds, which a global does
//	many                        one that 30 globals hold
//	link                        the last of 1000, each of which holds the next
//	far                         one that only zero-filled data far behind the file's holds
//	cycle                       a block in a leaked cycle
//	lost, loser                 a leaked block, and the one that points to it
//	freed                       one that was given back
//	global, code                an address that is no block
//
// and sleeps until its input ends.

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
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

struct Session {
	virtual ~Session() = default;
	char *token = nullptr;
	char more[120] = {};
};

struct Node {
	virtual ~Node() = default;
	std::shared_ptr<Node> next;
};

std::map<int, Session *> g_cache;
char g_plain[4000] = "data of the program";

struct Link {
	Link *next;
	long more[3];
};

Link *g_links;
char *g_many[30];
void *g_mapped;

struct Far {
	char space[1 << 16];
	char *held;
} g_far;

static thread_local std::list<char *> t_list;
static pthread_barrier_t ready;

static void fact(const char *kind, const void *at, unsigned long size)
{
	std::printf("%s %lx %lu\n", kind, (unsigned long)at, size);
}

static char *text(size_t n)
{
	return (char *)std::memset(std::malloc(n), 't', n);
}

static void fill_cache()
{
	for (int i = 0; i < 5; i++) {
		Session *session = new Session;

		session->token = text(201);
		g_cache[i] = session;
		if (i == 3)
			fact("cache", session->token, 201);
		if (i == 3)
			fact("session", session, sizeof(*session));
	}
}

static void make_links()
{
	Link *link = nullptr;

	for (int i = 0; i < 1000; i++) {
		Link *front = new Link{ link, {} };

		if (!link)
			fact("link", front, sizeof(*front));
		link = front;
	}
	g_links = link;
}

static void make_many()
{
	char *held = text(601);

	for (char *&at : g_many)
		at = held;
	fact("many", held, 601);
}

static void map()
{
	char *held = text(701);

	g_mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	((char **)g_mapped)[7] = held;
	fact("mapped", held, 701);
}

static void __attribute__((noinline)) clear_stack()
{
	volatile char space[64 * 1024];

	for (char volatile &c : space)
		c = 0;
}

static void __attribute__((noinline)) fill_list()
{
	t_list.push_back(text(301));
	t_list.push_back(text(302));
	fact("tls", t_list.back(), 302);
}

static void lose()
{
	Session *session = new Session;

	session->token = text(801);
	fact("lost", session->token, 801);
	fact("loser", session, sizeof(*session));
}

static void *keep_list(void *)
{
	fill_list();
	clear_stack();
	pthread_setname_np(pthread_self(), "keeper");
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
}

struct Callback {
	std::function<void()> *run;
};

static void watch()
{
	char *held = text(401);
	Callback *callback = new Callback{ new std::function<void()>([held] { std::puts(held); }) };
	epoll_event event = {};

	event.events = EPOLLIN;
	event.data.ptr = callback;
	if (epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, eventfd(0, 0), &event))
		std::exit(1);
	fact("epoll", held, 401);
	fact("callback", callback, sizeof(*callback));
}

static void start_timer()
{
	char *held = text(501);
	auto *closure = new std::function<void()>([held] { std::puts(held); });
	sigevent event = {};
	itimerspec when = {};
	timer_t timer;

	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGRTMAX;
	event.sigev_value.sival_ptr = closure;
	when.it_value.tv_sec = 100000;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &when, nullptr))
		std::exit(1);
	fact("timer", held, 501);
}

static void lose_cycle()
{
	auto a = std::make_shared<Node>();
	auto b = std::make_shared<Node>();

	a->next = b;
	b->next = a;
	fact("cycle", a.get(), sizeof(*a));
	fact("cycle", b.get(), sizeof(*b));
}

// What they leave on the stack and in registers would hold blocks, too.
static void __attribute__((noinline)) make_all()
{
	fill_cache();
	watch();
	start_timer();
	lose_cycle();
	make_links();
	make_many();
	map();
	lose();
	g_far.held = text(901);
	fact("far", g_far.held, 901);
}

int main()
{
	pthread_t thread;
	char *freed[3];

	std::setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
	pthread_barrier_init(&ready, nullptr, 2);
	pthread_create(&thread, nullptr, keep_list, nullptr);
	pthread_barrier_wait(&ready);
	make_all();
	for (char *&at : freed)
		at = text(3000);
	fact("freed", freed[1], 3000);
	std::free(freed[1]);
	fact("global", g_plain, sizeof(g_plain));
	fact("code", (void *)&main, 1);
	clear_stack();
	std::puts("READY");
	std::fflush(stdout);
	while (getchar() != EOF)
		;
	_exit(0);
}
