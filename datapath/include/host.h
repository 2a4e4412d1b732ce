/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by a hypervisor's programs (bpf/host) and its library (host): the
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
 *   proxies    LPM_TRIE struct host_network            __u32, 1: of proxy
 *                                                      nodes
 *   peers      LPM_TRIE struct host_network            __u32, 1: of other
 *                                                      hypervisors
 *   sets       LPM_TRIE struct host_set_network        __u8, enum host_set_is
 *   fragments  ARRAY                   struct host_fragment_set
 *   flows      ARRAY, mapped           struct host_flow_set
 *   half_open  ARRAY, mapped           struct host_flow_set
 *   flow_clients, half_open_clients
 *              ARRAY, mapped           struct host_clients, by set
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

/* Increase with each change of the maps. */
#define HOST_LAYOUT 10

#define HOST_GENEVE_PORT 6081
#define HOST_GENEVE_HEADER 8 /* bytes, without options */

/* Mark of packets that the NIC's program sends to a tap; the tap's egress
 * program recognises them by it. */
#define HOST_MARK 0x6f78686f

/* A network of LB nodes. */
struct host_nodes {
	__u64 address[2]; /* as in struct ip_address; masked already */
	__u64 mask[2];
};
#define HOST_NODES_MAX 4

struct host_settings {
	__u32 layout;
	__u32 reply_ifindex; /* interface for replies; 0: none are sent */
	__be32 local_v4;     /* destination of Geneve over IPv4; 0: none */
	__be32 local_v6[4];  /* the same over IPv6; all zeroes: none */
	__be32 sid[3];       /* of the hypervisor's /96; all zeroes: none */
	/* Idle times, in units of 2^30 ns. Such a unit exceeds a second by more
	 * than the sixteenth by which a refresh may be late, so that n units
	 * last at least n seconds. */
	__u32 tcp_idle;
	__u32 udp_idle;
	__u32 closing_idle; /* after FIN or RST */
	__u32 half_open_idle;
	__u32 flow_sets; /* of flows, a power of two; so is half_open_sets */
	__u32 half_open_sets;
	__u32 traced_port; /* place + 1; 0: none; all ones: all ports */
	__u32 nodes_count; /* in `nodes` */
	__u64 seed[2];     /* secret: keys the names of flows */
	/* A subset of `networks`, in which most sources are found. Written
	 * while nodes_count is 0 and no packet reads it. */
	struct host_nodes nodes[HOST_NODES_MAX];
};

enum host_entry_state {
	HOST_ENTRY_FREE,
	HOST_ENTRY_USED,
	/* Packets no longer find it, but its flows may remain: the next change
	 * of entries completes a deletion that the library did not survive. */
	HOST_ENTRY_GOING,
};

/* A listener at a member. All fields but `macs`, `mss` and `reply_mtu` identify
 * it and do not change while it is in use. */
struct host_entry {
	struct ip_address vip;
	struct ip_address fixed;
	__be16 vip_port;
	__be16 port; /* of the member */
	__u8 protocol;
	__u8 used; /* enum host_entry_state */
	__u16 reserved0;
	__u32 key;
	__u32 host_port; /* place of its port */
	__u8 macs[12];   /* the VM's, then the gateway's */
	__u16 mss;       /* limit for the MSS that the VM offers; 0: none */
	__u16 reply_mtu; /* larger replies: ask the kernel whether they fit */
};

#define HOST_RULES_MAX 128

enum host_port_flag {
	HOST_PORT_USED = 1,
	HOST_PORT_OPEN = 2, /* port security is off */
};

struct host_port {
	__u8 id[16];   /* the port's UUID */
	__u32 ifindex; /* of its tap; 0: not on this hypervisor */
	__u32 flags;
	__u32 flows; /* confirmed; packets count, the library corrects */
	__u32 flows_max;
	__u16 generation; /* of rules, in HOST_GENERATION_MASK */
	__u16 which;      /* which of its two places in `rules` is in use */
	__u32 answers_at; /* unit of time of the last ICMP to the VM */
	__u32 answers;    /* ICMP messages in this unit */
	/* HOST_AWAITED: the tap has appeared, but the VM has not sent anything
	 * yet. Then the unit of time, not masked, until which the VM counts as
	 * arriving; 0 after that. */
	__u32 arrives_until;
	__u32 reserved[4];
};

#define HOST_AWAITED 0xffffffff
/* Time for another hypervisor to send the flows of a VM that moves here. */
#define HOST_ARRIVAL_UNITS 64

/* Maximum ICMP messages about too big packets to a VM, per unit of time. */
#define HOST_ANSWERS_MAX 100

/* Flows that may be opened. */
struct host_rule {
	__u64 address[2]; /* as in struct ip_address; masked already */
	__u64 mask[2];
	__u32 set;      /* a number in `sets`; 0: use address and mask */
	__u16 port_min; /* host byte order */
	__u16 port_max;
	__u8 protocol; /* 0: any */
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
	__u32 count; /* entries that share this port of the member */
};

struct host_network {
	__u32 bits; /* prefix length, of 128; host byte order */
	struct ip_address address;
};

/* Values in `sets`. */
enum host_set_is {
	HOST_SET_ANY = 1,
	HOST_SET_IPV6 = 2, /* prefix so short that it includes mapped IPv4 */
};

struct host_set_network {
	__u32 bits; /* 32 of the set's, plus the address's prefix */
	__be32 set;
	struct ip_address address;
};

/*
 * First fragments that VMs have sent, as later ones have no ports. A port has a
 * share of each set. The tag is the name (bpf/host/hash.h) of a flow with the
 * halves of the datagram's id as ports and the tap's ifindex as host port; its
 * low bits select the set. States are as in share_set.h: the owner is the
 * port's place, the content is the entry's place, or HOST_NO_PLACE while it is
 * being written.
 */
#define HOST_FRAGMENT_SETS 1024
#define HOST_FRAGMENT_AGE_MAX 57221 /* 60 s: RFC 8200, section 4.5 */

struct host_fragment_set {
	__u64 tag[SHARE_WAYS];
	__u64 state[SHARE_WAYS];
};

/*
 * Flows. A set is two cache lines with four flows each; a bit of a flow's tag
 * selects the preferred line. Clients' addresses, for lists of flows, are
 * apart. The tag is a keyed hash of all that identifies the flow
 * (bpf/host/hash.h): 56 bits that attackers cannot predict, so that it stands
 * for the flow. Its low bits select the set; in half_open the port takes part
 * in that, so that a flood to one port uses no more than the port's share.
 *
 * A state is one word that CPUs exchange atomically; 0 is a free place:
 *   bits 63-48  the client's port, network byte order
 *        47-34  generation of the port's rules that allowed it
 *        33-20  time of the last refresh, units of 2^30 ns: an established
 *               flow is refreshed when this is older than a sixteenth of its
 *               idle time
 *        19-16  enum host_flow_flag
 *        15-0   the entry's place, or HOST_NO_PLACE: being written
 * A place is taken by writing HOST_NO_PLACE; tag, client and state follow in
 * this order. Readers that find a tag read the state and then the tag again.
 */
#define HOST_FLOW_WAYS 8
#define HOST_LINE_WAYS 4
/* A port has some or many flows if they exceed this fraction of all places. */
#define HOST_SOME_FLOWS 1024
#define HOST_MANY_FLOWS 128
#define HOST_TAG_BITS 56
#define HOST_FLOW_PORT_SHIFT 48
#define HOST_FLOW_GENERATION_SHIFT 34
#define HOST_GENERATION_MASK 0x3fff
#define HOST_FLOW_TIME_SHIFT 20
#define HOST_FLOW_TIME_MASK 0x3fff
#define HOST_FLOW_AGE_MAX 16000 /* ages are modulo the mask */
#define HOST_FLOW_PLACE_MASK 0xffff
#define HOST_NO_PLACE 0xffff

enum host_flow_flag {
	HOST_FLOW_ANSWERED = 1 << 16, /* the VM has answered */
	HOST_FLOW_DIRECT = 2 << 16,   /* came by another way: half_open only */
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

/* The clients of a set's flows. */
struct host_clients {
	struct ip_address client[HOST_FLOW_WAYS];
};

static inline __u64 *host_tag(struct host_flow_set *set, __u32 way)
{
	return &set->line[way / HOST_LINE_WAYS].tag[way % HOST_LINE_WAYS];
}

static inline __u64 *host_state(struct host_flow_set *set, __u32 way)
{
	return &set->line[way / HOST_LINE_WAYS].state[way % HOST_LINE_WAYS];
}

/* The sets of `flows` in which a flow may be; `sets` is their number. The two
 * functions and host_line() use different bits of the tag. */
static inline __u32 host_first_set(__u64 tag, __u32 sets)
{
	return tag & (sets - 1);
}

static inline __u32 host_second_set(__u64 tag, __u32 sets)
{
	return tag >> 31 & (sets - 1);
}

/* The tag's preferred line of `flows`. */
static inline __u32 host_line(__u64 tag)
{
	return tag >> (HOST_TAG_BITS - 1);
}

/*
 * Ports may together have more flows than there are places: the last places of
 * a set of `flows` are reserved for ports with few flows. Returns how many of
 * the free places a port with this many flows must leave.
 */
static inline __u32 host_kept_places(__u32 flows, __u32 sets)
{
	__u32 places = sets * HOST_FLOW_WAYS;

	return (flows > places / HOST_SOME_FLOWS) +
	       (flows > places / HOST_MANY_FLOWS);
}

/* Half-open flows of a port lie in one of this many parts of the table. */
#define HOST_HALF_OPEN_PARTS 16

struct host_counters {
	__u64 packets_in, bytes_in; /* bytes of the inner IP packet */
	__u64 packets_out, bytes_out;
	__u64 flows; /* flows opened */
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
