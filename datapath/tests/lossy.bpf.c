/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* XDP programs that lose packets, for kernel_drops.py. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define NOWHERE 9999 /* no interface has this index */
#define OUT 77       /* the test makes one that has */

SEC("xdp")
int abort_all(struct xdp_md *context)
{
	(void)context;
	return XDP_ABORTED;
}

SEC("xdp")
int pass_all(struct xdp_md *context)
{
	(void)context;
	return XDP_PASS;
}

SEC("xdp")
int to_nowhere(struct xdp_md *context)
{
	(void)context;
	return bpf_redirect(NOWHERE, 0);
}

SEC("xdp")
int to_out(struct xdp_md *context)
{
	(void)context;
	return bpf_redirect(OUT, 0);
}

char LICENSE[] SEC("license") = "GPL";
