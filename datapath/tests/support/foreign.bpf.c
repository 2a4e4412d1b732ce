/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs of another owner, for test_member_tool.py and kernel_drops.py: some
 * let everything pass, some lose packets. Without a name, tc and ip use the
 * first program of a section. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NOWHERE 9999 /* no interface has this index */
#define OUT 77       /* the test creates an interface with it */

SEC("xdp")
int pass_all(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

SEC("xdp")
int abort_all(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_ABORTED;
}

SEC("xdp")
int to_nowhere(struct xdp_md *ctx)
{
	(void)ctx;
	return bpf_redirect(NOWHERE, 0);
}

SEC("xdp")
int to_out(struct xdp_md *ctx)
{
	(void)ctx;
	return bpf_redirect(OUT, 0);
}

SEC("tc")
int pass_all_tc(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}
