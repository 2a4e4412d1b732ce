/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that takes milliseconds between reading which block is live and
 * being done with it: XDP_PASS if the block stayed as it was.
 */
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static long nothing(__u32 index, void *context)
{
	(void)index;
	(void)context;
	return 0;
}

SEC("xdp")
int oxp_slow(struct xdp_md *ctx)
{
	struct service_entry *entry;
	struct service_block *block;
	__u32 index = 0, number;
	__u64 active;

	(void)ctx;
	entry = bpf_map_lookup_elem(&services, &index);
	if (!entry)
		return XDP_ABORTED;
	active = *(volatile __u64 *)&entry->active;
	number = active & 1;
	block = bpf_map_lookup_elem(&tables, &number);
	if (!block)
		return XDP_ABORTED;
	bpf_loop(1 << 20, nothing, NULL, 0);
	if (*(volatile __u64 *)&block->generation != active)
		return XDP_DROP;
	return XDP_PASS;
}
