/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Layout of the pinned maps, which the BPF programs and the library share.
 *
 * The maps are the node's only forwarding state: every table can be recomputed
 * from them. Change a field only together with OXP_LAYOUT. Integers are in host
 * byte order; __be types and addresses are in network order. An IPv4 address in
 * 16 bytes is ::ffff:a.b.c.d.
 *
 * Maps by name, under which they are pinned in <pin directory>/maps. The
 * library writes those marked "mmap." with plain stores:
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
 *   service_counters ARRAY[possible CPUs], mmap.  union counters, SERVICE_PARTS
 *                    times part_of_slice(services_max)
 *   member_counters  ARRAY[possible CPUs], mmap.  union counters, MEMBER_PARTS
 *                    times part_of_slice(members_max)
 *   pending_counts   ARRAY[possible CPUs], mmap.  struct pending_counts
 *   outcomes         PERCPU_ARRAY[OXP_OUTCOMES]   struct outcome_counters
 *   watched          ARRAY[WATCH_LINES], mmap.    struct watched_set
 *   nat              ARRAY of 1, mmap.            struct nat_pools
 *   nat_tables       ARRAY_OF_MAPS[NAT_TABLES]    ARRAY of 1, mmap., of
 *                    NAT_TABLE_SIZE bytes: one for each pool address, with a
 *                    struct nat_flow per port; the last one has struct
 *                    nat_group. Pinned as nat-0, nat-1 and so on
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

#define OXP_LAYOUT 10

/* For what runs per packet: clang would emit the longer ones as functions,
 * whose call and return cost more than their bodies. */
#define INLINED static inline __attribute__((always_inline))

/*
 * Formats of the maps that packets write. On an upgrade to another layout, a
 * map whose format and size are the same in both libraries is handed over in
 * use; the others are copied. Increase a number with any change of its map's
 * structures, or of the meaning of keys, indices and times in them.
 */
#define FORMAT_FLOWS 3
#define FORMAT_FLOW_NAMES 2 /* flow_name() and its inputs */
#define FORMAT_FRAGMENTS 2
#define FORMAT_SOURCES 2
#define FORMAT_ICMP_BUDGET 2
#define FORMAT_COUNTERS 3
#define FORMAT_OUTCOMES 2
#define FORMAT_WATCHED 1
#define FORMAT_NAT 1 /* pools, flows, their index, peers and owners */
#define FORMAT_NAT_SERVICES 1
#define FORMAT_REPLY_COUNTERS 1

/* All maps: number, name, and the format of what packets write there, or 0. */
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

/* One for the node. The first line is rarely written and is read per packet;
 * the others belong to the library. */
struct node_config {
	__u32 layout;         /* OXP_LAYOUT; 0 after the state was destroyed */
	__u32 flags;          /* enum oxp_node_flag */
	__be32 source_v4;     /* of outer headers; 0: not set */
	__be32 entropy_v4;    /* bits taken from the flow's hash */
	__be32 source_v6[4];  /* all zeroes: not set */
	__be32 entropy_v6;    /* in the last word */
	__u32 icmp_rate;      /* per second, CPU and kind of answer */
	__u64 active_uplinks; /* parity: selects the set that packets read */
	/* One bit for each choice of struct uplink_set: choices whose flows are
	 * watched, and those among them whose flows are counted. */
	__u64 watched;
	__u64 counted;

	__u32 services_max; /* sizes of the maps */
	__u32 members_max;
	__u32 slots_max;
	__u32 flows_max;
	__u32 lookup_mask;      /* buckets of each lookup table, less one */
	__u32 idle_timeout_max; /* seconds, at least every service's: remembered
				 * flows older than this are outdated */
	__u64 seed; /* random, of this node: of buckets and remembered flows */
	__u32 segments;      /* present in `tables` */
	__u32 nat_addresses; /* in pools; 0: the program has no NAT */
	__u64 generation;    /* at least that of every freed block */
	/* First line and number of the slots in most blocks, 0 with few
	 * services: packets prefetch them before they have read the block. */
	__u32 usual_slot_line;
	__u32 usual_slots;
	/* Written by packets: when they last read the clock, recent_units(). */
	__u64 last_asked;

	__u64 epoch;   /* of the current switch, from 1 on */
	__u64 changes; /* grows before services or members come or go */
	__u64 dirty;   /* not 0: a creation or deletion did not finish */
	__u64 uplinks_switched; /* epoch, as in struct service_entry */
	__u64 ticked; /* CLOCK_BOOTTIME, ms, of the last oxp_slots_age() */
	__u32 cpus;   /* with slices of counters */
	__u32 reserved3;
	__u64 waited;   /* packets no longer use what was switched out in this
			 * epoch or earlier */
	__u64 switched; /* last epoch with a switch */
};

/*
 * The outermost header of outgoing packets, ready to be copied: 14, 18 or 22
 * bytes that end with the outer packet's Ethertype. One for IPv4, one for IPv6.
 */
struct uplink {
	__u32 ifindex;
	__u16 mtu;
	__u8 link_length;
	/* Its flows are watched. Read together with link_length as one number,
	 * which is then too large for the fast path. */
	__u8 watched;
	/* The driver sends multi-buffer frames that another device received. */
	__u8 sends_buffers;
	__u8 reserved[7];
	__u8 link[2][24];
};

/* Indexed by the top 6 bits of the entropy word; OXP_NO_UPLINK where the family
 * has no uplink. Choices whose flows are watched refer to a copy of their
 * uplink that has `watched` set, at the end of the array, which has room for
 * one. The inactive set is scratch. */
#define OXP_NO_UPLINK 255
#define OXP_CHOICES 64
struct uplink_set {
	__u8 choice[2][64]; /* IPv4, IPv6: index into uplink[] */
	struct uplink uplink[OXP_UPLINKS_MAX];
};

/*
 * Maps address, port and protocol to a service, and an address alone (port and
 * protocol 0) to a VIP: open-addressing hash tables whose buckets are cache
 * lines. A key's home is bucket_of(). If that bucket is full, the key lies in
 * one of the next HASH_PROBES - 1 buckets (cyclic) and is counted in `overflow`
 * of every bucket from its home to the one before its own, so that a lookup can
 * stop at a bucket with overflow 0.
 *
 * A key is written after its value, and cleared a grace period before its place
 * is reused. The value of a service is the line of its live block: one store
 * switches the whole service. The value of a VIP is its index in vips.
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
	/* twice, so that the ports, at the top, affect the bits used */
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

/* One per VIP. Fragments without ports go to the service of their protocol with
 * the lowest port. */
struct vip_entry {
	__u32 services;           /* 0: free */
	__be16 fragment_port_tcp; /* 0: no service of this protocol */
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
 * Memory for blocks, ages and allowed networks grows in segments, of which
 * there are node_config.segments; none is ever freed. A place is named by its
 * cache line, counted over all segments: `line`. Line 0 is never allocated.
 * Which lines are in use follows from the entries of all services alone.
 */
#define LINE_SIZE 64
#define SEGMENT_SIZE (1U << 23)
#define SEGMENT_LINES (SEGMENT_SIZE / LINE_SIZE)
#define SEGMENTS_MAX 8192

/*
 * One per service; packets do not read it. `place` is the key's place in the
 * lookup table: BUCKET_WAYS * bucket + way. A service has up to two blocks.
 * Only the value in the lookup table says which of them is live; the other is
 * scratch. A block has ages of its own while the number of slots changes, and
 * networks of its own while those change; otherwise both blocks share them.
 */
struct service_entry {
	__u64 switched; /* epoch of the last switch: while it is greater than
			 * `waited`, packets may still read the scratch block */
	__u8 vip[16];
	__be16 port;
	__u8 protocol;
	__u8 state; /* enum entry_state */
	__u32 place;
	__u32 vip_index;
	__u32 block[2];       /* first lines; 0: none */
	__u32 block_lines[2]; /* number of lines */
	__u32 ages[2];
	__u16 ages_lines[2];
	__u32 networks[2]; /* struct network_list */
	__u32 networks_lines[2];
};

/* The outer header for a member. It follows from the encapsulation of its
 * tunnel, or else of the service, and from the family of the outer destination.
 * IPv6 types are odd; the two types of a kind are adjacent. */
enum outer_type {
	OUTER_IPIP_V4,
	OUTER_IPIP_V6, /* also SRv6 */
	OUTER_GUE_V4,
	OUTER_GUE_V6,
	OUTER_GRE_V4,
	OUTER_GRE_V6,
	OUTER_NONE, /* DSCP: the packet's own header is rewritten */
	/* Combined with any of them: the packet's port is rewritten as well.
	 * Not below OUTER_NONE, so that one comparison sends such packets off
	 * the fast path. */
	OUTER_PORT = 8,
	OUTER_GENEVE_V4 = 16,
	OUTER_GENEVE_V6,
};

enum member_flag {
	MEMBER_PRESENT = 1, /* the place in member[] is in use */
	MEMBER_ADMIN_UP = 2,
	MEMBER_HEALTHY = 4, /* as last reported, or as assumed */
	MEMBER_KNOWN = 8,   /* a health check has reported */
	MEMBER_BACKUP = 16,
	/* Computed from the others, for packets: */
	MEMBER_KEEPS_FLOWS = 32, /* admin up and healthy */
	/* May have slots: is up, has a weight, and is no backup while others
	 * serve. A tiny weight may still get none. */
	MEMBER_TAKES_FLOWS = 64,
};

/* Address and port identify a member; with NAT packets read them here. */
struct block_member {
	__be32 outer[4]; /* destination of the outer header, or rewritten */
	__u32 counter;   /* index into member_counters, kept while it stays */
	__u16 mtu;       /* of the outer packet; 0: the uplink's */
	__u8 outer_type; /* enum outer_type, maybe with OUTER_PORT */
	__u8 flags;      /* enum member_flag */
	__be32 address[4];
	__be16 port; /* replaces the service's port; 0: unchanged */
	__u16 weight;
	__u32 key;       /* of the tunnel; SRv6 has it in `outer` as well */
	__u64 check;     /* id of the health check, 0: none */
	__u8 tunnel;     /* its encapsulation plus 1; 0: no tunnel of its own */
	__u8 keeps_port; /* of the tunnel: no OUTER_PORT */
	/* Extra bytes of an outer header that names an alternative; 0: it never
	 * does. Path MTU calculations always include them. */
	__u8 alternative;
	__u8 takes_alternative; /* the tunnel's end understands alternatives */
	__u8 reserved[4];
};

/* What packets read of a member, half a cache line: a copy of block_member,
 * with only those flags that do not change while the block is in use. Ten
 * members take five lines, so caches can hold those of many services. */
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

/* Whether a packet to one of the members can name the other as the next to get
 * it. An endpoint of a member's own tunnel hands nothing on to members without
 * one, nor the other way round. */
static inline int are_alternatives(const struct member_head *one,
				   const struct member_head *other)
{
	return one->alternative && one->alternative == other->alternative &&
	       one->outer_type == other->outer_type &&
	       !one->tunnel == !other->tunnel &&
	       (one->port == other->port || !(one->outer_type & OUTER_PORT));
}

/* Flags of a block in addition to enum oxp_service_flag. */
#define BLOCK_ALLOWED 256  /* check the source against `networks` */
#define BLOCK_LEARNING 512 /* without a SYN, unknown flows are old ones */
#define BLOCK_OPEN 1024    /* slots may be open, as the bitmap says */
#define BLOCK_USED 2048 /* the library has seen that packets were forwarded */
/* With OXP_SERVICE_SECOND_CHANCE: slots may be changed, see below. */
#define BLOCK_CHANGED 4096

/* Slots as single numbers, as the library handles them; maps differ. */
#define SLOT_OPEN 0x8000
#define SLOT_MEMBER 0x7fff
#define SLOT_NOBODY 0x7fff

/*
 * All that a packet needs to know of its service, and all configured members,
 * including those that are down. A member keeps its index while it stays; a
 * freed place may be reused at once. Packets read slots, the bitmap, `before`
 * of open slots, and heads. In the live block the library changes only single
 * words that packets read one at a time: it clears the bit of a slot that has
 * aged out, BLOCK_OPEN when no slot is open any more, BLOCK_LEARNING when its
 * time is over, and changes MEMBER_KNOWN and MEMBER_HEALTHY where no computed
 * flag depends on them.
 *
 * After the header follow, each starting at a cache line:
 *   members  struct block_member, one for each place
 *   heads    struct member_head of each, up to slot_line
 *   slots    at slot_line, `slots` elements of slot_width bytes
 *   bitmap   a bit for each slot, the lowest of the first byte is slot 0's
 *   before   `before_slots` elements of slot_width bytes
 *   changed  with OXP_SERVICE_SECOND_CHANCE: a bit for each slot, as above
 *
 * An element is the index of a member, or of nobody if it is not below
 * `members`. The slot's member takes new flows. In an open slot, older flows
 * may be with other members: `before` has the member of every flow that is not
 * remembered, which may be the slot's own. Either may be nobody: an open slot
 * of nobody has only old flows, of drained members; flows with nobody in
 * `before` are lost, or go to the slot's own member.
 *
 * `before` has a number of slots of its own: the service's before it last
 * changed, so that each flow is still found where it was found then. While the
 * numbers differ, before_slots is constant until all slots are closed, and they
 * close together.
 *
 * With OXP_SERVICE_SECOND_CHANCE `before` stays valid after a slot closes: the
 * slot is changed, as every open one is, and packets that do not open a flow
 * name the other one of its two members.
 */
struct service_block {
	__u64 generation; /* grows with each switch, also across owners */
	__u32 slots;      /* prime, at most slots_max */
	__u32 flags;      /* enum oxp_service_flag, BLOCK_* */
	__u16 members;    /* places of member[] that may be in use */
	__u16 enabled;    /* members with MEMBER_TAKES_FLOWS */
	__u16 slot_line;  /* relative to the block's first line */
	__u8 slot_width;  /* bytes: 1 up to NARROW_PLACES places, else 2 */
	__u8 encapsulation;
	__u32 service; /* index of its entry */
	union {
		__u8 dscp;
		__u8 nat_group; /* of OXP_SERVICE_NAT */
	};
	__u8 watch; /* which flows to note in watched choices: WATCH_PART() */
	union {
		__be16 sid_function;
		/* With OXP_SERVICE_NAT: maximum number of the group's flows, in
		 * units of NAT_FLOWS_UNIT; 0: half of all ports. */
		__u16 nat_flows;
	};
	__u32 networks;      /* line of struct network_list; 0: none */
	__u32 new_flow_rate; /* per second and source; 0: no limit */
	__u32 new_flow_burst;
	__u32 before_slots;
	__u32 ages; /* line of the ages, one byte for each slot */
	__u16 idle_timeout_s;
	__u8 source_length_v4; /* 1 to 32 */
	__u8 source_length_v6; /* 1 to 128 */
	/* used by the library only */
	__u32 allowed_count;
	__u16 open;     /* open slots; 65535: that many or more */
	__u16 learning; /* seconds of BLOCK_LEARNING that are left */
	struct block_member member[];
};

_Static_assert(sizeof(struct service_block) % LINE_SIZE == 0, "whole lines");

#define NARROW_PLACES 255

#define LINES_OF(bytes) (((bytes) + LINE_SIZE - 1) / LINE_SIZE)

#define LINES_OF_HEADS(places) LINES_OF((places) * sizeof(struct member_head))

/* slot_line for this number of places. */
#define LINES_BEFORE_SLOTS(places)                                             \
	(LINES_OF(sizeof(struct service_block) +                               \
		  (places) * sizeof(struct block_member)) +                    \
	 LINES_OF_HEADS(places))

/* Offset in bytes of a member's head in its block. The heads take whole lines
 * of two and end where the slots begin. */
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

/* Each packet that goes to another member than the slot's own sets the byte of
 * an open slot to 0; oxp_slots_age() increments it eight times per idle
 * timeout. At AGE_CLOSED eight whole intervals have passed without such a
 * packet, and the slot is closed. */
#define AGE_CLOSED 9

/*
 * Flows in open slots whose member is not the one in before[]. A set is a cache
 * line; an entry is one word, so that CPUs read and write it atomically:
 *   bits 63-28  name: those bits of flow_name(), of which bits
 *        37-28  are the share: the low bits of the service's index
 *        27-14  time of the last refresh, in units of 2^30 ns of the coarse
 *               monotonic clock
 *        13     ended: the client has sent FIN or RST
 *        12     confirmed: the client has answered the member's SYN-ACK
 *        11-0   index of the member
 * 0 is free. The low bits of the name, below bit 28, select the set.
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
 * Watched flows, to count those that are alive. A set is a cache line; an entry
 * is one word, so that CPUs read and write it atomically:
 *   bits 63-42  tag: those bits of watch_name()
 *        41-22  index of the service
 *        21-16  choice of the uplink
 *        15-2   time of the last refresh, as in struct flow_set
 *        1      seen more than once
 *        0      closed: the client has ended it
 * 0 is free. The name's low bits select the set. The sets are followed by
 * WATCH_LOADS lines: entry[0] counts watched packets, by CPU.
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

/* One in 2^n of a service's flows is noted and one in 2^m counted: n is in the
 * low half of the block's byte; m, at least n, in the high half. */
#define WATCH_PART(noted, counted) ((noted) | (counted) << 4)
#define WATCH_NOTED(watch) ((watch) & 15)
#define WATCH_COUNTED(watch) ((watch) >> 4)
#define WATCH_PART_MAX 15

static inline int watch_has_part(__u64 tag, __u32 part)
{
	return !(tag & ((1U << part) - 1));
}

/* Named by entropy and ports, as with OXP_SERVICE_SOURCE the entropy does not
 * depend on the ports. `seed` is the node's. */
static inline __u64 watch_name(__u32 entropy, __u32 ports, __u64 seed)
{
	seed ^= (__u64)entropy << 32 | ports;
	seed *= 0xff51afd7ed558ccdULL;
	seed ^= seed >> 32;
	seed *= 0xc4ceb9fe1a85ec53ULL;
	return seed ^ seed >> 29;
}

/* A set of a table that all services share (share_set.h), for what packets
 * leave for later ones. The tag is the element's name; its low bits select the
 * set. */
struct shared_set {
	__u64 tag[SHARE_WAYS];
	__u64 state[SHARE_WAYS];
	__u64 value[SHARE_WAYS];
};
#define SHARE_BUSY 0xffff /* in a state: a CPU is writing the other words */

/*
 * First fragments, by fragment_name(). The owner is the VIP, or with NAT the
 * project's group. The low 16 bits of the state are the service's protocol, and
 * the value is then
 *   bits 63-48  its port, in network order
 *        47-32  member, index within the service
 *        31-0   index of the service
 * With FRAGMENT_OF_NAT the value is the number of the flow. With
 * FRAGMENT_OF_PEER its low half is the list index of the peer that has the
 * flow, and bits 63-48 are the client's port.
 */
#define FRAGMENT_SETS 4096
#define FRAGMENT_AGE_MAX 114441 /* 120 s: RFC 1122, section 3.3.2 */
#define FRAGMENT_OF_NAT 0x100
#define FRAGMENT_OF_PEER 0x200
/* Further owners, beside indices of VIPs; those with equal low bits share. A
 * group, or the number of a pool's address for members' fragments whose flow,
 * and therefore whose group, is on another node. */
#define FRAGMENT_VIP 0x7fff
#define FRAGMENT_GROUP 0x8000
#define FRAGMENT_POOL 0xc000

static inline __u64 fragment_value(__u32 low, __u16 member, __be16 port)
{
	return (__u64)port << 48 | (__u64)member << 32 | low;
}

/*
 * The networks that a service allows, in lines of their own, so that a change
 * of health need not copy them. Packets search the networks' bounds: for each
 * family the sorted last addresses of ranges that are alternately outside and
 * inside of all networks. An address is inside if the number of bounds below it
 * is odd, or even if address 0 is inside. There are 2^n - 1 bounds, padded with
 * the greatest address, so that a search always takes n halvings.
 *
 *   bounds of IPv4   from BOUNDS_V4 on, __u32 each, in host byte order
 *   bounds of IPv6   at bounds_v6, struct bound_v6
 *   networks         at `networks`, struct oxp_network, `count` of them: as
 *                    given, masked and sorted
 *
 * Offsets are in bytes from the start of the list.
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
	__u64 high, low; /* halves of the address, in host byte order */
};

/* In one list: a network has at most two bounds. */
#define BOUNDS_STEPS 18
_Static_assert(2 * OXP_ALLOWED_MAX < 1 << BOUNDS_STEPS, "steps");

/* Budgets of new flows, by source_name(). The owner is the service; the value
 * is a union source_budget, which may be forgotten once it is full. */
#define SOURCE_SETS 8192
#define SOURCE_AGE_MAX 0xffffffff /* none is too old */
#define SOURCE_KNOWN 1

union source_budget {
	struct {
		__u32 flows; /* allowance, times 1024 */
		__u32 time;  /* of the last refill, ms of the coarse clock */
	};
	__u64 word;
};

struct quic_key {
	__u32 service; /* index */
	__be32 server_id;
};

/* Replies that the node sends itself, each kind with its own budget. */
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

/* A source may use an eighth of each budget. Sources are hashed to counters
 * with a secret seed, so that nobody can tell which sources share one. */
#define ANSWER_SHARE 8
#define ANSWER_SOURCES 256

struct answer_budget {
	struct answers_sent to_all;
	struct answers_sent to_source[ANSWER_SOURCES];
};

/* The counter of an IPv4 address, or of an IPv6 address's first 64 bits. */
static inline __u32 answer_source(__u64 who, __u64 seed)
{
	return bucket_of_v4(who, seed) % ANSWER_SOURCES;
}

/* Added to counters by the library while packets count (add_counters.bpf.c). */
struct addition {
	__u32 map; /* enum added_map */
	__u32 index;
	__u64 packets;
	__u64 bytes;
	__u64 flows;
	__u64 drops;
	__u64 flow_table_full;
};
#define ADDITIONS_MAX 64 /* per run */

enum added_map {
	ADDED_SERVICE,
	ADDED_MEMBER,  /* neither drops nor flow_table_full */
	ADDED_OUTCOME, /* packets and bytes alone */
};

/*
 * Counters of services and members: plain arrays with a slice for each CPU, so
 * that adding needs no lock. A slice is whole pages, so that no two CPUs write
 * the same line. The kernel's per-CPU arrays would place slices on the NUMA
 * nodes of their CPUs, but cost a packet two waits: for the pointer to an
 * element, and for the element. Here a slice may be on another NUMA node.
 *
 * Counters of every packet and counters of rare events are apart, so that
 * caches hold more of the former: the first part of a slice has the traffic,
 * the second the events. Services have a third part for rarer events.
 */
struct traffic_counters {
	__u64 packets;
	__u64 bytes; /* of clients' IP packets */
};

struct event_counters {
	__u64 flows; /* TCP SYN without ACK, SCTP INIT, QUIC Initial */
	/* Packets of a service with an OXP_DROP_… outcome, which no other field
	 * counts. Unused for members. */
	__u64 drops;
};

struct rare_counters {
	__u64 flow_table_full; /* packets with OXP_FLOW_TABLE_FULL */
	__u64 reserved;
};

union counters {
	struct traffic_counters traffic;
	struct event_counters events;
	struct rare_counters rare;
};

#define SERVICE_PARTS 3
#define MEMBER_PARTS 2

#define SLICE_UNIT (4096 / sizeof(union counters))

/* Elements in a part of a slice for `count` services or members. */
static inline __u32 part_of_slice(__u32 count)
{
	return (count + SLICE_UNIT - 1) / SLICE_UNIT * SLICE_UNIT;
}

static inline __u32 slice_size(__u32 count, __u32 parts)
{
	return parts * part_of_slice(count) * sizeof(union counters);
}

/*
 * With many services no cache holds the counters of a packet, and each packet
 * would wait for them. On such nodes a CPU therefore queues PENDING_COUNTS
 * additions and then executes them together: independent additions wait side by
 * side. Pending additions are part of the counters: a reader adds them, and
 * tells from `turns`, which is odd while the CPU adds, whether they were added
 * meanwhile. `count` is incremented after its entry was written.
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

/* Bytes are those of whole frames as received, from the Ethernet header on.
 * This holds also for frames that the program answered, and for those without
 * an IP packet whose length could be trusted. */
struct outcome_counters {
	__u64 packets;
	__u64 bytes;
};

/*
 * NAT. Each address of a pool has a number: below OXP_NAT_ADDRESSES_MAX for
 * IPv4, from there on for IPv6. It is the number of its table, which has a flow
 * for each port. The number of a flow is the address's number times 65536 plus
 * the port. In lookup tables the address is a VIP whose value has LOOKUP_POOL.
 */
#define LOOKUP_POOL 0x80000000
#define NAT_ADDRESSES (2 * OXP_NAT_ADDRESSES_MAX)
#define NAT_GROUPS_TABLE NAT_ADDRESSES /* of struct nat_group */
#define NAT_TABLES (NAT_ADDRESSES + 1)
#define NAT_TABLE_SIZE (1U << 23)

/* The nodes that hand packets on to each other, in that order. Such a packet
 * travels behind an outer IP header and a GRE header. */
struct nat_peer_list {
	__u32 count;
	__u32 own; /* index of this node's address; `count` if it has none */
	__u32 reserved[14];
	__be32 address[OXP_NAT_PEERS_MAX][4];
};

/* Idle times after which flows end, in units of 2^30 ns. 0 (written by older
 * libraries): the constants below. */
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
	__u32 live_peers; /* parity: selects the list that packets read */
	struct nat_timeouts timeouts;
	/* Until this time, units of 2^30 ns, datagrams of unknown flows are
	 * looked for on the peers; 0 (also from older libraries): never. */
	__u32 seek_udp_until;
	/* By family: ports that are kept for each group, and the maximum that
	 * all groups together may use beyond that. Both 0 (also from older
	 * libraries): nothing is kept. */
	__u32 kept[2];
	__u32 beyond_most[2];
	/* The flow that the library is ending, or 0: what to repair if the
	 * library dies meanwhile. */
	__u32 ending;
	__u32 reserved;
	struct nat_peer_list peer_list[2];
	__u16 number[2][OXP_NAT_ADDRESSES_MAX];
	/* used by the library only: */
	__u8 length[NAT_ADDRESSES]; /* of the prefix; 0: the number is free */
	__be32 address[NAT_ADDRESSES][4];
};

/*
 * State of a flow, one word that is exchanged atomically: enum nat_state,
 * flags, and 16 bits of the stamp, so that it cannot be mistaken for that of an
 * earlier flow. Other fields but `seen` are written while the state is
 * NAT_CLAIMED.
 */
enum nat_state {
	NAT_FREE = 0,
	NAT_CLAIMED = 1, /* the claimant is about to fill or free it */
	NAT_HALF_OPEN = OXP_NAT_HALF_OPEN,
	NAT_ESTABLISHED = OXP_NAT_ESTABLISHED,
	NAT_TIME_WAIT = OXP_NAT_TIME_WAIT,
};
#define NAT_STATE 0xff
#define NAT_REPLIED 0x100    /* the member has answered */
#define NAT_FIN_CLIENT 0x200 /* the client has sent a FIN */
#define NAT_FIN_MEMBER 0x400
#define NAT_FIN (NAT_FIN_CLIENT | NAT_FIN_MEMBER)
#define NAT_RESET 0x800 /* by a RST in NAT_TIME_WAIT */
/* Set since NAT_RESET: the end has sent something else. */
#define NAT_SINCE_CLIENT 0x1000
#define NAT_SINCE_MEMBER 0x2000
#define NAT_SINCE (NAT_SINCE_CLIENT | NAT_SINCE_MEMBER)
#define NAT_STAMP_SHIFT 16
/* With NAT_CLAIMED, for a flow that the library ends: counts that still include
 * it. */
#define NAT_ENDED 0x100 /* the library is ending it */
#define NAT_IN_FLOWS 0x200
#define NAT_IN_FLOWS_V6 0x400
#define NAT_IN_ACTIVE 0x800
/* Flag in those counts: the library has just subtracted the flow being ended,
 * but not yet recorded that in the flow's state. Not part of the number. */
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
	__u32 entropy; /* of the client's flow: the uplink of both directions */
	__u32 stamp;
	__u16 member_index;
	__u16 group;
	__u32 timeout; /* idle timeout once established, from the service when
			* the flow began: the service may be gone */
	/* in NAT_TIME_WAIT: the client's sequence number, with 1 for 0; 0 if
	 * unknown, as also older programs leave it */
	__u32 sequence;
	__u32 reserved2[10];
};

_Static_assert(sizeof(struct nat_flow) * 65536 == NAT_TABLE_SIZE, "a table");

/*
 * Free ports of an address, so that one is found however few there are. Stored
 * in the place of flows of the ports below OXP_NAT_PORT_MIN, which are never
 * used. Only the flows' states are authoritative; these bits lag behind. A CPU
 * that finds a taken port whose bit is clear sets the bit, and ageing corrects
 * all of them, also those that older libraries left unset.
 */
#define NAT_PORT_WORDS (65536 / 64)
struct nat_ports {
	__u64 taken[NAT_PORT_WORDS]; /* a bit for each port */
	/* a bit for each of the words above without a free port */
	__u64 full[NAT_PORT_WORDS / 64];
};

_Static_assert(sizeof(struct nat_ports) <=
		       OXP_NAT_PORT_MIN * sizeof(struct nat_flow),
	       "room");
/* Bits of `full` for words of ports that no flow can have. */
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
 * Half-open flows of a group in the order in which they began, except those
 * that were passed over once while still half open. An element is stamp << 32 |
 * number; `head` modulo the ring's size is the next one. Taking the place of a
 * flow that is still half open ends that flow, so there are never more than
 * NAT_RING. There are none before `tail`, except for one that began at the same
 * moment. `tail` advances when room is looked for, and may be more than a turn
 * behind.
 */
#define NAT_RING OXP_NAT_HALF_OPEN_MAX
struct nat_group {
	__u32 flows; /* ports used by the group, and NAT_TAKEN_OUT */
	__u32 head;
	__u32 tail;
	__u32 flows_v6; /* those of IPv6 addresses, and NAT_TAKEN_OUT */
	/* For the node as a whole, in the first two groups: flows of either
	 * family beyond what is kept for their groups. Packets keep the count,
	 * each tick corrects it. */
	__u32 beyond;
	__u32 looked; /* places from `head` to here were found waiting */
	/* For the node as a whole, in the first groups: a bit for each of 64
	 * addresses without a free port. Lags behind as the bits of struct
	 * nat_ports do. */
	__u64 full_addresses;
	__u32 reserved2[8];
	__u64 ring[NAT_RING];
};

_Static_assert(sizeof(struct nat_group) * OXP_NAT_GROUPS == NAT_TABLE_SIZE,
	       "a table");

#define NAT_FLOWS_UNIT 256

/* A program's memory for a packet beside its stack, and its limits. */
struct nat_scratch {
	__u64 words[40];
	__u32 seek_time; /* units of 2^30 ns */
	__u16 seeks;     /* since seek_time, without datagrams */
	__u16 udp_seeks;
	__u16 passed[OXP_NAT_PEERS_MAX]; /* since seek_time, by peer */
};

/* Maximum packets per second and CPU whose owner is looked for on the peers;
 * datagrams have the same limit of their own. */
#define NAT_SEEKS_MAX 20000
/* Maximum packets per second, CPU and peer that are passed on for a peer that
 * is looking for their owner: what one of its CPUs may send of both kinds. */
#define NAT_PASSED_MAX (2 * NAT_SEEKS_MAX)

/* Address of the peer that has a flow that this node does not have. */
struct nat_owner {
	__be32 address[4];
};

struct nat_service {
	__u32 active; /* half open or established, and NAT_TAKEN_OUT */
	__u32 limit;  /* maximum of those; 0: none */
};

struct reply_counters {
	__u64 packets;
	__u64 bytes; /* of IP packets to clients */
};

/*
 * Which slot a flow takes. Every node must get the same result, so the seed is
 * a constant. Multiplications mix the 5-tuple (xor-shift and multiply as in
 * MurmurHash3's finalizer). The upper half of the product is scaled to the
 * number of slots, which is cheaper than a division; the lower half is the
 * entropy for outer headers and uplinks. Addresses and ports are taken as they
 * are in the packet, read as little-endian words. `ports` is source << 16 |
 * destination.
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

/* Position in 2^32: neighbours share slots, however many there are. */
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

/* Attackers can find collisions of the hash above, so names of flows start from
 * the node's seed and are mixed once more. */

static inline __u64 flow_tag(__u64 seeded)
{
	seeded ^= seeded >> 32;
	seeded *= 0xc4ceb9fe1a85ec53ULL;
	return seeded ^ seeded >> 29;
}

/* `protocol` is that of the IPv4 header or of the IPv6 fragment header, where
 * it may be an extension header. */
INLINED __u64 fragment_name(const __be32 *source, const __be32 *destination,
			    __be32 id, __u8 protocol, __u64 seed)
{
	return flow_tag(
		seeded_hash_v6(source, destination, id, protocol, seed));
}

/* `who` is an IPv4 address, or an IPv6 address's first 64 bits. */
INLINED __u64 source_name(__u64 who, int v6, __u32 service, __u64 seed)
{
	return flow_tag(flow_hash_end(seed ^ who, service, v6));
}

/* The flow's name in `flows`, from a hash with the node's seed and the index of
 * the service. It includes the service's share, so that each set tells how much
 * of it a service uses. */
#define FLOW_SERVICE 0x9e3779b97f4a7c15ULL

static inline __u64 flow_name(__u64 seeded, __u32 service)
{
	__u64 tag = flow_tag(seeded ^ service * FLOW_SERVICE);

	return (tag & ~FLOW_SHARE) |
	       ((__u64)service << FLOW_SHARE_SHIFT & FLOW_SHARE);
}

/* Of a simulation's program, in no pinned map: the decisions on one packet. */
struct decision_record {
	__u64 count;
	struct oxp_decision decision[OXP_DECISIONS_MAX];
};

#endif
