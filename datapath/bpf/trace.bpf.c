/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies packets of one VIP before and after the forwarding program. The kernel
 * runs these two around it while a trace is open, on the same CPU and for one
 * packet at a time, so that the second program knows what the first selected.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "octavia_xdp.h"
#include "protocols.h"

/* for BPF_PROG */
#pragma clang diagnostic ignored "-Wunused-parameter"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before the programs are loaded. */
const volatile __u32 vip[4]; /* IPv4 in the last word */
const volatile bool vip_v6;
const volatile __u32 every = 1;
const volatile __u32 snaplen = 256;
const volatile __u64 numbers_from; /* of this traced program */

__u64 lost;

/* The kernel's fields in use; their offsets come from BTF. */
struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

struct xdp_rxq_info {
	struct net_device *dev;
	__u32 queue_index;
} __attribute__((preserve_access_index));

struct xdp_buff {
	void *data;
	void *data_end;
	struct xdp_rxq_info *rxq;
} __attribute__((preserve_access_index));

struct record {
	struct oxp_trace_packet packet;
	__u8 data[OXP_TRACE_SNAPLEN_MAX];
};

struct state {
	__u64 seen;   /* packets of the VIP */
	__u64 number; /* of the current packet; 0: not selected */
	struct record record;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

#define TYPE_V4 bpf_htons(ETH_P_IP)
#define TYPE_V6 bpf_htons(ETH_P_IPV6)

static __always_inline bool read(void *out, __u32 size, const void *from,
				 const void *end)
{
	return from + size <= end && !bpf_probe_read_kernel(out, size, from);
}

/* As in the forwarding program: at most two VLAN tags. */
static __always_inline bool is_for_vip(const void *at, const void *end)
{
	__u32 address[4] = {};
	__be16 type;

	at += 12;
	for (int tags = 0; tags < 3; tags++) {
		if (!read(&type, sizeof(type), at, end))
			return false;
		at += 2;
		if (!is_vlan(type))
			break;
		at += 2;
	}
	if (type != (vip_v6 ? TYPE_V6 : TYPE_V4))
		return false;
	if (vip_v6)
		return read(address, 16, at + 24, end) &&
		       address[0] == vip[0] && address[1] == vip[1] &&
		       address[2] == vip[2] && address[3] == vip[3];
	return read(address, 4, at + 16, end) && address[0] == vip[3];
}

static __always_inline void copy(struct state *state, struct xdp_buff *xdp,
				 bool out, __u32 action)
{
	struct record *record = &state->record;
	void *data = xdp->data;
	__u64 captured = xdp->data_end - data; /* of the first buffer */

	if (captured > snaplen)
		captured = snaplen;
	/* clang must not recompute the value: it is bounded below */
	barrier_var(captured);
	if (captured > OXP_TRACE_SNAPLEN_MAX)
		captured = OXP_TRACE_SNAPLEN_MAX;
	record->packet = (struct oxp_trace_packet){
		.time_ns = bpf_ktime_get_ns(),
		.number = state->number,
		.ifindex = xdp->rxq->dev->ifindex,
		.queue = xdp->rxq->queue_index,
		.length = bpf_xdp_get_buff_len((struct xdp_md *)xdp),
		.captured = captured,
		.action = action,
		.out = out,
	};
	if (bpf_probe_read_kernel(record->data, captured, data) ||
	    bpf_ringbuf_output(&records, record,
			       sizeof(record->packet) + captured, 0))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline struct state *own_state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&states, &zero);
}

SEC("fentry/oxp_forward")
int BPF_PROG(oxp_trace_in, struct xdp_buff *xdp)
{
	struct state *state = own_state();

	if (!state)
		return 0;
	state->number = 0;
	if (!is_for_vip(xdp->data, xdp->data_end))
		return 0;
	if (state->seen++ % every)
		return 0;
	state->number = numbers_from | (__u64)bpf_get_smp_processor_id() << 40 |
			state->seen;
	copy(state, xdp, false, 0);
	return 0;
}

SEC("fexit/oxp_forward")
int BPF_PROG(oxp_trace_out, struct xdp_buff *xdp, int action)
{
	struct state *state = own_state();

	if (!state || !state->number)
		return 0;
	copy(state, xdp, true, action);
	state->number = 0;
	return 0;
}
