// SPDX-License-Identifier: Apache-2.0
/*
 * Loaded before libfaketime, which computes a sleep until a time of the
 * monotonic clock from its fake time of day also where it leaves the
 * monotonic clock alone: such a sleep, as each of Python's is, ends at once
 * with EINVAL. Here the kernel sleeps.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
		    struct timespec *left)
{
	int (*next)(clockid_t, int, const struct timespec *, struct timespec *);

	if (clock == CLOCK_MONOTONIC)
		return syscall(SYS_clock_nanosleep, clock, flags, until, left)
			       ? errno
			       : 0;
	next = (int (*)(clockid_t, int, const struct timespec *,
			struct timespec *))dlsym(RTLD_NEXT, "clock_nanosleep");
	return next(clock, flags, until, left);
}
