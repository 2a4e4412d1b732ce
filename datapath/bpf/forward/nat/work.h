/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of the packet in hand, beside the stack: a packet goes through
 * stages, one called after the other, and each has the stack for itself.
 */
#ifndef OXP_NAT_WORK_H
#define OXP_NAT_WORK_H

#include "forward/drop.h"
#include "forward/nat/error.h"
#include "forward/nat/send.h"

/* A packet that a peer has handed on: what its outer headers said. */
struct nat_handed {
	__be32 origin[4]; /* the outer source: of the first node */
	__u8 kind;        /* enum nat_handed_kind */
	__u8 hops;        /* nodes that have handed it on */
	__u8 v6;          /* the packet itself */
	__u8 place;       /* of the origin, among the peers */
};

struct nat_work {
	struct packet packet;
	struct nat_exit exit;
	struct nat_error error;
	__u32 line;   /* of the service's block; 0: not asked yet */
	__u32 number; /* of the flow */
	__u32 what;   /* enum nat_what */
	__u32 frame;  /* bytes as it came */
	__u8 begins;  /* a flow */
	__u8 reserved[3];
	int action;       /* of a packet that is done */
	__be32 target[4]; /* the peer that it goes on to */
	/* stays when the packet inside is looked at */
	struct nat_handed handed;
};

_Static_assert(sizeof(struct nat_work) <=
		       sizeof(((struct nat_scratch *)0)->words),
	       "room");

static __always_inline struct nat_work *nat_work_in_hand(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&nat_scratch, &only);
}

enum nat_stage {
	NAT_DONE,    /* work->action */
	NAT_UNKNOWN, /* a flow is to begin */
	NAT_GO_ON,
	NAT_INSIDE, /* another packet is inside, which a peer has handed on */
};

static __always_inline int nat_end(struct nat_work *work, int action)
{
	work->action = action;
	return NAT_DONE;
}

static __always_inline int nat_drop(struct nat_work *work, __u32 outcome)
{
	const struct nat_flow *flow = nat_flow_at(work->number);

	if (flow)
		count_drop(flow->service);
	count_bytes(outcome, work->frame);
	return nat_end(work, XDP_DROP);
}

#endif
