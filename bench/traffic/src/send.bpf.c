/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Live frames (BPF_F_TEST_XDP_LIVE_FRAMES): each run writes the next packet of
 * the stream into a page and redirects it to its link, or drops the page while
 * it is too early for the next one. It spins, as generators do, because
 * sleeping would cause bursts.
 */
#include "frame.h"

#include "flow.h"
#include "send_state.h"

#define LOOPBACK 1

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct stream stream;
/* The thread whose redirects belong to this stream. */
const volatile __u32 thread;
struct send_state state;
__u32 timeline[TIMELINE_MAX];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct destination);
} destinations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u16);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u16);
} sizes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} sent SEC(".maps");

/* Whether the next packet may be sent; `now`: ns since the start. */
static __always_inline bool take_token(__u64 now, __u64 interval)
{
	__u64 at = now << 16;

	if (at < state.due)
		return false;
	if (at - state.due > stream.burst_ns << 16)
		state.due = at - (stream.burst_ns << 16);
	state.due += interval;
	return true;
}

/* The call that runs the program takes long until it starts it. */
static __always_inline __u64 since_start(__u64 time)
{
	if (!state.start)
		state.start = time;
	return time - state.start;
}

static __always_inline void note_time(__u64 now)
{
	if (now >= state.tenth_end) {
		state.tenth = now / TIMELINE_NS;
		state.tenth_end = (state.tenth + 1ULL) * TIMELINE_NS;
	}
	if (state.tenth < TIMELINE_MAX)
		timeline[state.tenth]++;
	state.last = now;
}

static __always_inline void choose_client(struct packet *packet, __u32 random)
{
	__u32 clients = packet->destination->version == 4 ? stream.clients
							  : stream.clients_v6;

	if (stream.kind == KIND_SYN && !stream.flows) {
		packet->client = scaled(mix(~random), clients);
		packet->port = PORT_FIRST + scaled(random, PORTS);
		return;
	}
	packet->client = packet->flow % clients;
	packet->port =
		PORT_FIRST +
		(packet->flow / clients + mix(packet->client) % PORTS) % PORTS;
}

/* Packets that open flows have the smallest possible size. */
static __always_inline __u32 opening_size(const struct destination *destination)
{
	__u32 headers = ETH_HLEN + (destination->version == 4 ? 20 : 40);

	if (destination->protocol == PROTOCOL_TCP)
		return headers + sizeof(struct tcphdr) + 4;
	return headers + sizeof(struct udphdr) + QUIC_INITIAL_DATAGRAM;
}

/* A SYN has options instead of a payload; what they do not fill is padding of
 * the link. */
static __always_inline __u32 flood_size(__u32 size)
{
	return ((size - ETH_HLEN) & ~3U) + ETH_HLEN;
}

static __always_inline int send_packet(struct xdp_md *ctx,
				       struct packet *packet, __u32 random)
{
	__u32 slot = packet->flow % stream.slots, frame = packet->size;
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 index, ifindex;
	__u16 *found;
	__u64 *count;

	found = bpf_map_lookup_elem(&slots, &slot);
	if (!found)
		return XDP_ABORTED;
	index = *found;
	packet->index = index;
	packet->destination = bpf_map_lookup_elem(&destinations, &index);
	if (!packet->destination || data + FRAME_HEAD > end)
		return XDP_ABORTED;
	choose_client(packet, random);
	if (stream.kind == KIND_SYN)
		packet->size = flood_size(frame);
	else if (packet->opening)
		frame = packet->size = opening_size(packet->destination);
	write_frame(data, packet);
	ifindex = packet->destination->ifindex;
	if (!packet->opening || stream.kind == KIND_SYN) {
		count = bpf_map_lookup_elem(&sent, &index);
		if (count)
			(*count)++;
	}
	if (frame != stream.frame &&
	    bpf_xdp_adjust_tail(ctx, (int)frame - (int)stream.frame))
		return XDP_ABORTED;
	return bpf_redirect(ifindex, 0);
}

SEC("xdp")
int send_opening(struct xdp_md *ctx)
{
	__u64 time = bpf_ktime_get_ns();
	struct packet packet = {
		.stream = &stream,
		.time = time,
		.number = state.opened,
		.flow = state.opened,
		.opening = true,
	};

	if (state.opened >= stream.flows || state.stopped) {
		state.done = 1;
		return XDP_DROP;
	}
	if (!take_token(since_start(time), stream.opening_interval))
		return XDP_DROP;
	state.opened++;
	return send_packet(ctx, &packet, 0);
}

SEC("xdp")
int send_next(struct xdp_md *ctx)
{
	__u64 time = bpf_ktime_get_ns(), now = since_start(time);
	__u32 number = state.sent, random = mix(number ^ stream.seed), key;
	struct packet packet = {
		.stream = &stream,
		.time = time,
		.number = number,
		.flow = flow_of(random, number, stream.flows),
		.opening = stream.kind == KIND_SYN,
	};
	__u16 *size;

	if (now >= stream.duration_ns || state.sent >= stream.packets ||
	    state.stopped) {
		state.done = 1;
		return XDP_DROP;
	}
	if (!take_token(now, stream.interval))
		return XDP_DROP;
	key = size_index(random, stream.sizes);
	size = bpf_map_lookup_elem(&sizes, &key);
	if (!size)
		return XDP_ABORTED;
	packet.size = *size;
	note_time(now);
	state.sent++;
	return send_packet(ctx, &packet, random);
}

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

/*
 * Live frames come from the loopback interface, unlike others that this thread
 * redirects while it polls interfaces of a node on the same machine.
 */
static __always_inline bool is_own(const struct net_device *from)
{
	return (__u32)bpf_get_current_pid_tgid() == thread &&
	       from->ifindex == LOOPBACK;
}

/* Counts frames that the link refused because its queue is full. */
SEC("tp_btf/xdp_devmap_xmit")
int count_refused(__u64 *arguments)
{
	int dropped = arguments[3];

	if (dropped <= 0 || !is_own((void *)arguments[0]))
		return 0;
	state.refused += dropped;
	state.error = (int)arguments[4];
	return 0;
}

/* Counts frames that the link does not accept at all. */
SEC("tp_btf/xdp_redirect_err")
int count_not_redirected(__u64 *arguments)
{
	if (!is_own((void *)arguments[0]))
		return 0;
	state.refused++;
	state.error = (int)arguments[3];
	return 0;
}
