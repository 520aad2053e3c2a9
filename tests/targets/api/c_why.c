/* SPDX-License-Identifier: Apache-2.0 */
/* Why a block lives, asked by the program itself; see api.h. */
#include "api.h"

#include <pthread.h>

enum { TEXT_BYTES = 4096, ROUNDS = 20 };

/* The last answer, and what it was asked for, for messages. */
static char answer[TEXT_BYTES];

NOINLINE static const char *why_hidden(size_t i)
{
	char *text;

	text = memunreachable_why(revealed(i));
	EXPECT(text, "no answer: %s", strerror(errno));
	EXPECT(strlen(text) < sizeof(answer), "a long answer");
	strcpy(answer, text);
	free(text);
	return answer;
}

/* Forgets in the case's own frame. */
#define WHY_HIDDEN(i) (forget(), why_hidden(i))

NOINLINE static const char *why(const void *p)
{
	char *text = memunreachable_why(p);

	EXPECT(text, "no answer: %s", strerror(errno));
	EXPECT(strlen(text) < sizeof(answer), "a long answer");
	strcpy(answer, text);
	free(text);
	return answer;
}

__attribute__((format(printf, 2, 3))) static void expect_at(int line, const char *format, ...)
{
	char wanted[512];
	va_list args;

	va_start(args, format);
	vsnprintf(wanted, sizeof(wanted), format, args);
	va_end(args);
	if (!strstr(answer, wanted))
		fail(line, "no '%s' in:\n%s", wanted, answer);
}

#define EXPECT_SAID(...)    expect_at(__LINE__, __VA_ARGS__)
#define EXPECT_UNSAID(what) EXPECT(!strstr(answer, what), "'%s' in:\n%s", what, answer)

/* ---- roots ---- */

void *volatile g_cache;
void *volatile g_table[4] = { (void *)1, NULL, NULL, NULL };

static void by_global(void)
{
	hide_new(0, BLOCK);
	g_cache = revealed(0);
	WHY_HIDDEN(0);
	EXPECT_SAID("0x%zx: %zu bytes, reachable, 1 step from a root\n  g_cache in c_why",
	            ~hidden[0], usable_size(0));
	EXPECT_SAID(" (data at 0x%zx)\n  -> 0x%zx: ", (uintptr_t)&g_cache, ~hidden[0]);
	EXPECT_SAID("this is the only way\n");
	g_table[2] = revealed(0);
	WHY_HIDDEN(0);
	EXPECT_SAID("  there are other ways\n");
	g_cache = NULL;
	WHY_HIDDEN(0);
	EXPECT_SAID("  g_table+16 in c_why");
	g_table[2] = NULL;
}

struct node {
	struct node *next;
	size_t filler[6];
};

static __thread struct node *volatile list;
static __thread void *volatile single;

NOINLINE static void make_list(struct node *volatile *head)
{
	for (size_t i = 0; i < 3; i++) {
		hide_new(i, sizeof(struct node));
		((struct node *)revealed(i))->next = NULL;
	}
	point_to(0, 0, 1);
	point_to(1, 0, 2);
	*head = revealed(0);
}

static void by_list_in_tls(void)
{
	make_list(&list);
	WHY_HIDDEN(2);
	/* The first thread's is a mapping, to which its table leads. */
	EXPECT_SAID("steps from a root\n  TLS of thread %d (c_why", (int)getpid());
	EXPECT_SAID("\n  -> 0x%zx: %zu bytes, at +0\n  -> 0x%zx: %zu bytes, at +0\n"
	            "  -> 0x%zx: %zu bytes\n",
	            ~hidden[0], usable_size(0), ~hidden[1], usable_size(1), ~hidden[2],
	            usable_size(2));
	list = NULL;
	WHY_HIDDEN(2);
	EXPECT_UNSAID("TLS of thread");
	EXPECT_SAID(" block points to it:\n  <- 0x%zx: %zu bytes, at +0\n", ~hidden[1],
	            usable_size(1));
}

/* The stack of a thread has its TLS at the top: no frame. */
static void *thread_asks(void *unused)
{
	char wanted[64];

	(void)unused;
	hide_new(0, BLOCK);
	single = revealed(0);
	WHY_HIDDEN(0);
	snprintf(wanted, sizeof(wanted), "  TLS of thread %d (asker)", (int)gettid());
	EXPECT_SAID("%s", wanted);
	EXPECT_UNSAID("only from the thread that asks");
	single = NULL;
	make_list(&list);
	WHY_HIDDEN(1);
	EXPECT_SAID("%s", wanted);
	list = NULL;
	return NULL;
}

static void by_tls_of_a_thread(void)
{
	pthread_t thread;

	EXPECT(!pthread_create(&thread, NULL, thread_asks, NULL), "no thread");
	pthread_setname_np(thread, "asker");
	pthread_join(thread, NULL);
}

/* ---- the thread that asks ---- */

static void by_own_variable(void)
{
	void *volatile held;

	hide_new(0, BLOCK);
	hide_new(1, BLOCK);
	held = revealed(0);
	WHY_HIDDEN(0);
	EXPECT_SAID(
		"reachable, 1 step from a root, only from the thread that asks\n  stack of thread");
	EXPECT_SAID(" at 0x%zx)\n", (uintptr_t)&held);
	EXPECT_SAID("no more than the address that was asked with\n");
	EXPECT_UNSAID("point to it");
	point_to(1, 3, 0);
	WHY_HIDDEN(0);
	EXPECT_SAID("only from the thread that asks\n");
	EXPECT_SAID("1 unreachable block points to it:\n  <- 0x%zx: %zu bytes, at +24\n",
	            ~hidden[1], usable_size(1));
	held = NULL;
	(void)held;
}

/* A variable that the compiler keeps in a register counts like one on the stack. */
static void by_own_register(void)
{
	register void *held;
	char *text;

	hide_new(0, BLOCK);
	held = revealed(0);
	forget();
	text = memunreachable_why(held);
	OPAQUE(held);
	EXPECT(text, "no answer: %s", strerror(errno));
	strcpy(answer, text);
	free(text);
	EXPECT_SAID("only from the thread that asks\n  stack of thread");
	held = NULL;
	OPAQUE(held);
}

static void others_come_first(void)
{
	void *volatile held;

	hide_new(0, BLOCK);
	held = revealed(0);
	g_cache = revealed(0);
	WHY_HIDDEN(0);
	EXPECT_SAID("  g_cache in c_why");
	EXPECT_UNSAID("only from the thread that asks");
	EXPECT_SAID("this is the only way\n");
	g_cache = NULL;
	held = NULL;
	(void)held;
}

/* What hangs on a variable is held like by any other root. */
static void by_list_on_the_stack(void)
{
	struct node *volatile head;

	make_list(&head);
	WHY_HIDDEN(1);
	EXPECT_SAID("reachable, 2 steps from a root\n  stack of thread");
	EXPECT_SAID(" at 0x%zx)\n", (uintptr_t)&head);
	head = NULL;
	WHY_HIDDEN(1);
	EXPECT_SAID("leaked: no root leads to it\n");
	(void)head;
}

/* ---- leaked ---- */

static void leaked(void)
{
	hide_new(0, BLOCK);
	WHY_HIDDEN(0);
	EXPECT_SAID("0x%zx: %zu bytes, leaked: no root leads to it\n  nothing points to it\n",
	            ~hidden[0], usable_size(0));
	hide_new(1, BLOCK);
	point_to(1, 2, 0);
	WHY_HIDDEN(0);
	EXPECT_SAID("leaked: no root leads to it\n  1 leaked block points to it:\n"
	            "  <- 0x%zx: %zu bytes, at +16\n",
	            ~hidden[1], usable_size(1));
	/* Asking leaves nothing that holds it. */
	EXPECT_LEAKS(2);
}

/* ---- what is no block, or not its begin ---- */

static void in_the_middle(void)
{
	hide_new(0, BLOCK);
	g_cache = revealed(0);
	why((char *)g_cache + 9);
	EXPECT_SAID(
		"0x%zx: 9 bytes into the block 0x%zx, %zu bytes, reachable, 1 step from a root\n",
		(uintptr_t)g_cache + 9, (uintptr_t)g_cache, usable_size(0));
	g_cache = NULL;
}

static void no_block(void)
{
	char variable = 0;

	why(&variable);
	EXPECT_SAID("0x%zx: no block, but stack of thread %d (c_why", (uintptr_t)&variable,
	            (int)getpid());
	EXPECT_SAID("which is a root\n");
	why((void *)&g_cache);
	EXPECT_SAID("no block, but g_cache in c_why");
	why((void *)(uintptr_t)by_global);
	EXPECT_SAID("no block, but by_global in c_why");
	EXPECT_SAID("(code or constants at ");
	why(NULL);
	EXPECT(!strcmp(answer, "0x0: no block, nothing is mapped there\n"), "%s", answer);
	why((void *)UINTPTR_MAX);
	EXPECT(!strcmp(answer, "0xffffffffffffffff: no block, nothing is mapped there\n"), "%s",
	       answer);
}

static void freed(void)
{
	uintptr_t at;

	hide_new(0, BLOCK);
	at = ~hidden[0];
	free_hidden(0);
	why((void *)at);
	EXPECT_SAID("0x%zx: no block, but free memory of a heap, or the allocator's own", at);
}

/* ---- refused, and while others work ---- */

static void refused(void)
{
	hide_new(0, BLOCK);
	become_nobody();
	WHY_HIDDEN(0);
	EXPECT_SAID("leaked");
	EXPECT(!prctl(PR_SET_DUMPABLE, 0), "prctl: %s", strerror(errno));
	errno = 0;
	EXPECT(!memunreachable_why(NULL), "an answer, where nothing could be searched");
	EXPECT(errno == EPERM, "%s", strerror(errno));
}

static volatile bool over;

static void *allocate_on(void *unused)
{
	(void)unused;
	while (!over)
		free(fresh(BLOCK));
	return NULL;
}

/* Others are inside malloc, its lock held, when they are stopped; and nothing is left mapped. */
static void while_others_allocate(void)
{
	pthread_t threads[2];
	int before = 0;

	hide_new(0, BLOCK);
	g_cache = revealed(0);
	forget(); /* a thread begins with registers of the one that made it */
	for (int i = 0; i < 2; i++)
		EXPECT(!pthread_create(&threads[i], NULL, allocate_on, NULL), "no thread");
	for (int i = 0; i < ROUNDS; i++) {
		WHY_HIDDEN(0);
		EXPECT_SAID("  g_cache in c_why");
		if (i == 1)
			before = count_mappings();
	}
	EXPECT(count_mappings() <= before + 2, "%d mappings, then %d", before, count_mappings());
	over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	g_cache = NULL;
}

static const struct api_case cases[] = {
	{ "by_global", by_global },
	{ "by_list_in_tls", by_list_in_tls },
	{ "by_tls_of_a_thread", by_tls_of_a_thread },
	{ "by_own_variable", by_own_variable },
	{ "by_own_register", by_own_register },
	{ "others_come_first", others_come_first },
	{ "by_list_on_the_stack", by_list_on_the_stack },
	{ "leaked", leaked },
	{ "in_the_middle", in_the_middle },
	{ "no_block", no_block },
	{ "freed", freed },
	{ "refused", refused },
	{ "while_others_allocate", while_others_allocate },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
