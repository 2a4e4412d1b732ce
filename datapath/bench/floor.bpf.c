/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The least that an IPIP load balancer can do with a packet: check that it is
 * TCP or UDP over IP, push a constant outer IPv4 or IPv6 header, send. No
 * lookup, no hash, no counter. A second program first reads a random line of
 * memory: the cost of any table when every packet needs another entry.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Make room for an outer header of `length` bytes and write the link header.
 * Returns the place of the outer header, or NULL. */
static __always_inline __u32 *make_room(struct xdp_md *ctx, int length,
					__be16 type)
{
	void *end;
	__u64 *to;

	if (bpf_xdp_adjust_head(ctx, -length))
		return NULL;
	to = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if ((void *)to + ETH_HLEN + length > end)
		return NULL;
	to[0] = 0x0002020000000002;
	*(__u32 *)(to + 1) = 0x01000000;
	((__u16 *)to)[6] = type;
	return (void *)to + ETH_HLEN;
}

static __always_inline int push_v4(struct xdp_md *ctx, __u16 length)
{
	__u64 sum = 0x45 + 64 + (IPPROTO_IPIP << 8) + 0x0100000a + 0x0200000a;
	__u32 *word;

	word = make_room(ctx, sizeof(struct iphdr), bpf_htons(ETH_P_IP));
	if (!word)
		return XDP_DROP;
	word[0] = 0x45 | (__u32)bpf_htons(length + sizeof(struct iphdr)) << 16;
	word[1] = 0;
	sum += word[0];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	word[2] = 64 | IPPROTO_IPIP << 8 | (__u32)(__u16)~sum << 16;
	word[3] = 0x0100000a;
	word[4] = 0x0200000a;
	return XDP_TX;
}

static __always_inline int push_v6(struct xdp_md *ctx, __u16 length)
{
	__u32 *word;

	word = make_room(ctx, sizeof(struct ipv6hdr), bpf_htons(ETH_P_IPV6));
	if (!word)
		return XDP_DROP;
	word[0] = 0x60;
	word[1] = bpf_htons(length) | IPPROTO_IPV6 << 16 | 64 << 24;
	for (int i = 2; i < 10; i++)
		word[i] = 0x010000fd;
	return XDP_TX;
}

#define LINES (1U << 21)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LINES);
	__type(key, __u32);
	__type(value, __u64[8]);
} lines SEC(".maps");

static __always_inline int forward(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct ipv6hdr *v6 = (void *)(ethernet + 1);
	struct iphdr *v4 = (void *)(ethernet + 1);

	if ((void *)(v4 + 1) > end)
		return XDP_PASS;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		if (v4->ihl != 5 || (v4->protocol != IPPROTO_TCP &&
				     v4->protocol != IPPROTO_UDP))
			return XDP_PASS;
		return push_v4(ctx, bpf_ntohs(v4->tot_len));
	}
	if (ethernet->h_proto != bpf_htons(ETH_P_IPV6) ||
	    (void *)(v6 + 1) > end)
		return XDP_PASS;
	if (v6->nexthdr != IPPROTO_TCP && v6->nexthdr != IPPROTO_UDP)
		return XDP_PASS;
	return push_v6(ctx, bpf_ntohs(v6->payload_len) + sizeof(*v6));
}

SEC("xdp.frags")
int oxp_floor(struct xdp_md *ctx)
{
	return forward(ctx);
}

/* The line is chosen by a hash of the IPv4 addresses; all lines are zero. */
SEC("xdp.frags")
int oxp_floor_line(struct xdp_md *ctx)
{
	const struct iphdr *ip =
		(void *)(long)ctx->data + sizeof(struct ethhdr);
	const volatile __u64 *line;
	__u32 number;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	number = ((__u64)ip->saddr << 32 ^ ip->daddr) * 0x9e3779b97f4a7c15ULL >>
		 43;
	line = bpf_map_lookup_elem(&lines, &number);
	if (!line || *line)
		return XDP_DROP;
	return forward(ctx);
}
