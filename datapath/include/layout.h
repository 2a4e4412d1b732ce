/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Layout of the pinned maps, read by the BPF programs and by the library.
 *
 * The maps are the node's only forwarding state: whoever opens them can
 * recompute every table from them. A field changes here only together with
 * OXP_LAYOUT. Byte order is the host's but for __be types and addresses,
 * which are in network order.
 *
 * Names of the maps (pinned under these in <pin directory>/maps):
 *   config           ARRAY of 1, mmapable        struct node_config
 *   services_v4      HASH                        struct key_v4 -> __u32 index
 *   vips_v4          HASH                        __be32 -> __u32 services
 *   services         ARRAY[services_max], mmap.  struct service_entry
 *   tables           ARRAY[2 * services_max], mmap.  struct service_block
 *   service_counters PERCPU_ARRAY[services_max]  struct service_counters
 *   member_counters  PERCPU_ARRAY[members_max]   struct member_counters
 *   outcomes         PERCPU_ARRAY[OXP_OUTCOMES]  __u64 packets
 */
#ifndef OXP_LAYOUT_H
#define OXP_LAYOUT_H

#include <linux/types.h>

#include "octavia_xdp.h" /* outcomes and limits */

#define OXP_LAYOUT 1

/* One for the node. The first line is written rarely and read per packet, the
 * second belongs to the library's transactions. */
struct node_config {
	__u32 layout;       /* OXP_LAYOUT; 0 once the state was destroyed */
	__be32 source;      /* of outer headers; 0: not set */
	__u64 own_mac;      /* first six bytes as on the wire, then zeroes */
	__u64 gateway_mac;  /* likewise; 0: next hop not known */
	__u32 mtu;          /* greatest IP packet on the uplink, bytes */
	__u32 services_max; /* sizes of the maps */
	__u32 members_max;
	__u32 slots_max;
	__u64 zero0[3];

	__u64 epoch;   /* grace periods that were waited for, from 1 on */
	__u64 changes; /* grows before services or members come or go */
	__u64 dirty;   /* not 0: a creation or deletion did not finish */
	__u64 zero1[5];
};

struct key_v4 {
	__be32 address;
	__be16 port;
	__u8 protocol;
	__u8 zero;
};

enum entry_state {
	ENTRY_FREE = 0,
	ENTRY_USED = 1,
};

/*
 * One per service. The parity of `active` says which of the service's two
 * blocks packets read: tables[2 * index + (active & 1)]. It only grows, also
 * when the entry changes its owner; a switch is one store of this word.
 * The other block is scratch.
 */
struct service_entry {
	__u64 active;
	__u64 switched; /* epoch of the last switch: while it is the current
			 * one, packets may still read the scratch block */
	__u8 vip[16];   /* IPv4 as ::ffff:a.b.c.d */
	__be16 port;
	__u8 protocol;
	__u8 state; /* enum entry_state */
	__u32 zero[7];
};

enum member_flag {
	MEMBER_ADMIN_UP = 1,
	MEMBER_HEALTHY = 2, /* as last told, or as assumed */
	MEMBER_KNOWN = 4,   /* the check has told */
};

struct block_member {
	__be32 address[4]; /* IPv4 as ::ffff:a.b.c.d */
	__u64 check;       /* id of the health check, 0: none */
	__u32 counter;     /* index into member_counters, kept while it stays */
	__u16 weight;
	__u8 flags; /* enum member_flag */
	__u8 zero;
};

/*
 * All that a packet needs to know of its service, and all configured members,
 * also those that are down. Packets read slots and the addresses of members
 * in slots; only flags may change in the block that is in use.
 */
struct service_block {
	__u64 generation; /* value of `active` that makes it the live one */
	__u32 slots;      /* prime, at most slots_max */
	__u32 members;    /* at most OXP_MEMBERS_MAX, in order of address */
	__u32 enabled;    /* members with slots */
	__u32 zero[11];
	struct block_member member[OXP_MEMBERS_MAX];
	__u16 slot[]; /* index into member[], or OXP_NO_MEMBER */
};

/* Bytes of one element of `tables`: whole cache lines. */
#define BLOCK_SIZE(slots_max)                                                  \
	((sizeof(struct service_block) + sizeof(__u16) * (slots_max) + 63) &   \
	 ~(__u64)63)

struct service_counters {
	__u64 packets;
	__u64 bytes; /* of clients' IP packets */
	__u64 flows; /* TCP segments with SYN and without ACK */
	__u64 zero;
};

struct member_counters {
	__u64 packets;
	__u64 bytes;
};

/*
 * Which slot a flow takes. Every node must come to the same answer, so the
 * seed is a constant. Two multiplications spread the 5-tuple over the upper
 * half of the product (xor-shift and multiply as in MurmurHash3's finalizer);
 * the hash is then scaled to the number of slots, which costs less than a
 * division. Addresses and ports are taken as they lie in the packet, read as
 * little-endian words.
 */
#define FLOW_SEED 0x8e38cb5d3a1f6c27ULL

static inline __u32 flow_hash(__be32 source, __be32 destination,
			      __be16 source_port, __be16 destination_port,
			      __u8 protocol)
{
	__u64 hash = FLOW_SEED ^ ((__u64)source << 32 | destination);

	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	hash ^= (__u64)protocol << 32 | (__u32)source_port << 16 |
		destination_port;
	hash *= 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 29;
	hash *= 0xff51afd7ed558ccdULL;
	return hash >> 32;
}

static inline __u32 flow_slot(__u32 hash, __u32 slots)
{
	return (__u64)hash * slots >> 32;
}

#endif
