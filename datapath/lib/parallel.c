// SPDX-License-Identifier: Apache-2.0
/*
 * Run the same function many times on all processors that we may use. The
 * threads live for one call: starting one costs 30 us, and nothing remains that
 * a fork() could lose or that a destructor would have to stop.
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

	/* more processors than fit in the set: use one thread */
	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return CPU_COUNT(&set);
}

/* Start a further thread only for every `pieces_each` pieces. */
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
	/* signals must reach the program's own threads */
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
