/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
	struct ms_workers *all;
	unsigned number;
	pthread_t thread;
};

struct ms_workers {
	unsigned n;
	pthread_mutex_t lock;
	pthread_cond_t begun;
	pthread_cond_t done;
	unsigned long round; /* pieces of work begun so far */
	unsigned busy;       /* threads that are not done with this round */
	bool over;

	/* the present piece of work */
	void (*body)(void *ctx, unsigned worker, size_t item);
	void *ctx;
	size_t n_items;
	atomic_size_t next;

	cpu_set_t before;                 /* processors of the caller */
	struct worker at[MS_WORKERS_MAX]; /* the first is the caller */
};

static void take_items(struct ms_workers *workers, unsigned number)
{
	size_t item;

	while ((item = atomic_fetch_add(&workers->next, 1)) < workers->n_items)
		workers->body(workers->ctx, number, item);
}

static void *serve(void *arg)
{
	struct worker *self = arg;
	struct ms_workers *all = self->all;

	(void)pthread_mutex_lock(&all->lock);
	if (!--all->busy)
		(void)pthread_cond_signal(&all->done);
	for (unsigned long seen = 0;;) {
		while (all->round == seen && !all->over)
			(void)pthread_cond_wait(&all->begun, &all->lock);
		if (all->over)
			break;
		seen = all->round;
		(void)pthread_mutex_unlock(&all->lock);
		take_items(all, self->number);
		(void)pthread_mutex_lock(&all->lock);
		if (!--all->busy)
			(void)pthread_cond_signal(&all->done);
	}
	(void)pthread_mutex_unlock(&all->lock);
	return NULL;
}

static void wait_until_idle(struct ms_workers *workers)
{
	(void)pthread_mutex_lock(&workers->lock);
	while (workers->busy)
		(void)pthread_cond_wait(&workers->done, &workers->lock);
	(void)pthread_mutex_unlock(&workers->lock);
}

/*
 * Give each worker a processor of its own, when there are enough. Left to itself, the
 * kernel wakes a worker where the caller runs, and may take a tenth of a second to move
 * it: longer than most work takes. A slow processor does no harm: its worker takes
 * fewer items.
 */
static void spread(struct ms_workers *workers)
{
	int here = sched_getcpu();
	size_t processor = here < 0 ? 0 : (size_t)here;
	cpu_set_t all = workers->before;

	if (CPU_COUNT(&all) < (int)workers->n)
		return;
	for (unsigned i = 0; i < workers->n; i++) {
		cpu_set_t own;

		while (!CPU_ISSET(processor, &all))
			processor = (processor + 1) % CPU_SETSIZE;
		CPU_ZERO(&own);
		CPU_SET(processor, &own);
		(void)pthread_setaffinity_np(i ? workers->at[i].thread : pthread_self(),
		                             sizeof(own), &own);
		CPU_CLR(processor, &all);
	}
}

enum ms_status ms_workers_start(unsigned n, struct ms_workers **ret, struct ms_error *err)
{
	struct ms_workers *workers = calloc(1, sizeof(*workers));
	sigset_t all, mask;
	int error = 0;

	if (!workers)
		return ms_fail(err, MS_E_NOMEM, "no memory for %u workers", n);
	(void)sched_getaffinity(0, sizeof(workers->before), &workers->before);
	(void)pthread_mutex_init(&workers->lock, NULL);
	(void)pthread_cond_init(&workers->begun, NULL);
	(void)pthread_cond_init(&workers->done, NULL);
	workers->n = 1;
	/* Signals are the caller's. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &mask);
	for (; workers->n < n && !error; workers->n += !error) {
		struct worker *w = &workers->at[workers->n];

		*w = (struct worker){ .all = workers, .number = workers->n };
		(void)pthread_mutex_lock(&workers->lock);
		error = pthread_create(&w->thread, NULL, serve, w);
		workers->busy += !error;
		(void)pthread_mutex_unlock(&workers->lock);
	}
	(void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
	wait_until_idle(workers);
	if (error) {
		ms_workers_stop(workers);
		return ms_fail_sys(err, error, "starting %u workers", n);
	}
	spread(workers);
	*ret = workers;
	return MS_OK;
}

void ms_workers_stop(struct ms_workers *workers)
{
	(void)pthread_mutex_lock(&workers->lock);
	workers->over = true;
	(void)pthread_cond_broadcast(&workers->begun);
	(void)pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 1; i < workers->n; i++)
		(void)pthread_join(workers->at[i].thread, NULL);
	(void)sched_setaffinity(0, sizeof(workers->before), &workers->before);
	(void)pthread_cond_destroy(&workers->begun);
	(void)pthread_cond_destroy(&workers->done);
	(void)pthread_mutex_destroy(&workers->lock);
	free(workers);
}

unsigned ms_workers_count(const struct ms_workers *workers)
{
	return workers ? workers->n : 1;
}

void ms_workers_run(struct ms_workers *workers, size_t n_items,
                    void (*body)(void *ctx, unsigned worker, size_t item), void *ctx)
{
	if (!workers || workers->n == 1 || n_items <= 1) {
		for (size_t i = 0; i < n_items; i++)
			body(ctx, 0, i);
		return;
	}
	(void)pthread_mutex_lock(&workers->lock);
	workers->body = body;
	workers->ctx = ctx;
	workers->n_items = n_items;
	atomic_store(&workers->next, 0);
	workers->busy = workers->n - 1;
	workers->round++;
	(void)pthread_cond_broadcast(&workers->begun);
	(void)pthread_mutex_unlock(&workers->lock);
	take_items(workers, 0);
	wait_until_idle(workers);
}

unsigned ms_workers_wanted(void)
{
	cpu_set_t set;
	int n = 1;

	if (!sched_getaffinity(0, sizeof(set), &set))
		n = CPU_COUNT(&set);
	return n < MS_WORKERS_MAX ? (unsigned)n : MS_WORKERS_MAX;
}
