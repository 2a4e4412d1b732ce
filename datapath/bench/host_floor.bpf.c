/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The least cost of a table of flows: read a line of memory that depends on the
 * client's address and port, and decide by its contents. Nothing else is done
 * with the packet: TCP over IPv4 in Geneve over IPv4.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "host.h"
#include "map_types.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* As large as `flows`; all zeroes. */
MMAPPED_ARRAY(sets, 1, struct host_flow_set);
MMAPPED_ARRAY(mask, 1, __u32);

#define CLIENT 62 /* source of the inner header */
#define PORT 70

SEC("tc")
int oxp_host_floor(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	struct host_flow_set *set;
	__u32 zero = 0, number, *bits = bpf_map_lookup_elem(&mask, &zero);
	__u64 hash;

	if (!bits || data + PORT + 2 > (void *)(long)skb->data_end)
		return TC_ACT_SHOT;
	hash = *(__u32 *)(data + CLIENT) ^ (__u64) * (__u16 *)(data + PORT)
						   << 32;
	hash *= 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 31) * 0xbf58476d1ce4e5b9ULL;
	number = hash >> 32 & *bits;
	set = bpf_map_lookup_elem(&sets, &number);
	if (!set || READ_ONCE(set->line[hash >> 63].tag[0]))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}
