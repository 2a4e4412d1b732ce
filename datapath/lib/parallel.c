// SPDX-License-Identifier: Apache-2.0
/*
 * The same work many times, on all processors that we may run on. The threads
 * live for one call: they cost 30 us each, and nothing is left that a fork()
 * could lose or a destructor had to end.
 */
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define WORKERS_MAX 8

struct work {
	void (*function)(void *argument, uint32_t piece);
	void *argument;
	uint32_t count;
	uint32_t next;
};

static void *worker(void *argument)
{
	struct work *work = argument;
	uint32_t piece;

	for (;;) {
		piece = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
		if (piece >= work->count)
			return NULL;
		work->function(work->argument, piece);
	}
}

static uint32_t processors(void)
{
	cpu_set_t set;

	/* fails with more processors than the set has room for: one thread */
	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return CPU_COUNT(&set);
}

/* A thread is worth it for so many pieces. */
void run_in_parallel(uint32_t count, uint32_t pieces_each,
		     void (*function)(void *argument, uint32_t piece),
		     void *argument)
{
	struct work work = {function, argument, count, 0};
	uint32_t wanted = processors(), started = 0;
	pthread_t threads[WORKERS_MAX];
	sigset_t all, before;

	if (wanted > WORKERS_MAX)
		wanted = WORKERS_MAX;
	if (wanted > count / pieces_each)
		wanted = count / pieces_each;
	/* signals are for the threads of the program */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started + 1 < wanted &&
	       !pthread_create(&threads[started], NULL, worker, &work))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	worker(&work);
	while (started)
		pthread_join(threads[--started], NULL);
}
