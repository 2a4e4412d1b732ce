/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a hypervisor's programs (bpf/host) and its library (host) share: the
 * maps, which are pinned and outlive both.
 *
 * Addresses are struct ip_address; ports of packets are in network byte order
 * unless a field says otherwise.
 *
 *   settings   ARRAY of 1, mapped      struct host_settings
 *   keys       HASH     __u32 key, host byte order     __u32 place
 *   entries    ARRAY, mapped           struct host_entry, by place
 *   ports      ARRAY, mapped           struct host_port, by place
 *   rules      ARRAY, mapped           struct host_rules, 2 * port + which
 *   listeners  HASH     struct host_listener_key       struct host_listener
 *   networks   LPM_TRIE struct host_network            __u32, 1: of LB nodes
 *   peers      LPM_TRIE struct host_network            __u32, 1: of other
 *                                                      hypervisors
 *   sets       LPM_TRIE struct host_set_network        __u8, enum host_set_is
 *   fragments  ARRAY                   struct host_fragment_set
 *   flows      ARRAY, mapped           struct host_flow_set
 *   half_open  ARRAY, mapped           struct host_flow_set
 *   flow_clients, half_open_clients
 *              ARRAY, mapped           struct host_clients, by set
 *   usual_flows
 *              ARRAY, mapped           struct host_usual_flows, by set of
 *                                      flows
 *   counters   PERCPU_ARRAY            struct host_counters, by place
 *   outcomes   PERCPU_ARRAY            __u64, by enum host_outcome
 *   drops      LRU_HASH struct host_drop_key           __u64
 *   traced     RINGBUF                 struct host_traced
 */
#ifndef OXP_HOST_H
#define OXP_HOST_H

#include <linux/types.h>

#include "ip_address.h"
#include "share_set.h"

/* Grows with each change of the maps. */
#define HOST_LAYOUT 7

#define HOST_GENEVE_PORT 6081
#define HOST_GENEVE_HEADER 8 /* bytes, without options */

/* What the NIC's program sends to a tap bears it, so that the tap's egress
 * tells it from what came another way. */
#define HOST_MARK 0x6f78686f

/* A network of LB nodes. */
struct host_nodes {
	__u64 address[2]; /* as in struct ip_address; masked already */
	__u64 mask[2];
};
#define HOST_NODES_MAX 4

struct host_settings {
	__u32 layout;
	__u32 reply_ifindex; /* answers leave by it; 0: nothing is sent */
	__be32 local_v4;     /* destination of Geneve over IPv4; 0: none */
	__be32 local_v6[4];  /* the same over IPv6; all zeroes: none */
	__be32 sid[3];       /* of the hypervisor's /96; all zeroes: none */
	/* Units of time, as all of these. A unit is so much more than a second
	 * that as many, less the sixteenth that a refresh may be late, are no
	 * fewer seconds. */
	__u32 tcp_idle;
	__u32 udp_idle;
	__u32 closing_idle; /* after FIN or RST */
	__u32 half_open_idle;
	__u32 flow_sets; /* of flows, a power of two, as all of these */
	__u32 half_open_sets;
	__u32 traced_port; /* place + 1; 0: nothing is traced; all ones: all */
	__u32 nodes_count; /* of `nodes` */
	__u64 seed[2];     /* secret: names flows */
	/* Some of what is in `networks`: most sources are found here. Written
	 * while nodes_count is 0 and no packet reads. */
	struct host_nodes nodes[HOST_NODES_MAX];
};

enum host_entry_state {
	HOST_ENTRY_FREE,
	HOST_ENTRY_USED,
	/* No packet finds it any more, its flows may still be there: whoever
	 * changes entries next ends what the library was killed in. */
	HOST_ENTRY_GOING,
};

/* A listener at a member. What names it, all but `macs`, `mss` and `reply_mtu`,
 * stays as it is as long as it is in use. */
struct host_entry {
	struct ip_address vip;
	struct ip_address fixed;
	__be16 vip_port;
	__be16 port; /* of the member */
	__u8 protocol;
	__u8 used; /* enum host_entry_state */
	__u16 reserved0;
	__u32 key;
	__u32 host_port; /* place of the port */
	__u8 macs[12];   /* the VM's, then the gateway's */
	__u16 mss;       /* for what the VM offers; 0: as it is */
	__u16 reply_mtu; /* the kernel is asked whether larger answers fit */
};

#define HOST_RULES_MAX 128

enum host_port_flag {
	HOST_PORT_USED = 1,
	HOST_PORT_OPEN = 2, /* port security is off */
};

struct host_port {
	__u8 id[16];   /* the port's UUID */
	__u32 ifindex; /* of its tap; 0: it is not here */
	__u32 flags;
	__u32 flows; /* confirmed ones; packets count, the library corrects */
	__u32 flows_max;
	__u16 generation; /* of rules, in HOST_GENERATION_MASK */
	__u16 which;      /* of the two places in `rules` is in use */
	__u32 answers_at; /* unit of time of the last ICMP to its VM */
	__u32 answers;    /* that it got in this unit */
	/* HOST_AWAITED: the tap has come, nothing of its VM was seen yet; else
	 * the unit of time, not masked, with which the VM has arrived, and 0
	 * from then on */
	__u32 arrives_until;
	__u32 reserved[4];
};

#define HOST_AWAITED 0xffffffff
/* In which the flows come that another hypervisor has sent of a VM that moves.
 */
#define HOST_ARRIVAL_UNITS 64

/* ICMP that a VM gets of what was too big, at most, in a unit of time. */
#define HOST_ANSWERS_MAX 100

/* Whoever it lets in may open flows. */
struct host_rule {
	__u64 address[2]; /* as in struct ip_address; masked already */
	__u64 mask[2];
	__u32 set;      /* a number in `sets`; 0: address and mask */
	__u16 port_min; /* host byte order */
	__u16 port_max;
	__u8 protocol; /* 0: each */
	__u8 family;   /* 4, 6 */
	__u8 reserved[6];
};

struct host_rules {
	__u32 count;
	__u32 reserved;
	struct host_rule rule[HOST_RULES_MAX];
};

struct host_listener_key {
	__u32 ifindex;
	__be16 port;
	__u8 protocol;
	__u8 reserved;
	struct ip_address fixed;
};

struct host_listener {
	__u32 place; /* of one of the entries */
	__u32 count; /* how many share this port of the member */
};

struct host_network {
	__u32 bits; /* of the 128; host byte order */
	struct ip_address address;
};

/* Values in `sets`. */
enum host_set_is {
	HOST_SET_ANY = 1,
	HOST_SET_IPV6 = 2, /* so short a prefix that mapped IPv4 has it too */
};

struct host_set_network {
	__u32 bits; /* 32 of the set's, and those of the address */
	__be32 set;
	struct ip_address address;
};

/*
 * First fragments that VMs sent: later ones have no ports. A port has a share
 * of each set. The tag is the name (bpf/host/hash.h) of a flow whose ports are
 * the halves of the datagram's id, and whose host port the tap's ifindex; its
 * low bits choose the set. A state is as in share_set.h: the owner is the
 * port's place, and what it is the entry's place, or HOST_NO_PLACE: being
 * written.
 */
#define HOST_FRAGMENT_SETS 1024
#define HOST_FRAGMENT_AGE_MAX 57221 /* 60 s: RFC 8200, section 4.5 */

struct host_fragment_set {
	__u64 tag[SHARE_WAYS];
	__u64 state[SHARE_WAYS];
};

/*
 * Flows. A set is two cache lines with four flows each. A bit of a flow's tag
 * says which line it takes a place of if there is one. Clients' addresses are
 * apart, for whoever lists flows.
 * The tag is a keyed hash of all that names the flow (bpf/host/hash.h), 56
 * bits of which strangers know nothing, so that it stands for the flow. Its
 * low bits choose the set; in half_open the port does, in part, so that a
 * flood to one port has no more than its share.
 *
 * A state is one word, which CPUs exchange; 0 is a free place:
 *   bits 63-48  the client's port, network byte order
 *        47-34  generation of the port's rules that let it in
 *        33-20  time of the last refresh, units of 2^30 ns: a confirmed
 *               flow that only goes on is refreshed when it is older than a
 *               sixteenth of the time after which it would be over
 *        19-16  enum host_flow_flag
 *        15-0   the entry's place, or HOST_NO_PLACE: being written
 * A place is taken by writing HOST_NO_PLACE; tag, client and state follow in
 * this order. Who finds a tag reads the state, and the tag once more.
 */
#define HOST_FLOW_WAYS 8
#define HOST_LINE_WAYS 4
/* A port has some, or many, if it has more than such a part of all places. */
#define HOST_SOME_FLOWS 1024
#define HOST_MANY_FLOWS 128
#define HOST_TAG_BITS 56
#define HOST_FLOW_PORT_SHIFT 48
#define HOST_FLOW_GENERATION_SHIFT 34
#define HOST_GENERATION_MASK 0x3fff
#define HOST_FLOW_TIME_SHIFT 20
#define HOST_FLOW_TIME_MASK 0x3fff
#define HOST_FLOW_AGE_MAX 16000 /* ages are known modulo the mask */
#define HOST_FLOW_PLACE_MASK 0xffff
#define HOST_NO_PLACE 0xffff

enum host_flow_flag {
	HOST_FLOW_ANSWERED = 1 << 16, /* the VM has */
	HOST_FLOW_DIRECT = 2 << 16,   /* came another way: half_open only */
	HOST_FLOW_CLOSING = 4 << 16,  /* FIN or RST was seen */
	HOST_FLOW_DATAGRAM = 8 << 16, /* not TCP */
};

struct host_flow_line {
	__u64 tag[HOST_LINE_WAYS];
	__u64 state[HOST_LINE_WAYS];
};

struct host_flow_set {
	struct host_flow_line line[HOST_FLOW_WAYS / HOST_LINE_WAYS];
};

/* Of the flows of a set. */
struct host_clients {
	struct ip_address client[HOST_FLOW_WAYS];
};

/*
 * Confirmed flows that simply go on: a line for each set of `flows`, of which
 * nearly all packets read nothing else. A flow that has no place here, of its
 * first set's, is found in `flows`.
 *   bits 63-56  0: programs write it to the first word, to have the line before
 *               they look at it (bpf/host/usual_flows.h)
 *        55-16  of the tag those above its 16 lowest, which the number of the
 *               line stands for in part, combined by exclusive or with place
 *               and generation of the flow's state
 *        15-2   the state's time: good for a sixteenth of what the flow may be
 *               idle
 *        1-0    enum host_usual_flag; a free place is 0
 * It is written after the state, which is read again then, and goes after the
 * state has changed: whatever is here was true of the state a moment ago.
 */
#define HOST_USUAL_WAYS 8
#define HOST_USUAL_NAME_SHIFT 16
#define HOST_USUAL_TIME_SHIFT 2
#define HOST_LATE_REFRESH_SHIFT 4
/* Where in a word the byte is that is 0. */
#define HOST_USUAL_ZERO (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 7 : 0)

enum host_usual_flag {
	HOST_USUAL_USED = 1,
	HOST_USUAL_DATAGRAM = 2, /* HOST_FLOW_DATAGRAM */
};

struct host_usual_flows {
	__u64 word[HOST_USUAL_WAYS];
};

/* What a word has of the flow, with zeroes below. */
static inline __u64 host_usual_name(__u64 tag, __u32 place, __u32 generation)
{
	return (tag >> 16 ^ place ^ (__u64)generation << 16)
	       << HOST_USUAL_NAME_SHIFT;
}

/* Whether the word is of the flow; a free place may seem to be. */
static inline int host_usual_is(__u64 word, __u64 name)
{
	return !((word ^ name) >> HOST_USUAL_NAME_SHIFT);
}

static inline __u64 *host_tag(struct host_flow_set *set, __u32 way)
{
	return &set->line[way / HOST_LINE_WAYS].tag[way % HOST_LINE_WAYS];
}

static inline __u64 *host_state(struct host_flow_set *set, __u32 way)
{
	return &set->line[way / HOST_LINE_WAYS].state[way % HOST_LINE_WAYS];
}

/* The sets of `flows` in which a flow may be; `sets` is their number. Their
 * bits and that of the line are not the same ones. */
static inline __u32 host_first_set(__u64 tag, __u32 sets)
{
	return tag & (sets - 1);
}

static inline __u32 host_second_set(__u64 tag, __u32 sets)
{
	return tag >> 31 & (sets - 1);
}

/* The line of `flows` that is the tag's. */
static inline __u32 host_line(__u64 tag)
{
	return tag >> (HOST_TAG_BITS - 1);
}

/*
 * Ports may have more flows together than there are places: the last places of
 * a set of `flows` are for ports with few. How many of those that could be
 * taken a port with so many flows leaves.
 */
static inline __u32 host_kept_places(__u32 flows, __u32 sets)
{
	__u32 places = sets * HOST_FLOW_WAYS;

	return (flows > places / HOST_SOME_FLOWS) +
	       (flows > places / HOST_MANY_FLOWS);
}

/* Half-open flows of a port lie in one of so many parts of the table. */
#define HOST_HALF_OPEN_PARTS 16

struct host_counters {
	__u64 packets_in, bytes_in; /* bytes of the inner IP packet */
	__u64 packets_out, bytes_out;
	__u64 flows; /* that began */
	__u64 drops;
};

struct host_drop_key {
	__u32 host_port; /* place */
	__u32 outcome;   /* enum host_outcome */
};

enum host_hook {
	HOST_NIC,
	HOST_TAP_IN,
	HOST_TAP_OUT,
	HOST_HOOKS
};

enum host_outcome {
#define OXP_HOST_OUTCOME(name, number, kind, text) HOST_##name = number,
#include "enumerations.h"
	HOST_OUTCOMES
};

#define HOST_TRACED_BYTES 96
struct host_traced {
	__u64 time; /* ns, monotonic */
	__u32 hook;
	__u32 outcome;
	__u32 ifindex;
	__u32 key; /* 0: none */
	__u32 host_port;
	__u32 length; /* of the frame; after the program */
	__u8 data[HOST_TRACED_BYTES];
};

#endif
