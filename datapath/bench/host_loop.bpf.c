/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For measuring a hypervisor's programs as a NIC driver runs them, packet after
 * packet: restore the frame that the last run changed, pick a random flow, and
 * tail-call the program under test. The same with a program that does nothing
 * gives the cost of the harness.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define WORDS 16
#define LENGTH (8 * WORDS)
#define TUNNEL 36 /* IPv4, UDP, Geneve without options */

/* Written by bench/host/loop.py. */
struct traffic {
	__u64 frame[WORDS];
	__u32 client_at; /* last word of the client's address */
	__u32 port_at;
	__u32 flows_mask;
	__u32 another; /* per loop: caches have the last one's flows */
};
const volatile struct traffic traffic;
__u64 state = 0x2545f4914f6cdd1dULL;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target SEC(".maps");

SEC("tc")
int oxp_host_nothing(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}

/* Remove the outer headers, which oxp_host_loop restores. */
SEC("tc")
int oxp_host_bare(struct __sk_buff *skb)
{
	if (bpf_skb_adjust_room(skb, -TUNNEL, BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

static __always_inline __u64 next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

SEC("tc")
int oxp_host_loop(struct __sk_buff *skb)
{
	__u32 flow = (next() >> 20 ^ traffic.another) & traffic.flows_mask;
	__u64 *words;
	void *data;

	if (skb->len != LENGTH)
		bpf_skb_adjust_room(skb, LENGTH - skb->len, BPF_ADJ_ROOM_MAC,
				    BPF_F_ADJ_ROOM_FIXED_GSO);
	data = words = (void *)(long)skb->data;
	if (data + LENGTH > (void *)(long)skb->data_end)
		return TC_ACT_SHOT;
	for (__u32 i = 0; i < WORDS; i++)
		words[i] = traffic.frame[i];
	*(__u32 *)(data + traffic.client_at) =
		bpf_htonl(0x14000000 + (flow >> 4));
	*(__u16 *)(data + traffic.port_at) = bpf_htons(40000 + (flow & 15));
	skb->mark = 0;
	bpf_tail_call(skb, &target, 0);
	return TC_ACT_SHOT;
}
