/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For measuring: restore the frame that the last run encapsulated, pick a
 * random flow and tail-call the program under test. The same with `return
 * XDP_TX` gives the cost of the harness.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "batches.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define WORDS 16

const volatile __u64 frame[WORDS];
const volatile __u32 frame_length;   /* a multiple of 8 */
const volatile __u32 source_at = 26; /* low 32 bits of the source */
const volatile __u32 ports_at = 34;
const volatile __u32 flows_mask;  /* bits of the source, at most 24 */
const volatile __u16 client_mask; /* bits of the source port, big endian */
const volatile __u16 port_mask;   /* bits of the destination port */
const volatile __u16 vips;        /* IPv4 destinations, from the frame's on */
__u32 state = 1;

/* Nanoseconds for each full batch of a run. The user clears `packets` and
 * `batches` before a run. */
__u32 packets, batches, took[BATCHES_MAX];
__u64 began;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target SEC(".maps");

SEC("xdp.frags")
int oxp_nothing(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_TX;
}

static __always_inline __u32 next(void)
{
	state = state * 1664525 + 1013904223;
	return state;
}

static __always_inline void time_batch(void)
{
	__u32 batch;
	__u64 now;

	if (packets++ % BATCH)
		return;
	now = bpf_ktime_get_ns();
	batch = batches++;
	if (batch && batch <= BATCHES_MAX)
		took[(batch - 1) % BATCHES_MAX] = now - began;
	began = now;
}

SEC("xdp.frags")
int oxp_wrapper(struct xdp_md *ctx)
{
	__u32 length = ctx->data_end - ctx->data;
	__u32 random = next();
	void *data, *end;

	time_batch();
	if (length != frame_length)
		bpf_xdp_adjust_head(ctx, length - frame_length);
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + frame_length > end)
		return XDP_ABORTED;
	for (__u32 i = 0; i < WORDS; i++)
		if (8 * i < frame_length)
			((__u64 *)data)[i] = frame[i];
	*(__u32 *)(data + source_at) += (random >> 8 & flows_mask) << 8;
	if (client_mask)
		*(__u16 *)(data + ports_at) += next() >> 8 & client_mask;
	if (port_mask)
		*(__u16 *)(data + ports_at + 2) += next() >> 8 & port_mask;
	if (vips)
		*(__u16 *)(data + ports_at - 2) +=
			bpf_htons((__u64)next() * vips >> 32);
	bpf_tail_call(ctx, &target, 0);
	return XDP_ABORTED;
}
