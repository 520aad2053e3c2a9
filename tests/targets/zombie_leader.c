/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The main thread has ended and stays behind as a zombie; another thread goes
 * on. /proc/PID/maps is empty then. See truth.h.
 */
#include "truth.h"

#include <pthread.h>

static void *volatile held;

static void *go_on(void *unused)
{
	(void)unused;
	usleep(50000); /* until main has ended */
	held = fresh(100);
	tell("live", held);
	leak(100);
	leak(300000);
	ready();
	return NULL;
}

int main(void)
{
	pthread_t id;

	leak(50);
	if (pthread_create(&id, NULL, go_on, NULL) != 0)
		return 97;
	id = 0;
	forget();
	pthread_exit(NULL);
}
