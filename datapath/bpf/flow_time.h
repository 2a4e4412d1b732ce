/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The time by which flows grow old: CLOCK_MONOTONIC_COARSE in units of 2^30 ns,
 * a little more than a second each. */
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
 * units_now(), up to 8 ticks of the kernel's (jiffies) late, of which there are
 * 100 to 1,000 a second: bpf_jiffies64() is a load, whereas the clock is a call
 * of the kernel's that calls others. `last` is for all CPUs: the upper half is
 * when the clock was asked, in ticks, the lower half what it said. Whoever
 * makes it writes the time into the lower half: in the ticks in which the
 * kernel's counter is 0 or a little more, minutes after boot, it seems to have
 * just been asked. A time that another CPU or the library has written may be
 * later.
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
