/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A process in a shower of signals: queued ones, counted and in order, that one
 * thread sends to another, and an interval timer's on top. Says READY; on end of
 * input "sent N got N", and "in disorder" when one was lost or came twice.
 */
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>

static atomic_int sent, got, ticks, disorder, stop, received;
static pthread_t receiver;

static void count(int number, siginfo_t *info, void *context)
{
	int expected = atomic_fetch_add(&got, 1);

	(void)number;
	(void)context;
	if (info->si_value.sival_int != expected)
		atomic_store(&disorder, 1);
}

static void tick(int number)
{
	(void)number;
	atomic_fetch_add(&ticks, 1);
}

static void *receive(void *unused)
{
	(void)unused;
	while (!atomic_load(&received))
		usleep(100);
	return NULL;
}

static void *send(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		union sigval value = { .sival_int = atomic_load(&sent) };

		/* EAGAIN when too many are queued already */
		if (pthread_sigqueue(receiver, SIGRTMIN + 1, value) == 0)
			atomic_fetch_add(&sent, 1);
		if (atomic_load(&sent) % 64 == 0)
			usleep(200);
	}
	return NULL;
}

int main(void)
{
	struct sigaction queued = { .sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction timer = { .sa_handler = tick, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 700 }, { 0, 700 } };
	pthread_t sender;

	sigaction(SIGRTMIN + 1, &queued, NULL);
	sigaction(SIGALRM, &timer, NULL);
	pthread_create(&receiver, NULL, receive, NULL);
	pthread_create(&sender, NULL, send, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	wait_for_end();
	atomic_store(&stop, 1);
	pthread_join(sender, NULL);
	/* what is on its way to a thread that ends is lost */
	for (int i = 0; i < 10000 && atomic_load(&got) < atomic_load(&sent); i++)
		usleep(1000);
	atomic_store(&received, 1);
	pthread_join(receiver, NULL);
	printf("sent %d got %d ticks %d%s\n", sent, got, ticks > 0, disorder ? " in disorder" : "");
	return disorder || sent != got;
}
