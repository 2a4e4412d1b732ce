/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The clock for ages of flows: CLOCK_MONOTONIC_COARSE in units of 2^30 ns, a
 * little more than a second each. */
#ifndef OXP_FLOW_TIME_H
#define OXP_FLOW_TIME_H

#include "map_types.h"

#define TIME_UNIT_SHIFT 30

static __always_inline __u32 units_now(void)
{
	return bpf_ktime_get_coarse_ns() >> TIME_UNIT_SHIFT;
}

#define ASKED_AGAIN_AFTER 8

/*
 * units_now(), up to 8 kernel ticks (jiffies) late, of which there are 100 to
 * 1,000 a second: bpf_jiffies64() is a load, whereas the clock is a nested call
 * into the kernel. `last` is shared by all CPUs: the upper half is the tick at
 * which the clock was read, the lower half the time it returned. It must be
 * initialised with the time in the lower half: minutes after boot, while the
 * kernel's counter of ticks is 0 or little more, the clock seems to have just
 * been read. A time that another CPU or the library has written may be later.
 */
static __always_inline __u32 recent_units(__u64 *last)
{
	__u64 asked = READ_ONCE(*last);
	__u32 tick = bpf_jiffies64(), now;

	if (tick - (__u32)(asked >> 32) < ASKED_AGAIN_AFTER)
		return asked;
	now = units_now();
	WRITE_ONCE(*last, (__u64)tick << 32 | now);
	return now;
}

#endif
