/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of host.h. The library sets the real sizes when it creates the
 * state; maps that are indexed by hashes have powers of two. */
#ifndef OXP_HOST_MAPS_H
#define OXP_HOST_MAPS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "host.h"
#include "map_types.h"

/* A section of the program's data: a map of one element that needs no lookup.
 */
struct host_settings settings SEC(".data.settings");

MMAPPED_ARRAY(entries, 1, struct host_entry);
MMAPPED_ARRAY(ports, 1, struct host_port);
MMAPPED_ARRAY(rules, 2, struct host_rules);
MMAPPED_ARRAY(flows, 1, struct host_flow_set);
MMAPPED_ARRAY(half_open, 1, struct host_flow_set);
MMAPPED_ARRAY(flow_clients, 1, struct host_clients);
MMAPPED_ARRAY(half_open_clients, 1, struct host_clients);
MMAPPED_ARRAY(fragments, HOST_FRAGMENT_SETS, struct host_fragment_set);

HASH_TABLE(keys, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1, __u32, __u32);
HASH_TABLE(listeners, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1,
	   struct host_listener_key, struct host_listener);
HASH_TABLE(networks, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 1024,
	   struct host_network, __u32);
HASH_TABLE(proxies, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 1024,
	   struct host_network, __u32);
HASH_TABLE(peers, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 1024,
	   struct host_network, __u32);
HASH_TABLE(sets, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 262144,
	   struct host_set_network, __u8);
HASH_TABLE(drops, BPF_MAP_TYPE_LRU_HASH, 0, 8192, struct host_drop_key, __u64);

PER_CPU_ARRAY(counters, 1, struct host_counters);
PER_CPU_ARRAY(outcomes, HOST_OUTCOMES, __u64);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} traced SEC(".maps");

#define ELEMENT(name)                                                          \
	static __always_inline typeof(*(name).value) *name##_at(__u32 place)   \
	{                                                                      \
		return bpf_map_lookup_elem(&(name), &place);                   \
	}
ELEMENT(entries)
ELEMENT(ports)
ELEMENT(rules)
ELEMENT(counters)
#undef ELEMENT

static __always_inline __u32 *find_key(__u32 key)
{
	return bpf_map_lookup_elem(&keys, &key);
}

static __always_inline bool is_used(const struct host_entry *entry)
{
	return entry->used == HOST_ENTRY_USED;
}

/* Whether the address is in a network of LB nodes, of any number of these. */
static __always_inline bool is_in_networks(const struct ip_address *address)
{
	struct host_network key = {.bits = 128, .address = *address};

	return bpf_map_lookup_elem(&networks, &key);
}

/* The same of LB nodes or proxy nodes. */
__noinline int find_network(const struct ip_address *address)
{
	struct host_network key = {.bits = 128};

	if (!address)
		return false;
	key.address = *address;
	return is_in_networks(address) || bpf_map_lookup_elem(&proxies, &key);
}

/* The same, but tries the most common networks of LB nodes first. */
static __always_inline bool is_of_node(const struct ip_address *address,
				       const struct host_settings *node)
{
	const __u64 *word = (const __u64 *)address;

	for (__u32 i = 0; i < HOST_NODES_MAX; i++) {
		const struct host_nodes *one = &node->nodes[i];

		if (i >= READ_ONCE(node->nodes_count))
			break;
		if (!(((word[0] & one->mask[0]) ^ one->address[0]) |
		      ((word[1] & one->mask[1]) ^ one->address[1])))
			return true;
	}
	return find_network(address);
}

/* Whether the address is in a network of other hypervisors. */
static __always_inline bool is_of_peer(const struct ip_address *address)
{
	struct host_network key = {.bits = 128, .address = *address};

	return bpf_map_lookup_elem(&peers, &key);
}

static __always_inline bool same_address(const struct ip_address *one,
					 const struct ip_address *other)
{
	const __u64 *left = (const __u64 *)one, *right = (const __u64 *)other;

	return !((left[0] ^ right[0]) | (left[1] ^ right[1]));
}

#endif
