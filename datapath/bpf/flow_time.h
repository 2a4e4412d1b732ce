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

#endif
