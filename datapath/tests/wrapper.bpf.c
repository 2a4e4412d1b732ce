/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For measuring: restores the frame that the last run left encapsulated,
 * picks a random flow and goes on in the program under test. The same around
 * `return XDP_TX` is the cost of the harness.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

const volatile __u32 flows_mask;
const volatile __u32 destination;
const volatile __u16 port;
const volatile __u8 protocol;
const volatile __u32 frame_length;
__u32 state = 1;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target SEC(".maps");

SEC("xdp")
int oxp_nothing(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_TX;
}

SEC("xdp")
int oxp_wrapper(struct xdp_md *ctx)
{
	__u32 length = ctx->data_end - ctx->data;
	struct headers *headers;

	if (length != frame_length)
		bpf_xdp_adjust_head(ctx, length - frame_length);
	headers = (void *)(long)ctx->data;
	if ((void *)(headers + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	state = state * 1664525 + 1013904223;
	headers->ethernet.h_proto = bpf_htons(ETH_P_IP);
	headers->ip.version = 4;
	headers->ip.ihl = 5;
	headers->ip.tos = 0;
	headers->ip.tot_len = bpf_htons(frame_length - ETH_HLEN);
	headers->ip.frag_off = bpf_htons(0x4000);
	headers->ip.ttl = 60;
	headers->ip.protocol = protocol;
	headers->ip.saddr = (state >> 8) & flows_mask;
	headers->ip.daddr = destination;
	headers->tcp.source = bpf_htons(40000);
	headers->tcp.dest = bpf_htons(port);
	bpf_tail_call(ctx, &target, 0);
	return XDP_ABORTED;
}
