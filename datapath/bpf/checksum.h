/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One's complement sums (RFC 1071) of 32-bit words in memory order, and
 * incremental updates of them (RFC 1624). */
#ifndef OXP_CHECKSUM_H
#define OXP_CHECKSUM_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

/* Adds the sum to itself with its halves swapped: the carry of the lower halves
 * lands where one's complement needs it, and the upper half is the result. */
static __always_inline __u16 fold(__u64 sum)
{
	__u32 half;

	sum += sum >> 32 | sum << 32;
	half = sum >> 32;
	half += half >> 16 | half << 16;
	return half >> 16;
}

static __always_inline __u16 fold_32(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/*
 * The checksum after words with the sum `was` became words with the sum `is`.
 * Only for data that cannot become all zeroes, which is true wherever the
 * checksum covers a version, a protocol or a length: the checksum of zeroes is
 * 0xffff, but this returns 0, the checksum of all other multiples of 0xffff.
 */
static __always_inline __u16 corrected(__u16 checksum, __u64 was, __u64 is)
{
	return ~fold((__u64)(__u16)~checksum + (__u16)~fold(was) + fold(is));
}

#endif
