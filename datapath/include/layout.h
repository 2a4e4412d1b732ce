/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Layout of the pinned maps, read by the BPF programs and by the library.
 *
 * The maps are the node's only forwarding state: whoever opens them can
 * recompute every table from them. A field changes here only together with
 * OXP_LAYOUT. Byte order is the host's but for __be types and addresses,
 * which are in network order. IPv4 addresses in 16 bytes are ::ffff:a.b.c.d.
 *
 * Names of the maps (pinned under these in <pin directory>/maps); "mmap." is
 * written by the library with plain stores:
 *   config           ARRAY of 1, mmap.            struct node_config
 *   uplinks          ARRAY of 2, mmap.            struct uplink_set
 *   devices          DEVMAP_HASH                  ifindex -> ifindex
 *   lookup_v4        ARRAY of a power of 2, mmap. struct bucket_v4
 *   lookup_v6        ARRAY of a power of 2, mmap. struct bucket_v6
 *   vips             ARRAY[services_max], mmap.   struct vip_entry
 *   services         ARRAY[services_max], mmap.   struct service_entry
 *   tables           ARRAY_OF_MAPS[SEGMENTS_MAX]  ARRAY of 1, mmap., of
 *                    SEGMENT_SIZE bytes: blocks, ages and allowed networks, see
 *                    below; pinned as segment-0, segment-1 and so on
 *   flows            ARRAY of a power of 2, mmap. struct flow_set
 *   fragments        ARRAY[FRAGMENT_SETS]         struct shared_set
 *   sources          ARRAY[SOURCE_SETS]           struct shared_set
 *   quic_servers     HASH          struct quic_key -> __u32 member index
 *   icmp_budget      PERCPU_ARRAY[ANSWERS]        struct answer_budget
 *   service_counters ARRAY[possible CPUs], mmap.  union counters, twice
 *                    half_slice_of(services_max)
 *   member_counters  ARRAY[possible CPUs], mmap.  union counters, twice
 *                    half_slice_of(members_max)
 *   pending_counts   ARRAY[possible CPUs], mmap.  struct pending_counts
 *   outcomes         PERCPU_ARRAY[OXP_OUTCOMES]   struct outcome_counters
 *   watched          ARRAY[WATCH_LINES], mmap.    struct watched_set
 *   nat              ARRAY of 1, mmap.            struct nat_pools
 *   nat_tables       ARRAY_OF_MAPS[NAT_TABLES]    ARRAY of 1, mmap., of
 *                    NAT_TABLE_SIZE bytes: struct nat_flow by port, of each
 *                    address of a pool; the last one struct nat_group. Pinned
 *                    as nat-0, nat-1 and so on
 *   nat_index        ARRAY_OF_MAPS[2]             HASH, struct nat_key -> __u32
 *                    number of the flow; pinned as nat-index-0, nat-index-1
 *   nat_scratch      PERCPU_ARRAY of 1            struct nat_scratch
 *   nat_owners       LRU_HASH                     struct nat_key ->
 *                    struct nat_owner
 *   nat_services     ARRAY[services_max], mmap.   struct nat_service
 *   reply_counters   PERCPU_ARRAY[services_max]   struct reply_counters
 */
#ifndef OXP_LAYOUT_H
#define OXP_LAYOUT_H

#include <linux/types.h>

#include "octavia_xdp.h" /* outcomes and limits */
#include "share_set.h"

#define OXP_LAYOUT 9

/* For what each packet asks: clang would make a function of the longer ones,
 * whose call and return take longer than they do. */
#define INLINED static inline __attribute__((always_inline))

/*
 * Formats of the maps that packets write. A library of another layout hands
 * those over as they are, while packets use them, whose format here and sizes
 * are the same in both; the others it copies. A number grows with any change
 * of its map's structures, or of what keys, indices and times in them mean.
 */
#define FORMAT_FLOWS 3
#define FORMAT_FLOW_NAMES 2 /* flow_name() and what goes into it */
#define FORMAT_FRAGMENTS 2
#define FORMAT_SOURCES 2
#define FORMAT_ICMP_BUDGET 2
#define FORMAT_COUNTERS 2
#define FORMAT_OUTCOMES 2
#define FORMAT_WATCHED 1
#define FORMAT_NAT 1 /* pools, flows, their index, peers and owners */
#define FORMAT_NAT_SERVICES 1
#define FORMAT_REPLY_COUNTERS 1

/* All maps, once: number, name, and the format of what packets write there,
 * or 0. */
#define OXP_MAPS(MAP)                                                          \
	MAP(CONFIG, config, 0)                                                 \
	MAP(UPLINKS, uplinks, 0)                                               \
	MAP(DEVICES, devices, 0)                                               \
	MAP(LOOKUP_V4, lookup_v4, 0)                                           \
	MAP(LOOKUP_V6, lookup_v6, 0)                                           \
	MAP(VIPS, vips, 0)                                                     \
	MAP(SERVICES, services, 0)                                             \
	MAP(TABLES, tables, 0)                                                 \
	MAP(FLOWS, flows, FORMAT_FLOWS)                                        \
	MAP(FRAGMENTS, fragments, FORMAT_FRAGMENTS)                            \
	MAP(SOURCES, sources, FORMAT_SOURCES)                                  \
	MAP(QUIC_SERVERS, quic_servers, 0)                                     \
	MAP(ICMP_BUDGET, icmp_budget, FORMAT_ICMP_BUDGET)                      \
	MAP(SERVICE_COUNTERS, service_counters, FORMAT_COUNTERS)               \
	MAP(MEMBER_COUNTERS, member_counters, FORMAT_COUNTERS)                 \
	MAP(PENDING_COUNTS, pending_counts, FORMAT_COUNTERS)                   \
	MAP(OUTCOMES, outcomes, FORMAT_OUTCOMES)                               \
	MAP(WATCHED, watched, FORMAT_WATCHED)                                  \
	MAP(NAT, nat, FORMAT_NAT)                                              \
	MAP(NAT_TABLES, nat_tables, FORMAT_NAT)                                \
	MAP(NAT_INDEX, nat_index, FORMAT_NAT)                                  \
	MAP(NAT_SERVICES, nat_services, FORMAT_NAT_SERVICES)                   \
	MAP(NAT_SCRATCH, nat_scratch, 0)                                       \
	MAP(NAT_OWNERS, nat_owners, FORMAT_NAT)                                \
	MAP(REPLY_COUNTERS, reply_counters, FORMAT_REPLY_COUNTERS)

/* One for the node. The first line is written rarely and read per packet,
 * the others belong to the library. */
struct node_config {
	__u32 layout;         /* OXP_LAYOUT; 0 once the state was destroyed */
	__u32 flags;          /* enum oxp_node_flag */
	__be32 source_v4;     /* of outer headers; 0: not set */
	__be32 entropy_v4;    /* bits that the flow's hash takes */
	__be32 source_v6[4];  /* all zeroes: not set */
	__be32 entropy_v6;    /* in the last word */
	__u32 icmp_rate;      /* per second, CPU and kind of answer */
	__u64 active_uplinks; /* parity: the set that packets read */
	/* A bit for each choice of struct uplink_set: whose flows are to be
	 * watched, and those of them of which the count is made. */
	__u64 watched;
	__u64 counted;

	__u32 services_max; /* sizes of the maps */
	__u32 members_max;
	__u32 slots_max;
	__u32 flows_max;
	__u32 lookup_mask;      /* buckets of each lookup table, less one */
	__u32 idle_timeout_max; /* seconds, at least that of every service: when
				 * remembered flows are outdated for all */
	__u64 seed; /* random, of this node: of buckets and remembered flows */
	__u32 segments;      /* of `tables` that there are */
	__u32 nat_addresses; /* of pools; 0: the program has no NAT */
	__u64 generation; /* at least that of every block that was given up */
	/* Where the slots of most blocks lie and how many there are, 0 with few
	 * services: what packets fetch of a block before they have read it. */
	__u32 usual_slot_line;
	__u32 usual_slots;
	/* The packets' own: when they last asked the clock, recent_units(). */
	__u64 last_asked;

	__u64 epoch;   /* of what is switched now, from 1 on */
	__u64 changes; /* grows before services or members come or go */
	__u64 dirty;   /* not 0: a creation or deletion did not finish */
	__u64 uplinks_switched; /* epoch, as in struct service_entry */
	__u64 ticked; /* CLOCK_BOOTTIME, ms, of the last oxp_slots_age() */
	__u32 cpus;   /* that have slices of counters */
	__u32 reserved3;
	__u64 waited;   /* no packet uses what was switched out in this epoch or
			 * before */
	__u64 switched; /* the last epoch in which something was switched */
};

/*
 * The outermost header of what leaves, ready to be copied: 14, 18 or 22 bytes
 * with the Ethertype of the outer packet at the end. One for IPv4, one for
 * IPv6.
 */
struct uplink {
	__u32 ifindex;
	__u16 mtu;
	__u8 link_length;
	/* Its flows are watched. Read as one number with link_length, which
	 * then is too long for the fast path. */
	__u8 watched;
	/* The driver sends frames of several buffers that come in elsewhere. */
	__u8 sends_buffers;
	__u8 reserved[7];
	__u8 link[2][24];
};

/* By the top 6 bits of the entropy word; OXP_NO_UPLINK where the family has
 * no uplink. Choices whose flows are watched name a copy of their uplink with
 * `watched`, at the array's end, where there is room for one. The set that is
 * not active is scratch. */
#define OXP_NO_UPLINK 255
#define OXP_CHOICES 64
struct uplink_set {
	__u8 choice[2][64]; /* IPv4, IPv6: index into uplink[] */
	struct uplink uplink[OXP_UPLINKS_MAX];
};

/*
 * From address, port and protocol to a service, and from an address alone
 * (port and protocol 0) to a VIP: open hash tables whose buckets are cache
 * lines. A key's home is bucket_of(); if its bucket is full it lies in one of
 * the next HASH_PROBES - 1 buckets (cyclic), and `overflow` of every bucket
 * from home to the one before its own counts it, so that a miss in a bucket
 * with overflow 0 ends the search.
 *
 * A key is written after its value and cleared before the place is used
 * again, with a grace period in between. The value of a service is the line
 * of its live block: one store of it switches the whole service. The value of
 * a VIP is its index in vips.
 */
#define BUCKET_WAYS 5
#define HASH_PROBES 4

struct bucket_v4 {
	__u64 key[BUCKET_WAYS]; /* lookup_key_v4(); 0: free */
	__u32 value[BUCKET_WAYS];
	__u32 overflow;
};

struct bucket_v6 {
	__u32 ports[BUCKET_WAYS]; /* lookup_ports(); 0: free; written last */
	__u32 value[BUCKET_WAYS];
	__u32 overflow;
	__u32 reserved;
	__be32 address[BUCKET_WAYS][4];
};

/* Never 0. */
static inline __u32 lookup_ports(__be16 port, __u8 protocol)
{
	return (__u32)port << 16 | (__u32)protocol << 8 | 1;
}

static inline __u64 lookup_key_v4(__be32 address, __be16 port, __u8 protocol)
{
	return (__u64)lookup_ports(port, protocol) << 32 | address;
}

static inline __u32 bucket_of_v4(__u64 key, __u64 seed)
{
	/* twice, so that the ports, at the top, reach the bits that count */
	key = (key ^ seed) * 0xff51afd7ed558ccdULL;
	key ^= key >> 32;
	return key * 0xc4ceb9fe1a85ec53ULL >> 32;
}

INLINED __u32 bucket_of_v6(const __be32 *address, __u32 ports, __u64 seed)
{
	__u64 hash = seed ^ ((__u64)address[0] << 32 | address[1]);

	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	hash ^= (__u64)address[2] << 32 | address[3];
	hash *= 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 29;
	hash ^= ports;
	hash *= 0xff51afd7ed558ccdULL;
	return hash >> 32;
}

/* One per VIP. Fragments without ports go to the service of their protocol
 * that has the lowest port. */
struct vip_entry {
	__u32 services;           /* 0: free */
	__be16 fragment_port_tcp; /* 0: no service of the protocol */
	__be16 fragment_port_udp;
	__be16 fragment_port_sctp;
	__u16 reserved;
	__u8 address[16];
	__u32 reserved1;
};

enum entry_state {
	ENTRY_FREE = 0,
	ENTRY_USED = 1,
};

/*
 * Memory for blocks, ages and allowed networks grows with use: in segments, of
 * which there are node_config.segments, none of which is ever given back. A
 * place in them is named by its cache line, counted over all segments: `line`.
 * Line 0 is nobody's. What is in use, and so what is free, follows from the
 * entries of all services and from nothing else.
 */
#define LINE_SIZE 64
#define SEGMENT_SIZE (1U << 23)
#define SEGMENT_LINES (SEGMENT_SIZE / LINE_SIZE)
#define SEGMENTS_MAX 8192

/*
 * One per service; packets do not read it. `place` is where the lookup table
 * holds the key: BUCKET_WAYS * bucket + way. A service has up to two blocks.
 * Which of them is live is said by the value there and nowhere else; the other
 * one is scratch. Each of them may have ages of its own, for when the number
 * of slots changes, and networks of its own, for when these do; otherwise both
 * blocks name the same.
 */
struct service_entry {
	__u64 switched; /* epoch of the last switch: while it is beyond
			 * `waited`, packets may still read the scratch block */
	__u8 vip[16];
	__be16 port;
	__u8 protocol;
	__u8 state; /* enum entry_state */
	__u32 place;
	__u32 vip_index;
	__u32 block[2];       /* first lines; 0: none */
	__u32 block_lines[2]; /* how many */
	__u32 ages[2];
	__u16 ages_lines[2];
	__u32 networks[2]; /* struct network_list */
	__u32 networks_lines[2];
};

/* The outer header that a member gets; follows from the encapsulation of its
 * tunnel, or else of the service, and from the family of the outer destination.
 * Those of IPv6 are odd, and the two of a kind are next to each other. */
enum outer_type {
	OUTER_IPIP_V4,
	OUTER_IPIP_V6, /* also SRv6 */
	OUTER_GUE_V4,
	OUTER_GUE_V6,
	OUTER_GRE_V4,
	OUTER_GRE_V6,
	OUTER_NONE, /* DSCP: the packet's own header is rewritten */
	/* With any of them: the packet's port is rewritten as well. Not below
	 * OUTER_NONE, so that such packets leave the fast path with no look at
	 * anything else. */
	OUTER_PORT = 8,
	OUTER_GENEVE_V4 = 16,
	OUTER_GENEVE_V6,
};

enum member_flag {
	MEMBER_PRESENT = 1, /* the place in member[] is in use */
	MEMBER_ADMIN_UP = 2,
	MEMBER_HEALTHY = 4, /* as last reported, or as assumed */
	MEMBER_KNOWN = 8,   /* the check has reported */
	MEMBER_BACKUP = 16,
	/* Computed from the others, for packets: */
	MEMBER_KEEPS_FLOWS = 32, /* admin up and healthy */
	/* May have slots: is up, has a weight, and is no backup while others
	 * serve. A tiny weight may get none all the same. */
	MEMBER_TAKES_FLOWS = 64,
};

/* A member is named by address and port; with NAT packets read these here. */
struct block_member {
	__be32 outer[4]; /* destination of the outer header, or rewritten */
	__u32 counter;   /* index into member_counters, kept while it stays */
	__u16 mtu;       /* of the outer packet; 0: the uplink's */
	__u8 outer_type; /* enum outer_type, with OUTER_PORT where there is one
			  */
	__u8 flags;      /* enum member_flag */
	__be32 address[4];
	__be16 port; /* takes the place of the service's; 0: that stays */
	__u16 weight;
	__u32 key;       /* of the tunnel; that of SRv6 is in `outer` as well */
	__u64 check;     /* id of the health check, 0: none */
	__u8 tunnel;     /* its encapsulation, plus 1; 0: none of its own */
	__u8 keeps_port; /* of the tunnel: no OUTER_PORT */
	/* Bytes that the outer header has besides with an alternative; 0: it
	 * never has one. What the path takes is reckoned with them always. */
	__u8 alternative;
	__u8 takes_alternative; /* what is at the end of the tunnel */
	__u8 reserved[4];
};

/* What packets read of a member, half a cache line: a copy of what
 * block_member says, and of its flags those alone that stay what they are in a
 * block that is in use. Ten of a service are five lines, which many services
 * can keep in caches. */
struct member_head {
	__be32 outer[4];
	__u32 counter;
	__u16 mtu;
	__u8 outer_type;
	__u8 flags; /* HEAD_FLAGS */
	__be16 port;
	__u8 alternative;
	__u8 tunnel;
	__u32 key;
};

_Static_assert(sizeof(struct member_head) == 32, "half a line");

#define HEAD_FLAGS (MEMBER_PRESENT | MEMBER_KEEPS_FLOWS | MEMBER_TAKES_FLOWS)

/* Whether a packet to one of them can name the other one, who then gets the
 * same packet. What takes it at the end of a tunnel of a member's own hands
 * nothing on to members without, nor the other way round. */
static inline int are_alternatives(const struct member_head *one,
				   const struct member_head *other)
{
	return one->alternative && one->alternative == other->alternative &&
	       one->outer_type == other->outer_type &&
	       !one->tunnel == !other->tunnel &&
	       (one->port == other->port || !(one->outer_type & OUTER_PORT));
}

/* Flags of a block beyond those of enum oxp_service_flag. */
#define BLOCK_ALLOWED 256  /* `networks` are to be asked */
#define BLOCK_LEARNING 512 /* without a SYN unknown flows are old ones */
#define BLOCK_OPEN 1024    /* slots may be open: the bitmap says which */
#define BLOCK_USED 2048    /* the library knows that packets were forwarded */
/* With OXP_SERVICE_SECOND_CHANCE: slots may be changed, see below. */
#define BLOCK_CHANGED 4096

/* How the library writes slots as single numbers; not how they lie in maps. */
#define SLOT_OPEN 0x8000
#define SLOT_MEMBER 0x7fff
#define SLOT_NOBODY 0x7fff

/*
 * All that a packet needs to know of its service, and all configured members,
 * also those that are down. A member keeps its index while it stays; a place
 * that became free may be given away at once. Packets read slots, the bitmap
 * and `before` of open slots, and heads. In the block that is in use the
 * library changes only single words of which a packet reads one: the bit of a
 * slot that has aged is cleared, BLOCK_OPEN when no slot is open any more,
 * BLOCK_LEARNING when its time is over, and MEMBER_KNOWN and MEMBER_HEALTHY
 * where no computed flag depends on them.
 *
 * Behind the header lie, each from a line on:
 *   members  struct block_member, as many as there are places
 *   heads    struct member_head of each, up to slot_line
 *   slots    at slot_line, `slots` elements of slot_width bytes
 *   bitmap   a bit for each slot, the lowest of the first byte is slot 0's
 *   before   `before_slots` elements of slot_width bytes
 *   changed  with OXP_SERVICE_SECOND_CHANCE: a bit for each slot, as above
 *
 * An element is the index of a member, or nobody, if it is not below
 * `members`. A slot's member takes new flows. The slot is open: flows that
 * began earlier may be with others. `before` then has the member of every flow
 * that is not remembered; it may be the slot's own. Either may be nobody: an
 * open slot of nobody has only old flows, of members that are drained; flows
 * of nobody before are lost, or the slot's own.
 *
 * `before` has a number of slots of its own: that of the service until it
 * changed, so that each flow is found in it where it was found then. Where the
 * numbers differ, before_slots stays what it is until all slots are closed,
 * and they close together.
 *
 * With OXP_SERVICE_SECOND_CHANCE `before` stays right when a slot closes: the
 * slot is changed, as every open one is, and packets that open nothing name the
 * other one of its two members.
 */
struct service_block {
	__u64 generation; /* grows with each switch, also over owners */
	__u32 slots;      /* prime, at most slots_max */
	__u32 flags;      /* enum oxp_service_flag, BLOCK_* */
	__u16 members;    /* places of member[] that may be in use */
	__u16 enabled;    /* members with MEMBER_TAKES_FLOWS */
	__u16 slot_line;  /* counted from the block's first */
	__u8 slot_width;  /* bytes: 1 up to NARROW_PLACES places, else 2 */
	__u8 encapsulation;
	__u32 service; /* index of its entry */
	union {
		__u8 dscp;
		__u8 nat_group; /* of OXP_SERVICE_NAT */
	};
	__u8 watch; /* of its flows in choices that are watched: WATCH_PART() */
	union {
		__be16 sid_function;
		/* Of OXP_SERVICE_NAT: flows of the group at most, in units of
		 * NAT_FLOWS_UNIT; 0: half of all ports. */
		__u16 nat_flows;
	};
	__u32 networks;      /* line of struct network_list; 0: none */
	__u32 new_flow_rate; /* per second and source; 0: no limit */
	__u32 new_flow_burst;
	__u32 before_slots;
	__u32 ages; /* line of a byte for each slot */
	__u16 idle_timeout_s;
	__u8 source_length_v4; /* 1 to 32 */
	__u8 source_length_v6; /* 1 to 128 */
	/* the library's own */
	__u32 allowed_count;
	__u16 open;     /* open slots, 65535: or more */
	__u16 learning; /* seconds of BLOCK_LEARNING that are left */
	struct block_member member[];
};

_Static_assert(sizeof(struct service_block) % LINE_SIZE == 0, "whole lines");

#define NARROW_PLACES 255

/* Whole lines. */
#define LINES_OF(bytes) (((bytes) + LINE_SIZE - 1) / LINE_SIZE)

#define LINES_OF_HEADS(places) LINES_OF((places) * sizeof(struct member_head))

/* slot_line of so many places. */
#define LINES_BEFORE_SLOTS(places)                                             \
	(LINES_OF(sizeof(struct service_block) +                               \
		  (places) * sizeof(struct block_member)) +                    \
	 LINES_OF_HEADS(places))

/* Of a member's head, bytes from the block's first. The heads, whole lines of
 * two, end where the slots begin. */
INLINED __u64 head_offset(const struct service_block *block, __u32 index)
{
	__u64 places = (block->members + 1ULL) & ~1ULL;

	_Static_assert(2 * sizeof(struct member_head) == LINE_SIZE, "two");
	return block->slot_line * LINE_SIZE +
	       (index - places) * sizeof(struct member_head);
}

INLINED __u32 bitmap_line(const struct service_block *block)
{
	return block->slot_line + LINES_OF(block->slots * block->slot_width);
}

INLINED __u32 before_line(const struct service_block *block)
{
	return bitmap_line(block) + LINES_OF((block->slots + 7) / 8);
}

INLINED __u32 changed_line(const struct service_block *block)
{
	return before_line(block) +
	       LINES_OF(block->before_slots * block->slot_width);
}

/* The byte of an open slot is set to 0 by each packet that goes to another
 * member than the slot's own, and counted up by oxp_slots_age(), eight times in
 * an idle timeout. At AGE_CLOSED eight whole intervals have passed without such
 * a packet, and the slot is closed. */
#define AGE_CLOSED 9

/*
 * Flows in open slots that are not where before[] says. A set is a cache
 * line; an entry is one word, so that CPUs read and write it whole:
 *   bits 63-28  name: those bits of flow_name(), of which bits
 *        37-28  are the share: the low bits of the service's index
 *        27-14  time of the last refresh, in units of 2^30 ns of the coarse
 *               monotonic clock
 *        13     ended: the client has sent FIN or RST
 *        12     confirmed: the client has answered the member's SYN-ACK
 *        11-0   index of the member
 * 0 is free. The set is chosen by the name's low bits below bit 28.
 */
#define FLOW_SET_WAYS 8
#define FLOW_NAME_MASK (~0xfffffffULL)
#define FLOW_SHARE_SHIFT 28
#define FLOW_SHARE (0x3ffULL << FLOW_SHARE_SHIFT)
#define FLOW_TIME_SHIFT 14
#define FLOW_TIME_MASK 0x3fff
#define FLOW_ENDED 0x2000
#define FLOW_CONFIRMED 0x1000
#define FLOW_MEMBER 0xfff
/* How long a flow's last packets may follow its end, units of 2^30 ns. */
#define FLOW_ENDED_AGE 30
struct flow_set {
	__u64 entry[FLOW_SET_WAYS];
};

/*
 * Flows that are watched, so that it is known how many are alive. A set is a
 * cache line; an entry is one word, so that CPUs read and write it whole:
 *   bits 63-42  tag: those bits of watch_name()
 *        41-22  index of the service
 *        21-16  choice of the uplink
 *        15-2   time of the last refresh, as in struct flow_set
 *        1      seen more than once
 *        0      closed: the client has ended it
 * 0 is free. The set is chosen by the name's low bits. Behind the sets lie
 * WATCH_LOADS lines: entry[0] counts packets that were watched, by CPU.
 */
#define WATCH_SETS 16384
#define WATCH_WAYS 8
#define WATCH_LOADS 128
#define WATCH_LINES (WATCH_SETS + WATCH_LOADS)
#define WATCH_TAG_SHIFT 42
#define WATCH_SERVICE_SHIFT 22
#define WATCH_SERVICE_MASK 0xfffff
#define WATCH_CHOICE_SHIFT 16
#define WATCH_TIME_SHIFT 2
#define WATCH_SEEN_AGAIN 2
#define WATCH_CLOSED 1
#define WATCH_IDENTITY (~0xffffULL) /* tag, service, choice */
/* How long a flow's last packets may follow its end, units of 2^30 ns. */
#define WATCH_CLOSED_AGE 30
struct watched_set {
	__u64 entry[WATCH_WAYS];
};

/* One in 2^n of a service's flows is noted, and one in 2^m counted: n in the
 * low half of the block's byte, m, at least n, in the high half. */
#define WATCH_PART(noted, counted) ((noted) | (counted) << 4)
#define WATCH_NOTED(watch) ((watch) & 15)
#define WATCH_COUNTED(watch) ((watch) >> 4)
#define WATCH_PART_MAX 15

static inline int watch_has_part(__u64 tag, __u32 part)
{
	return !(tag & ((1U << part) - 1));
}

/* Of a flow by its entropy and its ports, which of OXP_SERVICE_SOURCE are in
 * no entropy. `seed` is the node's. */
static inline __u64 watch_name(__u32 entropy, __u32 ports, __u64 seed)
{
	seed ^= (__u64)entropy << 32 | ports;
	seed *= 0xff51afd7ed558ccdULL;
	seed ^= seed >> 32;
	seed *= 0xc4ceb9fe1a85ec53ULL;
	return seed ^ seed >> 29;
}

/* A set of what all services leave for later packets: share_set.h. A tag is the
 * name of what is looked for, its low bits choose the set. */
struct shared_set {
	__u64 tag[SHARE_WAYS];
	__u64 state[SHARE_WAYS];
	__u64 value[SHARE_WAYS];
};
#define SHARE_BUSY                                                             \
	0xffff /* what a state says while a CPU writes the others              \
		*/

/*
 * First fragments, by fragment_name(). The owner is the VIP, or with NAT the
 * project's group. What: the protocol of the service, and of the value then
 *   bits 63-48  its port, in network order
 *        47-32  member, index within the service
 *        31-0   index of the service
 * FRAGMENT_OF_NAT: the value is the number of the flow.
 * FRAGMENT_OF_PEER: its low half is the place in the list of the peer that has
 * the flow, bits 63-48 are the client's port.
 */
#define FRAGMENT_SETS 4096
#define FRAGMENT_AGE_MAX 114441 /* 120 s: RFC 1122, section 3.3.2 */
#define FRAGMENT_OF_NAT 0x100
#define FRAGMENT_OF_PEER 0x200
/* Owners, beside indices of VIPs, of which those that are alike in the low bits
 * share: groups; and numbers of pools' addresses, for members' fragments whose
 * flow, and so whose group, is another node's. */
#define FRAGMENT_VIP 0x7fff
#define FRAGMENT_GROUP 0x8000
#define FRAGMENT_POOL 0xc000

static inline __u64 fragment_value(__u32 low, __u16 member, __be16 port)
{
	return (__u64)port << 48 | (__u64)member << 32 | low;
}

/*
 * The networks that a service lets in, in lines of their own, so that a change
 * of health need not copy them. What packets search are the networks' bounds:
 * of each family, sorted, the last addresses of ranges that are in turn outside
 * and inside of all networks. So an address is inside if the number of bounds
 * below it is odd, or even where address 0 is inside already. There are 2^n - 1
 * bounds, those at the end that are not needed have the greatest address, below
 * which all others are: a search halves them n times, whatever it finds.
 *
 *   bounds of IPv4   from BOUNDS_V4 on, __u32 each, in the host's byte order
 *   bounds of IPv6   at bounds_v6, struct bound_v6
 *   networks         at `networks`, struct oxp_network, `count` of them: as
 *                    they were given, masked and sorted
 *
 * Places are bytes from the list's first one.
 */
#define BOUNDS_V4 32
struct network_list {
	__u32 steps_v4; /* n of the bounds; 0: there are none */
	__u32 steps_v6;
	__u32 inside_v4; /* 1: address 0 is inside */
	__u32 inside_v6;
	__u32 bounds_v6;
	__u32 networks;
	__u32 count;
	__u32 reserved;
};

_Static_assert(sizeof(struct network_list) == BOUNDS_V4, "what comes first");

struct bound_v6 {
	__u64 high, low; /* halves of the address, in the host's byte order */
};

/* Of one list: a network has two bounds at most. */
#define BOUNDS_STEPS 18
_Static_assert(2 * OXP_ALLOWED_MAX < 1 << BOUNDS_STEPS, "steps");

/* Budgets of new flows, by source_name(). The owner is the service; the value
 * is a union source_budget, which is as good as forgotten once it is full. */
#define SOURCE_SETS 8192
#define SOURCE_AGE_MAX 0xffffffff /* none is too old */
#define SOURCE_KNOWN 1

union source_budget {
	struct {
		__u32 flows; /* that may be opened, times 1024 */
		__u32 time;  /* of the last refill, ms of the coarse clock */
	};
	__u64 word;
};

struct quic_key {
	__u32 service; /* index */
	__be32 server_id;
};

/* What the node answers itself, each kind with a budget of its own. */
enum answer {
	ANSWER_ECHO,
	ANSWER_TOO_BIG,
	ANSWER_RESET,
	ANSWERS,
};

struct answers_sent {
	__u32 packets;
	__u32 time; /* units of 2^30 ns of the coarse clock */
};

/* Of each budget a source may have the eighth part. Sources share the places in
 * which that is counted, and nobody else knows who with whom. */
#define ANSWER_SHARE 8
#define ANSWER_SOURCES 256

struct answer_budget {
	struct answers_sent to_all;
	struct answers_sent to_source[ANSWER_SOURCES];
};

/* The place of an IPv4 address, or of an IPv6 address's first 64 bits. */
static inline __u32 answer_source(__u64 who, __u64 seed)
{
	return bucket_of_v4(who, seed) % ANSWER_SOURCES;
}

/* What the library has added to counters while packets count
 * (add_counters.bpf.c). */
struct addition {
	__u32 map; /* enum added_map */
	__u32 index;
	__u64 packets;
	__u64 bytes;
	__u64 flows;
	__u64 drops;
};
#define ADDITIONS_MAX 64 /* in one run */

enum added_map {
	ADDED_SERVICE,
	ADDED_MEMBER,  /* no drops */
	ADDED_OUTCOME, /* neither flows nor drops */
};

/*
 * Counters of services and of members: plain arrays in which each CPU has a
 * slice of its own, as adding to them takes no lock then. A slice is whole
 * pages, so that no two CPUs write one line. The kernel's per-CPU arrays would
 * put slices on their CPUs' NUMA nodes, but make a packet wait twice: for the
 * pointer to an element, and for the element. Here a slice may lie on another
 * node.
 *
 * What every packet counts and what few do lie apart, so that more of the
 * former stays in caches: the first half of a slice has the traffic of each,
 * the second one the events.
 */
struct traffic_counters {
	__u64 packets;
	__u64 bytes; /* of clients' IP packets */
};

struct event_counters {
	__u64 flows; /* TCP SYN without ACK, SCTP INIT, QUIC Initial */
	/* Of services: packets of theirs with an OXP_DROP_… outcome, which are
	 * in no other field; 0 as long as a program from before it counts. */
	__u64 drops;
};

union counters {
	struct traffic_counters traffic;
	struct event_counters events;
};

#define SLICE_UNIT (4096 / sizeof(union counters))

/* Elements in half a slice for so many services or members. */
static inline __u32 half_slice_of(__u32 count)
{
	return (count + SLICE_UNIT - 1) / SLICE_UNIT * SLICE_UNIT;
}

static inline __u32 slice_size(__u32 count)
{
	return 2 * half_slice_of(count) * sizeof(union counters);
}

/*
 * With many services no cache has the lines of what a packet counts, and it
 * would wait for them. So on such nodes a CPU notes what it has to add, and
 * adds it when there are PENDING_COUNTS: additions that do not depend on each
 * other wait side by side. What is pending belongs to the counters: who reads
 * these adds it, and `turns`, which is odd while a CPU adds, tells him whether
 * it was added meanwhile. `count` grows after its entry was written.
 */
#define PENDING_COUNTS 32

struct pending_count {
	__u32 service; /* indices of counters */
	__u32 member;
	__u32 bytes; /* of one packet */
	__u32 reserved;
};

struct pending_counts {
	__u32 count;
	__u32 turns;
	__u32 reserved[14];
	struct pending_count entry[PENDING_COUNTS];
};

_Static_assert(!(sizeof(struct pending_counts) % LINE_SIZE), "each CPU's own");

/* Bytes are those of whole frames, from the Ethernet header on, as they came:
 * also of those that the program answered, and of those where there may be no
 * IP packet whose length could be believed. */
struct outcome_counters {
	__u64 packets;
	__u64 bytes;
};

/*
 * NAT. An address of a pool has a number, below OXP_NAT_ADDRESSES_MAX of IPv4,
 * from there on of IPv6, which is that of its table: a flow for each port. A
 * flow's number is that of its address times 65536 plus its port. In the lookup
 * tables the address is a VIP whose value has LOOKUP_POOL.
 */
#define LOOKUP_POOL 0x80000000
#define NAT_ADDRESSES (2 * OXP_NAT_ADDRESSES_MAX)
#define NAT_GROUPS_TABLE NAT_ADDRESSES /* of struct nat_group */
#define NAT_TABLES (NAT_ADDRESSES + 1)
#define NAT_TABLE_SIZE (1U << 23)

/* The nodes that hand packets on to each other, in the order in which they do.
 * A packet that goes round does so behind an outer IP header and that of GRE.
 */
struct nat_peer_list {
	__u32 count;
	__u32 own; /* the place of this node's address; `count`: there is none
		    */
	__u32 reserved[14];
	__be32 address[OXP_NAT_PEERS_MAX][4];
};

/* After so long without a packet flows end; units of 2^30 ns. 0, as libraries
 * have left it that knew none: the constants below. */
struct nat_timeouts {
	__u32 tcp_opening;
	__u32 tcp_closing;
	__u32 time_wait;
	__u32 udp_opening;
};

#define NAT_TCP_OPENING 240   /* half open: RFC 5382 */
#define NAT_TCP_CLOSING 240   /* at most, with one FIN: RFC 5382 */
#define NAT_TIME_WAIT_TIME 60 /* as long as hosts keep theirs */
#define NAT_UDP_OPENING 120   /* RFC 4787 */

struct nat_pools {
	__u32 count[2];   /* of number[], IPv4 and IPv6 */
	__u32 ports;      /* of all addresses */
	__u32 changes;    /* of tables and indices */
	__u32 live_peers; /* parity: the list that packets read */
	struct nat_timeouts timeouts;
	/* Until then, units of 2^30 ns, datagrams of unknown flows are sought
	 * among the peers; 0, as libraries have left it that knew none: never.
	 */
	__u32 seek_udp_until;
	/* Of the ports of either family: so many are kept for each group, and
	 * so many are for all of them beyond that. Both 0, as libraries have
	 * left them that knew none: nothing is kept. */
	__u32 kept[2];
	__u32 beyond_most[2];
	/* The flow that the library is about to end, or 0: who dies meanwhile
	 * leaves it here. */
	__u32 ending;
	__u32 reserved;
	struct nat_peer_list peer_list[2];
	__u16 number[2][OXP_NAT_ADDRESSES_MAX];
	/* the library's own: */
	__u8 length[NAT_ADDRESSES]; /* of the prefix; 0: the number is free */
	__be32 address[NAT_ADDRESSES][4];
};

/*
 * State of a flow, one word that is exchanged whole: enum nat_state, flags, and
 * 16 bits of the stamp, so that nobody takes it for the one that was there
 * before. All else in a flow is written while it is NAT_CLAIMED, but `seen`.
 */
enum nat_state {
	NAT_FREE = 0,
	NAT_CLAIMED = 1, /* who made it so is about to fill or to free it */
	NAT_HALF_OPEN = OXP_NAT_HALF_OPEN,
	NAT_ESTABLISHED = OXP_NAT_ESTABLISHED,
	NAT_TIME_WAIT = OXP_NAT_TIME_WAIT,
};
#define NAT_STATE 0xff
#define NAT_REPLIED 0x100    /* the member has answered */
#define NAT_FIN_CLIENT 0x200 /* has sent a FIN */
#define NAT_FIN_MEMBER 0x400
#define NAT_FIN (NAT_FIN_CLIENT | NAT_FIN_MEMBER)
#define NAT_RESET 0x800 /* by a RST in NAT_TIME_WAIT */
/* Since then, who has sent something else. */
#define NAT_SINCE_CLIENT 0x1000
#define NAT_SINCE_MEMBER 0x2000
#define NAT_SINCE (NAT_SINCE_CLIENT | NAT_SINCE_MEMBER)
#define NAT_STAMP_SHIFT 16
/* With NAT_CLAIMED, of a flow that the library ends: what still counts it. */
#define NAT_ENDED 0x100 /* it does */
#define NAT_IN_FLOWS 0x200
#define NAT_IN_FLOWS_V6 0x400
#define NAT_IN_ACTIVE 0x800
/* In these counts: the library has just taken that flow out, and has still to
 * say so in the flow's state. No part of the number. */
#define NAT_TAKEN_OUT 0x80000000

struct nat_flow {
	__be32 client[4];
	__be32 vip[4];
	__be32 member[4];
	__be16 client_port;
	__be16 port; /* of the service */
	__be16 member_port;
	__u8 protocol;
	__u8 in_v6; /* whether its group's flows_v6 counts it */
	__u32 state;
	__u32 seen; /* last packet, units of 2^30 ns of the coarse clock */
	/* second line */
	__u32 service; /* index */
	__u32 entropy; /* of the client's flow: both directions' uplink */
	__u32 stamp;
	__u16 member_index;
	__u16 group;
	__u32 timeout; /* once established, as the service had it when the flow
			* began: where there is no such service any more */
	/* in NAT_TIME_WAIT: where the client is, 1 in the place of 0; 0 if that
	 * is not known, and from programs before it was kept */
	__u32 sequence;
	__u32 reserved2[10];
};

_Static_assert(sizeof(struct nat_flow) * 65536 == NAT_TABLE_SIZE, "a table");

/*
 * Where an address has free ports, so that one is found however few there are.
 * It lies in the place of the flows of ports that no flow has, those below
 * OXP_NAT_PORT_MIN. The flows' states alone say what is free, these bits lag
 * behind: who finds a port taken whose bit is clear sets it, and ageing makes
 * all of them right, which is how they get there from libraries that knew none.
 */
#define NAT_PORT_WORDS (65536 / 64)
struct nat_ports {
	__u64 taken[NAT_PORT_WORDS]; /* a bit for each port */
	/* a bit for each of the words above in which none is free */
	__u64 full[NAT_PORT_WORDS / 64];
};

_Static_assert(sizeof(struct nat_ports) <=
		       OXP_NAT_PORT_MIN * sizeof(struct nat_flow),
	       "room");
/* Words of `full` begin with those of ports that no flow has. */
#define NAT_NEVER_FREE ((1ULL << OXP_NAT_PORT_MIN / 64) - 1)

struct nat_key {
	__be32 client[4];
	__be32 vip[4];
	__be16 client_port;
	__be16 port;
	__u8 protocol;
	__u8 reserved[3];
};

/*
 * Half-open flows of a group in the order in which they began, but for those
 * that were passed once, as they waited still: stamp << 32 | number, at `head`
 * modulo the ring's size the next one. Who takes the place of one that is still
 * half open ends it, so there are never more. Before `tail` there is none, but
 * for one that began at the same moment; it grows when room is looked for, and
 * may be more than a turn behind.
 */
#define NAT_RING OXP_NAT_HALF_OPEN_MAX
struct nat_group {
	__u32 flows; /* ports that the group has, and NAT_TAKEN_OUT */
	__u32 head;
	__u32 tail;
	__u32 flows_v6; /* those of an IPv6 address, and NAT_TAKEN_OUT */
	/* The node's own, in the first two groups: flows of either family which
	 * groups have beyond what is kept for them. Packets count it as they
	 * go, and each tick makes it right. */
	__u32 beyond;
	__u32 looked; /* how far beyond `head` a place was looked for */
	/* The node's own, in the first groups: a bit for each of 64 addresses
	 * that has no free port. It lags behind as those of struct nat_ports
	 * do. */
	__u64 full_addresses;
	__u32 reserved2[8];
	__u64 ring[NAT_RING];
};

_Static_assert(sizeof(struct nat_group) * OXP_NAT_GROUPS == NAT_TABLE_SIZE,
	       "a table");

#define NAT_FLOWS_UNIT 256

/* What a program has of one packet beside its stack. */
struct nat_scratch {
	__u64 words[40];
	__u32 seek_time; /* units of 2^30 ns */
	__u16 seeks;     /* since then, but for those of datagrams */
	__u16 udp_seeks;
	__u16 passed[OXP_NAT_PEERS_MAX]; /* since then, of each peer's */
};

/* Packets a second and CPU whose owner is sought among the peers; datagrams as
 * many besides. */
#define NAT_SEEKS_MAX 20000
/* Packets a second, CPU and peer that another one seeks and that are passed on:
 * what a CPU of that peer may send of both kinds. */
#define NAT_PASSED_MAX (2 * NAT_SEEKS_MAX)

/* Where a flow is that this node does not have: the peer's address. */
struct nat_owner {
	__be32 address[4];
};

struct nat_service {
	__u32 active; /* half open or established, and NAT_TAKEN_OUT */
	__u32 limit;  /* of those; 0: none */
};

struct reply_counters {
	__u64 packets;
	__u64 bytes; /* of IP packets to clients */
};

/*
 * Which slot a flow takes. Every node must come to the same answer, so the
 * seed is a constant. Multiplications spread the 5-tuple over the product
 * (xor-shift and multiply as in MurmurHash3's finalizer); the upper half is
 * scaled to the number of slots, which costs less than a division, and the
 * lower half is the entropy for outer headers and uplinks. Addresses and
 * ports are taken as they lie in the packet, read as little-endian words.
 * `ports` is source << 16 | destination.
 */
#define FLOW_SEED 0x8e38cb5d3a1f6c27ULL

static inline __u64 flow_hash_end(__u64 hash, __u32 ports, __u8 protocol)
{
	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	hash ^= (__u64)protocol << 32 | ports;
	hash *= 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 29;
	hash *= 0xff51afd7ed558ccdULL;
	return hash;
}

static inline __u64 seeded_hash_v4(__be32 source, __be32 destination,
				   __u32 ports, __u8 protocol, __u64 seed)
{
	return flow_hash_end(seed ^ ((__u64)source << 32 | destination), ports,
			     protocol);
}

INLINED __u64 seeded_hash_v6(const __be32 *source, const __be32 *destination,
			     __u32 ports, __u8 protocol, __u64 seed)
{
	__u64 hash = seed ^ ((__u64)source[0] << 32 | source[1]);

	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	hash ^= (__u64)source[2] << 32 | source[3];
	hash *= 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 29;
	hash ^= (__u64)destination[0] << 32 | destination[1];
	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	hash ^= (__u64)destination[2] << 32 | destination[3];
	return flow_hash_end(hash, ports, protocol);
}

static inline __u64 flow_hash_v4(__be32 source, __be32 destination, __u32 ports,
				 __u8 protocol)
{
	return seeded_hash_v4(source, destination, ports, protocol, FLOW_SEED);
}

static inline __u64 flow_hash_v6(const __be32 *source,
				 const __be32 *destination, __u32 ports,
				 __u8 protocol)
{
	return seeded_hash_v6(source, destination, ports, protocol, FLOW_SEED);
}

/* Where the flow lies, of 2^32: neighbours share slots, however many there
 * are. */
static inline __u32 flow_position(__u64 hash)
{
	return hash >> 32;
}

static inline __u32 slot_at(__u32 position, __u32 slots)
{
	return (__u64)position * slots >> 32;
}

static inline __u32 flow_slot(__u64 hash, __u32 slots)
{
	return slot_at(flow_position(hash), slots);
}

static inline __u32 flow_entropy(__u64 hash)
{
	return hash;
}

/* Strangers can make flows collide in the hash above, so names of flows begin
 * with the node's seed, and are mixed once more. */

static inline __u64 flow_tag(__u64 seeded)
{
	seeded ^= seeded >> 32;
	seeded *= 0xc4ceb9fe1a85ec53ULL;
	return seeded ^ seeded >> 29;
}

/* `protocol` is that of the IPv4 header or of the IPv6 fragment header, which
 * may name an extension header. */
INLINED __u64 fragment_name(const __be32 *source, const __be32 *destination,
			    __be32 id, __u8 protocol, __u64 seed)
{
	return flow_tag(
		seeded_hash_v6(source, destination, id, protocol, seed));
}

/* `who`: an IPv4 address, or an IPv6 address's first 64 bits. */
INLINED __u64 source_name(__u64 who, int v6, __u32 service, __u64 seed)
{
	return flow_tag(flow_hash_end(seed ^ who, service, v6));
}

/* The flow's name in `flows`, of a hash with the node's seed and of the index
 * of the service. It has the service's share, so that each set says how much of
 * it a service has. */
#define FLOW_SERVICE 0x9e3779b97f4a7c15ULL

static inline __u64 flow_name(__u64 seeded, __u32 service)
{
	__u64 tag = flow_tag(seeded ^ service * FLOW_SERVICE);

	return (tag & ~FLOW_SHARE) |
	       ((__u64)service << FLOW_SHARE_SHIFT & FLOW_SHARE);
}

#endif
