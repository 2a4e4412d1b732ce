/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs that do nothing: the cost of running one. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp.frags")
int oxp_nothing_xdp(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

SEC("tc")
int oxp_nothing_tc(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}
