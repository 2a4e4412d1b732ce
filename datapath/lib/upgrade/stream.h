/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a node as a stream of bytes, at the level of meaning: what one
 * library exports another one of any layout imports. Little-endian, addresses
 * and MAC addresses as on the wire, IPv4 as ::ffff:a.b.c.d.
 *
 * A stream is STREAM_MAGIC, then records: struct stream_record and `count`
 * elements of `element` bytes each. Elements may grow at their end: a reader
 * takes what it knows, and zeroes for what an older writer did not know. What
 * must not be ignored comes in a record of its own with STREAM_MANDATORY: a
 * reader that does not know such a record refuses the stream, and says which.
 * Others it skips. The magic's number grows when that is not enough: a reader
 * refuses another one.
 */
#ifndef OXP_STREAM_H
#define OXP_STREAM_H

#include <stdint.h>

/* The release that had this form first; 16 bytes with the last zero. */
#define STREAM_MAGIC "OXP-STATE 0.1\n\0"

#define STREAM_MANDATORY 1

struct stream_record {
	char name[16]; /* filled up with zeroes */
	uint32_t flags;
	uint32_t element;
	uint64_t count;
};

/* The records, in this order. "service" to "ages" come again for each service
 * and are about the last "service". */
#define RECORD_SIZES "sizes"     /* mandatory, first */
#define RECORD_NODE "node"       /* mandatory */
#define RECORD_UPLINKS "uplinks" /* mandatory */
#define RECORD_CHOICES "choices" /* which uplink takes what */
#define RECORD_FORMATS "formats" /* of maps that can be handed over */
#define RECORD_OUTCOMES "outcomes"
#define RECORD_SERVICE "service" /* mandatory */
#define RECORD_MEMBERS "members" /* mandatory */
/* struct stream_tunnel, one for each of "members" and zeroes of those without a
 * tunnel of their own; mandatory if it is there. */
#define RECORD_TUNNELS "tunnels"
#define RECORD_NETWORKS "networks" /* mandatory if it is there */
#define RECORD_SLOTS "slots"       /* mandatory; uint16_t */
/* uint16_t, as many as slots there were before; mandatory if it is there */
#define RECORD_BEFORE "before"
#define RECORD_AGES "ages" /* uint8_t */
/* uint8_t: with a second chance, whether "before" may have flows of the slot,
 * open or not. */
#define RECORD_CHANGED "changed slots"
#define RECORD_FLOWS "flows"
#define RECORD_END "end" /* mandatory */

struct stream_sizes {
	uint32_t services_max;
	uint32_t members_max;
	uint32_t slots_max;
	uint32_t flows_max;
	uint64_t seed;   /* of names of flows */
	uint64_t ticked; /* CLOCK_BOOTTIME, ms */
	uint32_t idle_timeout_max;
	uint32_t reserved;
	uint64_t watched; /* choices of uplinks whose flows are watched, */
	uint64_t counted; /* and those of which the count is made */
	uint32_t nat_addresses; /* of pools, in maps that are handed over */
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
	uint32_t index; /* part of names of flows */
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
	uint16_t learning; /* s that are left */
	uint8_t watch;     /* which part of its flows, as in the tables */
	uint8_t reserved;
	uint32_t connection_limit; /* 0: none */
	struct stream_counters counters;
	uint64_t drops;
	uint32_t nat_flows; /* with OXP_SERVICE_NAT */
	uint16_t nat_group;
	uint16_t reserved2;
};

struct stream_member {
	uint8_t address[16];
	uint64_t check;
	uint16_t index; /* what slots and flows name */
	uint16_t weight;
	uint16_t mtu;
	uint8_t admin_up;
	uint8_t backup;
	uint8_t healthy;
	uint8_t known;
	uint16_t port;    /* 0: the service's */
	uint32_t counter; /* which one of the node's */
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
	uint8_t length; /* of 32 bits for IPv4 */
	uint8_t reserved[3];
};

/* Bits of slots; "before" has only members. */
#define STREAM_OPEN 0x8000
#define STREAM_NOBODY 0x7fff

/* The name is flow_name(), of which only some bits are kept: those above bit 27
 * and the number of the flow's set. */
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
