/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet with its selected member: all that is needed to send it. */
#ifndef OXP_SELECTED_H
#define OXP_SELECTED_H

#include "forward/parse.h"
#include "outer.h"

/* Passed by reference to separate functions, so it has no holes. */
struct selected {
	__u64 head;
	__u32 block;       /* the block's line */
	__u16 member;      /* index within the service */
	__u16 alternative; /* index plus 1; 0: none */
	__u32 entropy;
	__u32 l3; /* offsets, as in struct packet */
	__u32 l4;
	__u8 protocol;
	__u8 v6;
	__u8 kind;      /* enum packet_kind */
	__u8 amid_flow; /* 0: the packet opens a flow */
};

/* Offset of the transport's header of a packet on the fast path, whose `l4` is
 * not set. Recomputed where needed, which few packets do: computed once for all
 * it would be kept on the stack. */
static __always_inline __u32 plain_l4_of(const struct selected *selected)
{
	__u32 l3 = selected->l3;

	barrier_var(l3);
	return l3 +
	       (selected->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

static __always_inline bool is_outer_v6_of(const struct selected *selected,
					   __u32 outer_type)
{
	return outer_type == OUTER_NONE ? selected->v6
					: is_outer_v6(outer_type);
}

#endif
