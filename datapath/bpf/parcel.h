/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet that was selected for a member: all that sending it takes. */
#ifndef OXP_PARCEL_H
#define OXP_PARCEL_H

#include "parse.h"

/*
 * Head: the first 8 bytes of the packet's IPv4 header as one word, or those
 * that an IPv6 packet would have in IPv4: version and ihl, TOS, length, id,
 * flags and offset, from the low bits up.
 */
#define HEAD_TOS 0xff00ULL
#define HEAD_ID 0xffff00000000ULL
#define HEAD_DF (0x40ULL << 48)

/* Passed to functions of its own by reference, so without holes. */
struct parcel {
	__u64 head;
	__u32 block;  /* of the service: 2 * index + parity */
	__u32 member; /* index within the service */
	__u32 entropy;
	__u32 l3; /* offsets, as in struct packet */
	__u32 l4;
	__u8 protocol;
	__u8 v6;
	__u8 kind; /* enum packet_kind */
	__u8 opens_flow;
};

static __always_inline __u64 head_of_v4(const struct iphdr *ip)
{
	return *(const __u64 *)ip;
}

static __always_inline __u64 head_of_v6(const struct ipv6hdr *ip)
{
	__u32 class = bpf_ntohs(*(const __be16 *)ip) >> 4 & 0xff;
	__u32 length = bpf_ntohs(ip->payload_len) + sizeof(*ip);

	/* 65536 bytes and more do not fit frames */
	return 0x45 | class << 8 | (__u64)bpf_htons(length) << 16 | HEAD_DF;
}

static __always_inline __u32 head_length(__u64 head)
{
	return bpf_ntohs((__u16)(head >> 16));
}

static __always_inline __u8 head_tos(__u64 head)
{
	return head >> 8;
}

#endif
