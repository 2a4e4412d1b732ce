// SPDX-License-Identifier: Apache-2.0
/* The clocks that the BPF programs and the library share. */
#include "clock.h"

#include <time.h>

uint64_t boot_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_BOOTTIME, &time);
	return time.tv_sec * 1000ULL + time.tv_nsec / 1000000;
}

uint64_t coarse_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}
