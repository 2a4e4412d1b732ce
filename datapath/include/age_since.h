/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long ago something was, of which only the low bits of its time were kept.
 * Nothing else subtracts times: who has read the clock, and is late, finds what
 * others have written since, whose time is still to come for him. It is 0 old,
 * and not as old as anything can be.
 */
#ifndef OXP_AGE_SINCE_H
#define OXP_AGE_SINCE_H

#include <linux/types.h>

/* So far ahead a time may be, in units of 2^30 ns, and ... */
#define AGE_AHEAD 64
/* ... in milliseconds of 32 bits. */
#define AGE_AHEAD_MS 65536

/*
 * `mask`: the bits that were kept; those above them in `then` are no matter.
 * Without branches, whose combinations the verifier would all follow: the
 * compiler must not see what the sign is for.
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
