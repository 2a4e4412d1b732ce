/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The member's side: takes the outer header off packets that a load balancer
 * sent to one of our addresses, so that the stack sees client -> VIP. The VIP
 * must be an address of the host, on loopback for example.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "member.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBER_ADDRESSES_MAX);
	__type(key, __be32);
	__type(value, __u8);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMBER_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline int finish(__u32 counter, int action)
{
	__u64 *packets = bpf_map_lookup_elem(&counters, &counter);

	if (packets)
		++*packets;
	return action;
}

/* IPIP in the form that the load balancer sends: no options, no fragments.
 * Anything else is left to the stack. */
static __always_inline int is_tunnel(const struct iphdr *ip)
{
	return ip->version == 4 && ip->ihl == 5 &&
	       ip->protocol == IPPROTO_IPIP &&
	       !(ip->frag_off & bpf_htons(0x3fff));
}

SEC("xdp")
int oxp_member(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = (void *)(long)ctx->data, saved;
	struct iphdr *outer = (void *)(ethernet + 1);
	struct iphdr *inner = outer + 1;
	__be32 address;

	if ((void *)(outer + 1) > end ||
	    ethernet->h_proto != bpf_htons(ETH_P_IP) || !is_tunnel(outer))
		return XDP_PASS;
	address = outer->daddr;
	if (!bpf_map_lookup_elem(&addresses, &address))
		return XDP_PASS;

	if ((void *)(inner + 1) > end || inner->version != 4 ||
	    inner->ihl < 5 || bpf_ntohs(outer->tot_len) > end - (void *)outer ||
	    bpf_ntohs(outer->tot_len) !=
		    bpf_ntohs(inner->tot_len) + sizeof(*outer))
		return finish(MEMBER_MALFORMED, XDP_DROP);

	saved = *ethernet;
	if (bpf_xdp_adjust_head(ctx, sizeof(*outer)))
		return finish(MEMBER_MALFORMED, XDP_DROP);
	ethernet = (void *)(long)ctx->data;
	if ((void *)(ethernet + 1) > (void *)(long)ctx->data_end)
		return finish(MEMBER_MALFORMED, XDP_DROP);
	*ethernet = saved;
	return finish(MEMBER_DECAPSULATED, XDP_PASS);
}
