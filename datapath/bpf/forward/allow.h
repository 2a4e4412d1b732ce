/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * allowed_cidrs: the block that the packet reads refers to its list of
 * networks, so that both change together. See struct network_list.
 */
#ifndef OXP_ALLOW_H
#define OXP_ALLOW_H

#include "forward/block.h"
#include "forward/parse.h"
#include "forward/record.h"

/* The direction of a search is unpredictable, so this uses arithmetic instead
 * of branches, hidden from the compiler. Shifts, because for the verifier
 * (since Linux 6.16) an "and" with 0 or -1 is two paths, which double with each
 * step. */
static __always_inline __u64 top_bit(__u64 word)
{
	word >>= 63;
	barrier_var(word);
	return word;
}

/* Returns 1 if left < right. */
static __always_inline __u64 is_below(__u64 left, __u64 right)
{
	return top_bit((~left & right) | ((~left | right) & (left - right)));
}

static __always_inline __u64 is_below_v6(const struct bound_v6 *left,
					 const struct bound_v6 *right)
{
	__u64 differ = left->high ^ right->high;
	__u64 same = top_bit((differ - 1) & ~differ);

	return is_below(left->high, right->high) |
	       (same & is_below(left->low, right->low));
}

/* How many bounds of the list at `offset` are below the address. */
static __always_inline __u32 bounds_below_v4(void *segment, __u32 offset,
					     __u32 steps, __u64 address)
{
	__u32 below = 0;

	for (__u32 i = 0; i < BOUNDS_STEPS; i++) {
		__u64 bound;

		if (!steps)
			break;
		steps--;
		bound = *(const __u32 *)in_segment(
			segment,
			offset + (below + (1U << steps) - 1) * sizeof(__u32),
			sizeof(__u32));
		/* both have 32 bits: the difference's sign is in bit 63 */
		below += top_bit(bound - address) << steps;
	}
	return below;
}

static __always_inline __u32 bounds_below_v6(void *segment, __u32 offset,
					     __u32 steps,
					     const struct bound_v6 *address)
{
	__u32 below = 0;

	for (__u32 i = 0; i < BOUNDS_STEPS; i++) {
		const struct bound_v6 *bound;

		if (!steps)
			break;
		steps--;
		bound = in_segment(segment,
				   offset + (below + (1U << steps) - 1) *
						    sizeof(*bound),
				   sizeof(*bound));
		below += is_below_v6(bound, address) << steps;
	}
	return below;
}

static __always_inline __u64 two_words(const __be32 *word)
{
	return (__u64)bpf_ntohl(word[0]) << 32 | bpf_ntohl(word[1]);
}

/* Separate functions keep the stack of the fast path small. */
__noinline int is_inside_v4(__u32 line, __u32 address)
{
	__u32 offset = line % SEGMENT_LINES * LINE_SIZE;
	void *segment = find_segment(line);
	const struct network_list *list;
	__u32 inside;

	if (!segment)
		return false;
	list = in_segment(segment, offset, LINE_SIZE);
	inside = (list->inside_v4 + bounds_below_v4(segment, offset + BOUNDS_V4,
						    list->steps_v4, address)) &
		 1;
	RECORD(ALLOWED, inside);
	return inside;
}

__noinline int is_inside_v6(__u32 line, __u64 high, __u64 low)
{
	const struct bound_v6 address = {high, low};
	__u32 offset = line % SEGMENT_LINES * LINE_SIZE;
	void *segment = find_segment(line);
	const struct network_list *list;
	__u32 inside;

	if (!segment)
		return false;
	list = in_segment(segment, offset, LINE_SIZE);
	inside = (list->inside_v6 + bounds_below_v6(segment,
						    offset + list->bounds_v6,
						    list->steps_v6, &address)) &
		 1;
	RECORD(ALLOWED, inside);
	return inside;
}

/* `source` is the last word of the address for IPv4, else all four. */
static __always_inline bool is_allowed(const __be32 *source, bool v6,
				       __u32 line)
{
	return v6 ? is_inside_v6(line, two_words(source), two_words(source + 2))
		  : is_inside_v4(line, bpf_ntohl(*source));
}

#endif
