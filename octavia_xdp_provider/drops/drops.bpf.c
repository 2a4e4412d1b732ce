/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts packets that the kernel drops, by where and why.
 *
 * bcc compiles this. It turns TRACEPOINT_PROBE's `args` into a structure of
 * the tracepoint's format in the running kernel. program.py defines the rest
 * as macros:
 *
 *   SKB_HEAD SKB_DATA SKB_NETWORK_HEADER SKB_DEV SKB_IIF
 *   DEV_IFINDEX DEV_NET NET_INUM
 *	offsets in the kernel's structures, from BTF, so that no header of
 *	the kernel is needed
 *   EVENT_<tracepoint>
 *	its number in `struct xdp_drop`, if the kernel has it
 *   VIPS_MAX ROWS_MAX
 *	entries of the maps
 */

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#define PROTOCOL_IPIP 4
#define PROTOCOL_UDP 17
#define PROTOCOL_IPV6 41
#define PROTOCOL_GRE 47
#define GUE_PORT 6080
#define GENEVE_PORT 6081
#define IPV4_FRAGMENT_OFFSET 0x1fff

/* The tracepoint's format names it; Python reads the values from BTF. */
enum skb_drop_reason {
	ANY_REASON
};

/* IPv4 addresses are IPv4-mapped: ::ffff:192.0.2.1. */
struct address {
	u8 bytes[16];
};

struct drop {
	struct address vip;
	u64 location;
	u32 reason;
	u32 ifindex;
	u32 netns;
	u8 protocol;
	u8 to_vip;
	u8 encapsulation; /* protocol of the outer header, 0: none */
	u8 reserved;
};

struct xdp_drop {
	u32 event; /* EVENT_... */
	u32 program;
	u32 action;
	s32 ifindex;
	s32 to_ifindex;
	s32 error;
};

BPF_HASH(vips, struct address, u8, VIPS_MAX);
BPF_PERCPU_HASH(drops, struct drop, u64, ROWS_MAX);
BPF_PERCPU_HASH(xdp_drops, struct xdp_drop, u64, ROWS_MAX);
/* Packets that were not counted because a map was full. */
BPF_PERCPU_ARRAY(missed, u64, 1);

struct packet {
	struct address source;
	struct address destination;
	u32 length; /* of this header */
	u8 protocol;
};

static __always_inline void miss(u64 packets)
{
	u32 zero = 0;
	u64 *count = missed.lookup(&zero);

	if (count)
		*count += packets;
}

/* Reads the IP header at `at`; returns false if there is none. */
static __always_inline bool parse(const u8 *at, struct packet *packet)
{
	u8 header[40];

	if (bpf_probe_read_kernel(header, sizeof(header), at))
		return false;
	__builtin_memset(packet, 0, sizeof(*packet));
	if (header[0] >> 4 == 4) {
		packet->length = (header[0] & 15) * 4;
		if (packet->length < 20)
			return false;
		packet->protocol = header[9];
		packet->source.bytes[10] = 0xff;
		packet->source.bytes[11] = 0xff;
		packet->destination.bytes[10] = 0xff;
		packet->destination.bytes[11] = 0xff;
		__builtin_memcpy(&packet->source.bytes[12], &header[12], 4);
		__builtin_memcpy(&packet->destination.bytes[12], &header[16],
				 4);
		if ((header[6] << 8 | header[7]) & IPV4_FRAGMENT_OFFSET)
			packet->length = 0; /* No inner header to parse. */
		return true;
	}
	if (header[0] >> 4 == 6) {
		packet->length = 40;
		packet->protocol = header[6];
		__builtin_memcpy(&packet->source, &header[8], 16);
		__builtin_memcpy(&packet->destination, &header[24], 16);
		return true;
	}
	return false;
}

/* Returns the length between outer and inner IP header, or -1. */
static __always_inline int tunnel_header(const u8 *at, u8 protocol)
{
	u8 header[12];

	switch (protocol) {
	case PROTOCOL_IPIP:
	case PROTOCOL_IPV6:
		return 0;
	case PROTOCOL_GRE:
		if (bpf_probe_read_kernel(header, 4, at))
			return -1;
		/* No options; version 0. */
		return header[0] || header[1] ? -1 : 4;
	case PROTOCOL_UDP:
		if (bpf_probe_read_kernel(header, sizeof(header), at))
			return -1;
		if ((header[2] << 8 | header[3]) == GUE_PORT)
			return 8;
		/* Version 0 without options, with an inner IP packet. */
		return (header[2] << 8 | header[3]) == GENEVE_PORT &&
				       !header[8] &&
				       ((header[10] == 0x08 && !header[11]) ||
					(header[10] == 0x86 &&
					 header[11] == 0xdd))
			       ? 16
			       : -1;
	}
	return -1;
}

/* Fills in `drop` and returns true if the packet is from or to a VIP. */
static __always_inline bool match(struct packet *packet, struct drop *drop)
{
	if (vips.lookup(&packet->destination)) {
		drop->vip = packet->destination;
		drop->to_vip = 1;
	} else if (vips.lookup(&packet->source)) {
		drop->vip = packet->source;
	} else {
		return false;
	}
	drop->protocol = packet->protocol;
	return true;
}

static __always_inline bool belongs_to_vip(const u8 *skb, struct drop *drop)
{
	struct packet packet;
	const u8 *at;
	const u8 *head;
	u16 offset;
	u8 protocol;
	int between;

	bpf_probe_read_kernel(&head, sizeof(head), skb + SKB_HEAD);
	bpf_probe_read_kernel(&offset, sizeof(offset),
			      skb + SKB_NETWORK_HEADER);
	at = head + offset;
	/* Not set yet: the driver set data to after the Ethernet header. */
	if (!offset)
		bpf_probe_read_kernel(&at, sizeof(at), skb + SKB_DATA);
	if (!parse(at, &packet))
		return false;
	if (match(&packet, drop))
		return true;
	if (!packet.length)
		return false;
	protocol = packet.protocol;
	at += packet.length;
	between = tunnel_header(at, protocol);
	if (between < 0 || !parse(at + between, &packet))
		return false;
	drop->encapsulation = protocol;
	return match(&packet, drop);
}

static __always_inline void device(const u8 *skb, struct drop *drop)
{
	const u8 *device = NULL;
	const u8 *net = NULL;

	/* If the union with dev has another value, the read below fails. */
	bpf_probe_read_kernel(&device, sizeof(device), skb + SKB_DEV);
	if (!device ||
	    bpf_probe_read_kernel(&drop->ifindex, sizeof(drop->ifindex),
				  device + DEV_IFINDEX)) {
		bpf_probe_read_kernel(&drop->ifindex, sizeof(drop->ifindex),
				      skb + SKB_IIF);
		return;
	}
	if (!bpf_probe_read_kernel(&net, sizeof(net), device + DEV_NET))
		bpf_probe_read_kernel(&drop->netns, sizeof(drop->netns),
				      net + NET_INUM);
}

TRACEPOINT_PROBE(skb, kfree_skb)
{
	const u8 *skb = (const u8 *)args->skbaddr;
	struct drop drop = {};
	u64 zero = 0;
	u64 *count;

	if (!belongs_to_vip(skb, &drop))
		return 0;
	drop.location = (u64)args->location;
	drop.reason = args->reason;
	device(skb, &drop);
	count = drops.lookup_or_try_init(&drop, &zero);
	if (count)
		*count += 1;
	else
		miss(1);
	return 0;
}

static __always_inline void count_xdp(struct xdp_drop *drop, u64 packets)
{
	u64 zero = 0;
	u64 *count = xdp_drops.lookup_or_try_init(drop, &zero);

	if (count)
		*count += packets;
	else
		miss(packets);
}

/* Defines the probe of an XDP tracepoint; its fields are given by name. */
#define XDP_PROBE(tracepoint, packets, ...)                                    \
	TRACEPOINT_PROBE(xdp, tracepoint)                                      \
	{                                                                      \
		struct xdp_drop drop = {                                       \
			.event = EVENT_##tracepoint,                           \
			.action = args->act,                                   \
			__VA_ARGS__,                                           \
		};                                                             \
                                                                               \
		if ((packets) > 0)                                             \
			count_xdp(&drop, packets);                             \
		return 0;                                                      \
	}

#ifdef EVENT_xdp_exception
XDP_PROBE(xdp_exception, 1, .ifindex = args->ifindex, .program = args->prog_id)
#endif

#ifdef EVENT_xdp_redirect_err
XDP_PROBE(xdp_redirect_err, 1, .ifindex = args->ifindex,
	  .to_ifindex = args->to_ifindex, .error = args->err,
	  .program = args->prog_id)
#endif

#ifdef EVENT_xdp_devmap_xmit
XDP_PROBE(xdp_devmap_xmit, args->drops, .ifindex = args->from_ifindex,
	  .to_ifindex = args->to_ifindex, .error = args->err)
#endif

#ifdef EVENT_xdp_bulk_tx
XDP_PROBE(xdp_bulk_tx, args->drops, .ifindex = args->ifindex,
	  .error = args->err)
#endif
