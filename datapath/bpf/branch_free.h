/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Decisions without branches, whose combinations the verifier would follow. */
#ifndef OXP_BRANCH_FREE_H
#define OXP_BRANCH_FREE_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

/* Hides from the compiler that `bit` is 0 or 1. */
static __always_inline __u64 no_branch(__u64 bit)
{
	barrier_var(bit);
	return bit;
}

/* Returns 1 if left < right. */
static __always_inline __u64 is_less(__u64 left, __u64 right)
{
	return no_branch((left - right) >> 63);
}

static __always_inline __u64 chosen(__u64 bit, __u64 yes, __u64 no)
{
	return no ^ ((yes ^ no) & -bit);
}

static __always_inline __u64 is_zero(__u64 word)
{
	return no_branch(((word - 1) & ~word) >> 63);
}

#endif
