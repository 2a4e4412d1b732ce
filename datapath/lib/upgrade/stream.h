/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's state as a stream of bytes, independent of the layout: a library
 * imports what a library of any other layout exports. Little-endian; addresses
 * and MAC addresses in network order, IPv4 as ::ffff:a.b.c.d.
 *
 * A stream is STREAM_MAGIC followed by records: struct stream_record and
 * `count` elements of `element` bytes each. Elements may grow at their end: a
 * reader takes the fields it knows, and zeroes for those that an older writer
 * did not know. Data that must not be ignored is in a record of its own with
 * STREAM_MANDATORY: a reader that does not know it refuses the stream and names
 * the record. It skips other unknown records. Changes beyond that increase the
 * number in the magic: a reader refuses streams with another one.
 */
#ifndef OXP_STREAM_H
#define OXP_STREAM_H

#include <stdint.h>

/* The first release with this format; 16 bytes with the terminating zero. */
#define STREAM_MAGIC "OXP-STATE 0.1\n\0"

#define STREAM_MANDATORY 1

struct stream_record {
	char name[16]; /* padded with zeroes */
	uint32_t flags;
	uint32_t element;
	uint64_t count;
};

/* The records, in this order. "service" to "ages" are repeated for each service
 * and belong to the preceding "service". */
#define RECORD_SIZES "sizes"     /* mandatory, first */
#define RECORD_NODE "node"       /* mandatory */
#define RECORD_UPLINKS "uplinks" /* mandatory */
#define RECORD_CHOICES "choices" /* uplinks by choice */
#define RECORD_FORMATS "formats" /* of maps that can be handed over */
#define RECORD_OUTCOMES "outcomes"
#define RECORD_SERVICE "service" /* mandatory */
#define RECORD_MEMBERS "members" /* mandatory */
/* struct stream_tunnel for each of "members", zeroes for members without a
 * tunnel of their own; mandatory if present. */
#define RECORD_TUNNELS "tunnels"
#define RECORD_NETWORKS "networks" /* mandatory if present */
#define RECORD_SLOTS "slots"       /* mandatory; uint16_t */
/* uint16_t, for as many slots as there were before; mandatory if present */
#define RECORD_BEFORE "before"
#define RECORD_AGES "ages" /* uint8_t */
/* uint8_t: with a second chance, whether the member in "before" may have flows
 * of the slot, open or not. */
#define RECORD_CHANGED "changed slots"
#define RECORD_FLOWS "flows"
#define RECORD_END "end" /* mandatory */

struct stream_sizes {
	uint32_t services_max;
	uint32_t members_max;
	uint32_t slots_max;
	uint32_t flows_max;
	uint64_t seed;   /* for names of flows */
	uint64_t ticked; /* CLOCK_BOOTTIME, ms */
	uint32_t idle_timeout_max;
	uint32_t reserved;
	uint64_t watched; /* choices of uplinks whose flows are watched, */
	uint64_t counted; /* and those used for the count */
	uint32_t nat_addresses; /* in pools, in maps that are handed over */
	uint32_t reserved2;
};

struct stream_node {
	uint8_t source_v4[16];
	uint8_t source_v6[16];
	uint8_t entropy_v4;
	uint8_t entropy_v6;
	uint16_t reserved;
	uint32_t flags; /* enum oxp_node_flag */
	uint32_t icmp_rate;
};

struct stream_uplink {
	uint32_t ifindex;
	uint16_t mtu;
	uint8_t own_mac[6];
	uint8_t next_hop_mac_v4[6];
	uint8_t next_hop_mac_v6[6];
	uint16_t vlan[2];
	uint8_t vlans;
	uint8_t reserved[3];
};

struct stream_choices {
	uint8_t v4[64]; /* OXP_NO_CHOICE: none */
	uint8_t v6[64];
};

struct stream_format {
	char name[20];
	uint32_t format;
};

struct stream_outcome {
	uint32_t outcome; /* enum oxp_outcome */
	uint32_t reserved;
	uint64_t packets;
	uint64_t bytes;
};

struct stream_counters {
	uint64_t packets;
	uint64_t bytes;
	uint64_t flows;
};

struct stream_service {
	uint8_t vip[16];
	uint16_t port;
	uint8_t protocol;
	uint8_t encapsulation;
	uint32_t index; /* part of flow names */
	uint32_t slots;
	uint32_t flags; /* enum oxp_service_flag */
	uint64_t generation;
	uint8_t dscp;
	uint8_t source_length_v4; /* 0 without OXP_SERVICE_SOURCE */
	uint8_t source_length_v6;
	uint8_t is_learning;
	uint16_t sid_function;
	uint16_t idle_timeout_s;
	uint32_t new_flow_rate;
	uint32_t new_flow_burst;
	uint16_t learning; /* seconds left */
	uint8_t watch;     /* part of its flows, as in struct service_block */
	uint8_t reserved;
	uint32_t connection_limit; /* 0: no limit */
	struct stream_counters counters;
	uint64_t drops;
	uint32_t nat_flows; /* with OXP_SERVICE_NAT */
	uint16_t nat_group;
	uint16_t reserved2;
	uint64_t flow_table_full;
};

struct stream_member {
	uint8_t address[16];
	uint64_t check;
	uint16_t index; /* as in slots and flows */
	uint16_t weight;
	uint16_t mtu;
	uint8_t admin_up;
	uint8_t backup;
	uint8_t healthy;
	uint8_t known;
	uint16_t port;    /* 0: the service's */
	uint32_t counter; /* index of the node's counter */
	struct stream_counters counters;
};

/* As struct oxp_tunnel. */
struct stream_tunnel {
	uint8_t address[16];
	uint32_t key;
	uint8_t encapsulation; /* enum oxp_encapsulation */
	uint8_t keeps_port;
	uint8_t takes_alternative;
	uint8_t reserved;
};

struct stream_network {
	uint8_t address[16];
	uint8_t length; /* 0 to 32 for IPv4 */
	uint8_t reserved[3];
};

/* Bits of slots; "before" has only members. */
#define STREAM_OPEN 0x8000
#define STREAM_NOBODY 0x7fff

/* The name is flow_name(). Only its bits above 27 and the number of the flow's
 * set are kept. */
struct stream_flow {
	uint64_t name;
	uint32_t age; /* units of 2^30 ns */
	uint16_t member;
	uint8_t confirmed;
	uint8_t ended;
};

struct stream_end {
	uint64_t records; /* before this one */
};

#endif
