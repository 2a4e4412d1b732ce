/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The member's maps, whose contents member.h describes, and counting. */
#ifndef OXP_MEMBER_MAPS_H
#define OXP_MEMBER_MAPS_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "member.h"

const volatile struct member_config config;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBER_VIPS_MAX + MEMBER_OWN_MAX);
	__type(key, struct ip_address);
	__type(value, __u8);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MEMBER_VIP_NETWORKS_MAX);
	__type(key, struct member_network);
	__type(value, __u8);
} vip_networks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * MEMBER_NODES_MAX);
	__type(key, struct member_network);
	__type(value, __u8);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBER_PORTS_MAX);
	__type(key, struct member_port_key);
	__type(value, __be16);
} ports_in SEC(".maps"), ports_out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MEMBER_DSCPS);
	__type(key, __u32);
	__type(value, struct member_dscp);
} dscp SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMBER_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(enum member_counter which)
{
	__u32 index = which;
	__u64 *packets = bpf_map_lookup_elem(&counters, &index);

	if (packets)
		++*packets;
}

static __always_inline bool address_is(const struct ip_address *address,
				       enum member_address_is what)
{
	__u8 *is = bpf_map_lookup_elem(&addresses, address);

	return is && (*is & what);
}

/* Networks cost a second look-up, so members without any do not pay for it. */
static __always_inline bool is_vip(const struct ip_address *address)
{
	struct member_network key = {.bits = 128};

	if (address_is(address, MEMBER_ADDRESS_VIP))
		return true;
	if (!config.has_vip_networks)
		return false;
	key.address = *address;
	return bpf_map_lookup_elem(&vip_networks, &key) &&
	       !address_is(address, MEMBER_ADDRESS_OWN);
}

#endif
