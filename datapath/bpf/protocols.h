/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Definitions for Ethernet, IP, ICMP and TCP beyond the kernel's headers, for
 * the node's and the member's programs. */
#ifndef OXP_PROTOCOLS_H
#define OXP_PROTOCOLS_H

#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct vlan_tag {
	__be16 tci;
	__be16 type;
};

/* Length of a link header with two VLAN tags. */
#define LINK_MAX (ETH_HLEN + 2 * 4)

#define IP_DONT_FRAGMENT 0x4000
#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff

#define IPV6_MORE_FRAGMENTS 0x0001
#define IPV6_FRAGMENT_OFFSET 0xfff8

/* Maximum number of IPv6 extension headers that are parsed. */
#define EXTENSIONS_MAX 6

/* As in linux/icmp.h, which includes headers of the C library. */
#define ICMP_ECHOREPLY 0
#define ICMP_DEST_UNREACH 3
#define ICMP_SOURCE_QUENCH 4
#define ICMP_REDIRECT 5
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMP_HEADER 8   /* bytes; also for ICMPv6 */
#define ICMP_CHECKSUM 2 /* offset; also for ICMPv6 */

#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTION_MSS 2
#define TCP_OPTION_MSS_LENGTH 4

static __always_inline bool is_vlan(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_8021Q) ||
	       ethertype == bpf_htons(ETH_P_8021AD);
}

static __always_inline bool is_icmp_error(__u8 type, bool v6)
{
	if (v6)
		return type >= ICMPV6_DEST_UNREACH && type <= ICMPV6_PARAMPROB;
	return type == ICMP_DEST_UNREACH || type == ICMP_SOURCE_QUENCH ||
	       type == ICMP_REDIRECT || type == ICMP_TIME_EXCEEDED ||
	       type == ICMP_PARAMETERPROB;
}

/* Offset, in the header of TCP, UDP or ICMPv6, of the checksum that covers the
 * packet's addresses; 0: none. */
static __always_inline __u32 checksum_offset(__u8 protocol, bool v6)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return offsetof(struct tcphdr, check);
	case IPPROTO_UDP:
		return offsetof(struct udphdr, check);
	case IPPROTO_ICMPV6:
		return v6 ? ICMP_CHECKSUM : 0;
	default:
		return 0;
	}
}

/* Replaces the DSCP of a TOS and keeps ECN. */
static __always_inline __u8 tos_with_dscp(__u8 tos, __u8 dscp)
{
	return dscp << 2 | (tos & 3);
}

/* The same for the first two bytes of an IPv6 header. */
static __always_inline __be16 class_with_dscp(__be16 first, __u8 dscp)
{
	return (first & bpf_htons(0xf03f)) | bpf_htons(dscp << 6);
}

#endif
