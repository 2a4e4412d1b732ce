/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The age of a time of which only the low bits were kept. All subtractions of
 * times use this function: a reader that has read the clock before another CPU
 * wrote the time finds a time in its own future. That has age 0, not the
 * greatest age.
 */
#ifndef OXP_AGE_SINCE_H
#define OXP_AGE_SINCE_H

#include <linux/types.h>

/* How far in the future a time may be, in units of 2^30 ns, and ... */
#define AGE_AHEAD 64
/* ... in milliseconds of 32 bits. */
#define AGE_AHEAD_MS 65536

/*
 * `mask` selects the bits that were kept; those above them in `then` are
 * ignored. Without branches, as the verifier would follow all their
 * combinations: the asm hides from the compiler what the sign is for.
 */
static inline __attribute__((always_inline)) __u64 age_since(__u64 then,
							     __u64 now,
							     __u64 mask,
							     __u64 ahead)
{
	__s64 age = (__s64)((now - then + ahead) & mask) - (__s64)ahead;
	__s64 is_to_come = age >> 63;

	asm volatile("" : "+r"(is_to_come));
	return age & ~is_to_come;
}

#endif
