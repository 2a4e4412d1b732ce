/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data of the current packet outside the stack: a packet passes through stages
 * that are called one after the other, and each has the whole stack.
 */
#ifndef OXP_NAT_WORK_H
#define OXP_NAT_WORK_H

#include "forward/drop.h"
#include "forward/nat/error.h"
#include "forward/nat/send.h"

/* The outer headers of a packet that a peer has handed on. */
struct nat_handed {
	__be32 origin[4]; /* the outer source: the first node */
	__u8 kind;        /* enum nat_handed_kind */
	__u8 hops;        /* number of nodes that have handed it on */
	__u8 v6;          /* family of the inner packet */
	__u8 place;       /* of the origin in the list of peers */
};

struct nat_work {
	struct packet packet;
	struct nat_exit exit;
	struct nat_error error;
	__u32 line;   /* of the service's block; 0: not looked up yet */
	__u32 number; /* of the flow */
	__u32 what;   /* enum nat_what */
	__u32 frame;  /* original length in bytes */
	__u8 begins;  /* the packet begins a flow */
	__u8 reserved[3];
	int action;       /* for a packet that is done */
	__be32 target[4]; /* the peer to send it to */
	/* kept when the inner packet is parsed */
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
	NAT_UNKNOWN, /* a flow must be created */
	NAT_GO_ON,
	NAT_INSIDE, /* a peer has handed on an inner packet */
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
