/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the member's programs and its tool.
 *
 * Addresses are 16 bytes in network byte order, IPv4 as ::ffff:a.b.c.d; ports
 * are in network byte order. Every map belongs to one load of the programs and
 * is filled before they are attached, except `counters`, which a new load takes
 * over from the old one, and `record`.
 *
 *   addresses  HASH      struct ip_address      __u8 enum member_address_is
 *   vip_networks LPM_TRIE struct member_network     __u8, unused
 *   nodes      LPM_TRIE  struct member_network      __u8 enum
 *                                                   member_network_is
 *   ports_in   HASH      struct member_port_key     __be16 member's port
 *   ports_out  HASH      struct member_port_key     __be16 listener's port
 *   dscp       ARRAY     family (0: IPv4, 1: IPv6) * 64 + DSCP
 *                                                   struct member_dscp
 *   counters   PERCPU_ARRAY  enum member_counter    __u64
 *   record     ARRAY of 1                           the tool's, see record.h
 */
#ifndef OXP_MEMBER_H
#define OXP_MEMBER_H

#include <linux/types.h>

#include "ip_address.h"

/* Names of the programs in the kernel. */
#define MEMBER_XDP "oxp_member_xdp" /* decapsulation, XDP */
#define MEMBER_IN "oxp_member_in"   /* decapsulation, tc ingress */
#define MEMBER_OUT "oxp_member_out" /* replies, tc egress */

#define MEMBER_VIPS_MAX 256
#define MEMBER_VIP_NETWORKS_MAX 64
#define MEMBER_OWN_MAX 64
#define MEMBER_NODES_MAX 256
#define MEMBER_PORTS_MAX 256
#define MEMBER_DSCPS 64

/* GUE variant 1: the packet follows the UDP header. */
#define MEMBER_GUE_PORT 6080
#define MEMBER_GENEVE_PORT 6081
/* Maximum bytes between the outer and the inner IP header. */
#define MEMBER_SHIM_MAX 16
/* The same with an alternative, over IPv4 and IPv6. */
#define MEMBER_SHIM_NAMED_V4 (MEMBER_SHIM_MAX + 12)
#define MEMBER_SHIM_NAMED_MAX (MEMBER_SHIM_MAX + 24)

enum member_address_is {
	MEMBER_ADDRESS_OWN = 1, /* destination of outer headers */
	MEMBER_ADDRESS_VIP = 2, /* destination of inner headers */
};

/* Purpose of a network in `nodes`. */
enum member_network_is {
	MEMBER_NETWORK_NODE = 1, /* LB nodes: outer source */
	/* Members of the same services: destinations for handing packets on,
	 * and outer sources of packets that other members handed on. */
	MEMBER_NETWORK_MEMBER = 2,
};

struct member_network {
	__u32 bits; /* prefix length, of 128; host byte order */
	struct ip_address address;
};

struct member_port_key {
	struct ip_address vip;
	__be16 port;
	__u8 protocol;
	__u8 reserved;
};

struct member_dscp {
	struct ip_address vip;
	__u32 used;
};

/* Offsets in bytes at which the kernel keeps what a socket has sent and
 * received; 0: unknown. */
struct member_socket {
	__u32 sent;
	__u32 received;
};

/* Read-only data of the programs. */
struct member_config {
	__u16 mss_v4; /* largest MSS over IPv4; 0: not clamped */
	__u16 mss_v6;
	__u8 any_source; /* do not check the outer source */
	__u8 has_ports;
	__u8 has_dscp;
	__u8 hands_on; /* networks of other members are configured */
	__u8 has_vip_networks;
	/* For tests: behave as on kernels before 6.3, where a tc program cannot
	 * set the IP version of the inner packet. */
	__u8 old_adjust_room;
	struct member_socket closed;  /* of struct tcp_timewait_sock */
	struct member_socket opening; /* of struct tcp_request_sock */
};

/*
 * PASS leaves a packet unchanged to the stack. Every other result of a received
 * packet is counted here; packets that are neither a tunnel to an own address
 * nor marked with one of our DSCPs are not counted. This list: packets taken,
 * by encapsulation.
 */
#define MEMBER_TAKEN_LIST(X)                                                   \
	X(TAKEN_IPIP, "taken_ipip", "IPIP or SRv6, decapsulated")              \
	X(TAKEN_GUE, "taken_gue", "GUE, decapsulated")                         \
	X(TAKEN_GRE, "taken_gre", "GRE, decapsulated")                         \
	X(TAKEN_GENEVE, "taken_geneve", "Geneve, decapsulated")                \
	X(TAKEN_DSCP, "taken_dscp", "DSCP, given the VIP back")

/* All counters. */
#define MEMBER_COUNTER_LIST(X)                                                 \
	MEMBER_TAKEN_LIST(X)                                                   \
	X(PORT_IN, "port_in", "of these, listener's port to member's port")    \
	X(PORT_OUT, "port_out", "answers, member's port to listener's port")   \
	X(ERROR_IN, "error_in", "ICMP errors whose quoted port was rewritten") \
	X(ERROR_OUT, "error_out", "ICMP errors sent, the same")                \
	X(MSS_OUT, "mss_out", "SYN and SYN-ACK whose MSS was lowered")         \
	X(PASSED_FRAGMENT, "passed_fragment",                                  \
	  "fragments of tunnel packets, left to the stack")                    \
	X(PASSED_NOT_VIP, "passed_not_vip",                                    \
	  "tunnel packets to no configured VIP, left to the stack")            \
	X(DROP_SOURCE, "drop_source",                                          \
	  "tunnel packets from outside the allowed networks")                  \
	X(DROP_MALFORMED, "drop_malformed",                                    \
	  "tunnel packets whose lengths or checksum are wrong")                \
	X(DROP_ECN, "drop_ecn",                                                \
	  "congestion marked outside, not understood inside (RFC 6040)")       \
	X(DROP_FAILED, "drop_failed", "the kernel refused the change")         \
	X(HANDED_ON, "handed_on",                                              \
	  "packets of flows that are not here, sent to their alternative")     \
	X(SECOND_CHANCE, "second_chance",                                      \
	  "of the taken ones: another member handed them on")                  \
	X(KEPT, "kept",                                                        \
	  "of the taken ones: not here, and not handed on to an "              \
	  "alternative outside the members' networks")

enum member_counter {
#define X(name, text, what) MEMBER_##name,
	MEMBER_COUNTER_LIST(X)
#undef X
	MEMBER_COUNTERS,
};

#endif
