/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A library to be dlopen'ed by tests/targets/roots.c: a pointer in its data,
 * one in each thread's dynamic thread-local storage. It needs no libc.
 */
static int filler;
static void *volatile in_data = &filler;
static __thread void *volatile in_tls[1000];

void holder_set_data(void *p);
void holder_set_tls(void *p);

void holder_set_data(void *p)
{
	in_data = p;
}

void holder_set_tls(void *p)
{
	in_tls[700] = p;
}
