/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts packets by the signature in their payload and drops them; all others
 * are counted separately and passed to the kernel. There is a bit for each
 * packet, so that losses are known exactly even with several sinks.
 */
#include "parse.h"

#include "format.h"
#include "receive_state.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PORT_BFD 3784
#define PORT_BFD_MULTIHOP 4784

/* By the lowest bits of the id. */
const volatile struct stream_state streams[STREAMS_MAX];
#define STREAM_MASK (STREAMS_MAX - 1)

const volatile struct own_interface interfaces[INTERFACES_MAX];
const volatile __u32 interface_count;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} numbers SEC(".maps");

/* For each flow, the highest number plus one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} latest SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} received SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LATENCY_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STREAMS_MAX);
	__type(key, __u32);
	__type(value, struct stream_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FOREIGN_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} foreign SEC(".maps");

static __always_inline void count(void *map, __u32 key)
{
	__u64 *value = bpf_map_lookup_elem(map, &key);

	if (value)
		(*value)++;
}

static __always_inline int pass(enum foreign kind)
{
	count(&foreign, kind);
	return XDP_PASS;
}

/* Finds by bisection how far to shift until 8 bits are left, as there is no
 * instruction for that. */
static __always_inline __u32 latency_bucket(__u64 latency)
{
	const __u32 steps[] = {16, 8, 4, 2, 1, 1};
	__u32 shift = 0;

	if (latency >> LATENCY_BITS)
		return LATENCY_BUCKETS - 1;
	for (int i = 0; i < 6; i++)
		if (latency >> shift >> (LATENCY_SUB_BITS + steps[i]))
			shift += steps[i];
	return (shift << LATENCY_SUB_BITS) + (latency >> shift);
}

static __always_inline void note_latency(const struct signature *signature,
					 struct stream_counters *counter,
					 __u32 index)
{
	__u64 sent = (__u64)signature->time_high << 32 | signature->time_low;
	__u64 mask = (1ULL << 48) - 1;
	__u64 latency = (bpf_ktime_get_ns() - sent) & mask;

	if (latency > mask / 2) {
		counter->early++;
		return;
	}
	if (latency > counter->latency_max)
		counter->latency_max = latency;
	count(&latencies, index * LATENCY_BUCKETS + latency_bucket(latency));
}

/* Processors that receive packets of a flow concurrently may overwrite each
 * other's number; such packets have no order anyway. */
static __always_inline bool is_reordered(const struct signature *signature,
					 __u32 first)
{
	__u32 key = first + signature->flow;
	__u32 *last = bpf_map_lookup_elem(&latest, &key);

	if (!last)
		return false;
	if (signature->number + 1 < *last)
		return true;
	*last = signature->number + 1;
	return false;
}

/* `index` is that of an existing stream. */
static __always_inline int count_packet(const struct signature *signature,
					__u32 index)
{
	const volatile struct stream_state *stream = &streams[index];
	struct stream_counters *counter;
	__u64 bit, *word;
	__u32 key = index;

	counter = bpf_map_lookup_elem(&counters, &key);
	if (!counter)
		return XDP_ABORTED;
	if (signature->number >= stream->expected.packets ||
	    signature->destination >= stream->expected.destinations ||
	    (stream->expected.flows &&
	     signature->flow >= stream->expected.flows)) {
		counter->invalid++;
		return XDP_DROP;
	}
	key = stream->words + signature->number / 64;
	word = bpf_map_lookup_elem(&numbers, &key);
	if (!word)
		return XDP_ABORTED;
	bit = 1ULL << (signature->number % 64);
	if (__sync_fetch_and_or(word, bit) & bit) {
		counter->duplicates++;
		return XDP_DROP;
	}
	counter->received++;
	if (stream->expected.flows && is_reordered(signature, stream->flows))
		counter->reordered++;
	count(&received, stream->destinations + signature->destination);
	note_latency(signature, counter, index);
	return XDP_DROP;
}

static __always_inline int count_opening(__u16 id)
{
	__u32 key = id & STREAM_MASK;
	struct stream_counters *counter;

	if (!streams[key].present || streams[key].expected.id != id)
		return pass(FOREIGN_STREAM);
	counter = bpf_map_lookup_elem(&counters, &key);
	if (!counter)
		return XDP_ABORTED;
	counter->opened++;
	return XDP_DROP;
}

static __always_inline int count_signature(const struct signature *signature)
{
	__u32 index = signature->stream & STREAM_MASK;

	if (!streams[index].present ||
	    streams[index].expected.id != signature->stream)
		return pass(FOREIGN_STREAM);
	return count_packet(signature, index);
}

static __always_inline bool is_signature(const struct signature *signature,
					 const void *end, __u16 magic)
{
	return (void *)(signature + 1) <= end && signature->magic == magic;
}

static __always_inline bool is_bfd(const struct udphdr *udp)
{
	return udp->dest == bpf_htons(PORT_BFD) ||
	       udp->dest == bpf_htons(PORT_BFD_MULTIHOP);
}

__noinline int receive_udp(struct xdp_md *ctx, __u32 offset, __u32 outer)
{
	struct parser parser = parser_at(ctx, offset);
	struct udphdr *udp = header(&parser, sizeof(*udp));
	void *payload = udp + 1;

	if (!udp)
		return pass(FOREIGN_OTHER);
	if (is_signature(payload, parser.end, SIGNATURE_MAGIC))
		return count_signature(payload);
	if (is_signature(payload + QUIC_SHORT_LENGTH, parser.end,
			 SIGNATURE_MAGIC))
		return count_signature(payload + QUIC_SHORT_LENGTH);
	payload += QUIC_INITIAL_LENGTH;
	if (is_signature(payload, parser.end, OPENING_MAGIC))
		return count_opening(((struct signature *)payload)->stream);
	if (is_bfd(udp) && !outer)
		return pass(FOREIGN_BFD);
	return pass(outer ? FOREIGN_TUNNELLED : FOREIGN_UDP);
}

__noinline int receive_tcp(struct xdp_md *ctx, __u32 offset, __u32 outer)
{
	struct parser parser = parser_at(ctx, offset);
	__u32 sequence;
	struct tcphdr *tcp = header(&parser, sizeof(*tcp));
	void *payload;

	if (!tcp)
		return pass(FOREIGN_OTHER);
	sequence = bpf_ntohl(tcp->seq);
	if (tcp->syn && !tcp->ack && sequence >> 16 == OPENING_MAGIC)
		return count_opening(sequence & 0xffff);
	payload = (void *)tcp + tcp->doff * 4;
	if (is_signature(payload, parser.end, SIGNATURE_MAGIC))
		return count_signature(payload);
	return pass(outer ? FOREIGN_TUNNELLED : FOREIGN_TCP);
}

__noinline int receive_icmp6(struct xdp_md *ctx, __u32 offset)
{
	struct parser parser = parser_at(ctx, offset);
	const __u8 *type = header(&parser, sizeof(*type));

	/* discovery, MLD and its second version */
	if (type && ((*type >= 130 && *type <= 137) || *type == 143))
		return pass(FOREIGN_NEIGHBOUR);
	return pass(FOREIGN_ICMP);
}

static __always_inline int receive_innermost(struct xdp_md *ctx, int found,
					     bool outer)
{
	__u32 offset = NEXT_OFFSET(found);

	switch (NEXT_KIND(found)) {
	case NEXT_UDP:
		return receive_udp(ctx, offset, outer);
	case NEXT_TCP:
		return receive_tcp(ctx, offset, outer);
	case NEXT_FRAGMENT:
		return pass(FOREIGN_FRAGMENT);
	case NEXT_ICMP6:
		if (!outer)
			return receive_icmp6(ctx, offset);
		break;
	case NEXT_ICMP:
		if (!outer)
			return pass(FOREIGN_ICMP);
		break;
	}
	return pass(outer ? FOREIGN_TUNNELLED : FOREIGN_OTHER);
}

/* A switch floods packets to hosts that it does not know, such as a host that
 * has lost its link. A network card drops them before XDP, veth does not. */
static __always_inline bool is_of_other_host(struct xdp_md *ctx)
{
	const __u8 *mac = (void *)(long)ctx->data;

	if ((void *)(mac + 6) > (void *)(long)ctx->data_end || mac[0] & 1)
		return false;
	for (__u32 i = 0; i < INTERFACES_MAX && i < interface_count; i++) {
		const volatile __u8 *own = interfaces[i].mac;

		if (interfaces[i].ifindex != ctx->ingress_ifindex)
			continue;
		return mac[0] != own[0] || mac[1] != own[1] ||
		       mac[2] != own[2] || mac[3] != own[3] ||
		       mac[4] != own[4] || mac[5] != own[5];
	}
	return false;
}

SEC("xdp")
int receive(struct xdp_md *ctx)
{
	int found, layers = 0;

	if (is_of_other_host(ctx))
		return pass(FOREIGN_OTHER_HOST);
	found = parse_link(ctx);
	if (found < 0)
		return pass(FOREIGN_LINK);
	if (NEXT_KIND(found) == NEXT_ARP)
		return pass(FOREIGN_ARP);
	if (NEXT_KIND(found) == NEXT_OTHER)
		return pass(FOREIGN_LINK);
	while (layers < LAYERS_MAX && found >= 0 &&
	       NEXT_KIND(found) <= NEXT_V6) {
		found = parse_layer(ctx, NEXT_OFFSET(found), NEXT_KIND(found));
		layers++;
	}
	if (found < 0)
		return pass(layers > 1 ? FOREIGN_TUNNELLED : FOREIGN_OTHER);
	return receive_innermost(ctx, found, layers > 1);
}
