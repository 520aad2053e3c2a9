/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block each, held at one place only that is hard to see from inside: it must not be
 * told while it is held there, and must be once it is not; see api.h.
 */
#include "api.h"
#include "registers.h"

#include <pthread.h>

/* Steps of the case and of its thread; the thread answers with the same number. */
enum { START, HELD, DROP, DROPPED, END };

static volatile int step;
static int wake[2];

static void wait_for_step(int wanted)
{
	while (step < wanted)
		usleep(500);
}

/* ---- the caller's own ---- */

static void caller_local(void)
{
	void *volatile held[3] = { NULL, NULL, NULL };

	hide_new(0, BLOCK);
	held[1] = revealed(0);
	EXPECT_LEAKS(0);
	held[1] = NULL;
	EXPECT_LEAKS(1);
	(void)held[1];
}

NOINLINE static bool search_deeper(int depth, size_t *ret)
{
	volatile char frame[200];
	bool ok;

	frame[0] = (char)depth;
	ok = depth ? search_deeper(depth - 1, ret) : search(ret);
	return frame[0] == (char)depth && ok;
}

/* Far above the frame that calls. */
static void callers_caller(void)
{
	void *volatile held;
	size_t found = 99;

	hide_new(0, BLOCK);
	held = revealed(0);
	forget();
	EXPECT(search_deeper(100, &found) && found == 0, "%zu leaks, not 0", found);
	held = NULL;
	forget();
	EXPECT(search_deeper(100, &found) && found == 1, "%zu leaks, not 1", found);
	(void)held;
}

/* In a register that calls preserve, or in what is pushed of it. */
static void caller_register(void)
{
	register void *held __asm__(KEPT_REGISTER);
	size_t found = 99;

	hide_new(0, BLOCK);
	forget();
	held = (void *)~hidden[0];
	__asm__ volatile("" : "+r"(held));
	EXPECT(search(&found) && found == 0, "%zu leaks, not 0", found);
	__asm__ volatile("" : "+r"(held));
	held = NULL;
	__asm__ volatile("" : "+r"(held));
	EXPECT_LEAKS(1);
}

static __thread void *volatile thread_local_pointer;

static void caller_thread_local(void)
{
	hide_new(0, BLOCK);
	thread_local_pointer = revealed(0);
	EXPECT_LEAKS(0);
	thread_local_pointer = NULL;
	EXPECT_LEAKS(1);
}

/* ---- another thread's ---- */

/* Block 0 is held by @body until the step DROP, and by nobody behind DROPPED. */
static void check_holder(void *(*body)(void *))
{
	pthread_t thread;
	char byte = 'x';

	hide_new(0, BLOCK);
	forget();
	EXPECT(!pipe(wake) && !pthread_create(&thread, NULL, body, NULL), "no thread");
	wait_for_step(HELD);
	usleep(20000);
	for (int i = 0; i < 3; i++)
		EXPECT_LEAKS(0);
	step = DROP;
	EXPECT(write(wake[1], &byte, 1) == 1, "write");
	wait_for_step(DROPPED);
	EXPECT_LEAKS(1);
	step = END;
	pthread_join(thread, NULL);
	close(wake[0]);
	close(wake[1]);
}

static void *end_holding(void)
{
	forget();
	step = DROPPED;
	wait_for_step(END);
	return NULL;
}

static void *hold_on_stack(void *arg)
{
	void *volatile held = revealed(0);

	(void)arg;
	forget();
	step = HELD;
	wait_for_step(DROP);
	held = NULL;
	(void)held;
	return end_holding();
}

static void other_stack(void)
{
	check_holder(hold_on_stack);
}

static void *hold_thread_local(void *arg)
{
	(void)arg;
	thread_local_pointer = revealed(0);
	forget();
	step = HELD;
	wait_for_step(DROP);
	thread_local_pointer = NULL;
	return end_holding();
}

static void other_thread_local(void)
{
	check_holder(hold_thread_local);
}

static void *hold_in_register(void *arg)
{
	(void)arg;
	loop_with_register(&step, &hidden[0], HELD, DROP);
	return end_holding();
}

static void other_register(void)
{
	check_holder(hold_in_register);
}

static void *hold_in_vector(void *arg)
{
	(void)arg;
	loop_with_vector(&step, &hidden[0], HELD, DROP);
	return end_holding();
}

static void other_vector(void)
{
	check_holder(hold_in_vector);
}

static void *hold_in_call(void *arg)
{
	long n = read_with_register(&step, &hidden[0], HELD, wake[0]);

	(void)arg;
	EXPECT(n == 1, "read: %ld", n);
	return end_holding();
}

static void other_register_in_call(void)
{
	check_holder(hold_in_call);
}

static const struct api_case cases[] = {
	{ "caller_local", caller_local },
	{ "callers_caller", callers_caller },
	{ "caller_register", caller_register },
	{ "caller_thread_local", caller_thread_local },
	{ "other_stack", other_stack },
	{ "other_thread_local", other_thread_local },
	{ "other_register", other_register },
	{ "other_vector", other_vector },
	{ "other_register_in_call", other_register_in_call },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
