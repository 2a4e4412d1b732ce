/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that takes milliseconds between reading which block is live and its
 * last use: XDP_PASS if the block did not change.
 */
#include "forward/block.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static long nothing(__u32 index, void *context)
{
	(void)index;
	(void)context;
	return 0;
}

/* Place of the service in the lookup table. */
const volatile __u32 bucket;
const volatile __u32 way;

SEC("xdp")
int oxp_slow(struct xdp_md *ctx)
{
	__u32 at = bucket, slot = way, number;
	struct block_view view;
	struct bucket_v4 *found;
	__u64 generation;

	(void)ctx;
	found = bpf_map_lookup_elem(&lookup_v4, &at);
	if (!found || slot >= BUCKET_WAYS)
		return XDP_ABORTED;
	number = *(volatile __u32 *)&found->value[slot];
	if (!find_block(number, &view))
		return XDP_ABORTED;
	generation = READ_ONCE(view.block->generation);
	bpf_loop(1 << 20, nothing, NULL, 0);
	if (READ_ONCE(view.block->generation) != generation)
		return XDP_DROP;
	return XDP_PASS;
}
