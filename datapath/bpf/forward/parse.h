/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a frame to the fields that forwarding needs.
 *
 * Contract of all parsing helpers: positions are offsets from the start of the
 * frame. A helper checks every byte against the end of the frame's first
 * buffer, and of the IP packet once that is known, before it reads it; it
 * changes nothing in the frame and decides nothing. It returns 0 and has filled
 * in its outputs, or -1 if the packet is truncated or inconsistent.
 */
#ifndef OXP_PARSE_H
#define OXP_PARSE_H

#include "maps.h"
#include "protocols.h"

/* Longer than any first buffer: drivers use a page at most. */
#define FRAME_MAX 0x4000
/* Maximum end of forwarded packets: struct packet and headers have 16 bits. */
#define PACKET_END_MAX 0xffff

enum packet_kind {
	KIND_WHOLE,
	KIND_FIRST,  /* first fragment */
	KIND_LATER,  /* later fragment: no ports */
	KIND_QUOTED, /* ICMP error: the flow is that of the quoted packet */
};

/* Input of the selection. Passed by reference to separate functions, so it has
 * no holes. IPv4 addresses are ::ffff:a.b.c.d. */
struct packet {
	__be32 source[4];
	__be32 destination[4];
	__u32 l3;  /* offset of the IP header */
	__u32 l4;  /* of the IP payload */
	__be32 id; /* of a fragment */
	__u16 end; /* offset of the end of the IP packet, which is in the frame,
		    * perhaps in a later buffer */
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 v6;
	__u8 kind; /* enum packet_kind */
	__u8 opens_flow;
	__u8 fragment_protocol; /* from the fragment: may be an extension */
	__u8 reserved;
};

/* Loads of pointers, which the types in struct xdp_md would let the compiler
 * narrow or keep in 32 bits. */
static __always_inline void *frame_start(struct xdp_md *ctx)
{
	void *start;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(start)
		     : "r"(ctx), "i"(offsetof(struct xdp_md, data)));
	return start;
}

static __always_inline void *frame_end(struct xdp_md *ctx)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(end)
		     : "r"(ctx), "i"(offsetof(struct xdp_md, data_end)));
	return end;
}

/* `size` bytes at `offset`, NULL if they are not all in the first buffer. */
static __always_inline void *at(struct xdp_md *ctx, __u64 offset, __u32 size)
{
	void *start = frame_start(ctx);

	barrier_var(offset);
	if (offset > FRAME_MAX)
		return NULL;
	start += offset;
	if (start + size > frame_end(ctx))
		return NULL;
	return start;
}

/* The same for bytes that must also be in the IP packet. */
static __always_inline void *in_packet(struct xdp_md *ctx,
				       const struct packet *packet,
				       __u32 offset, __u32 size)
{
	if (offset + size > packet->end)
		return NULL;
	return at(ctx, offset, size);
}

/* Bytes from `start`, a pointer into the first buffer, to that buffer's end. */
static __always_inline __u32 bytes_from(struct xdp_md *ctx, const void *start)
{
	__u64 bytes = frame_end(ctx) - (void *)start;

	barrier_var(bytes);
	return bytes;
}

static __always_inline __u32 first_length(struct xdp_md *ctx)
{
	return bytes_from(ctx, frame_start(ctx));
}

/* Over all buffers; a call into the kernel, which the fast path avoids. */
static __always_inline __u32 frame_length(struct xdp_md *ctx)
{
	return bpf_xdp_get_buff_len(ctx);
}

static __always_inline void from_v4(__be32 *out, __be32 address)
{
	out[0] = 0;
	out[1] = 0;
	out[2] = bpf_htonl(0xffff);
	out[3] = address;
}

/* seeded_hash_v6() out of line, for rare packets: inlined it needs stack, of
 * which there is none left below the fast path. */
static __noinline __u64 called_hash_v6(const __be32 *source,
				       const __be32 *destination, __u32 ports,
				       __u8 protocol, __u64 seed)
{
	return seeded_hash_v6(source, destination, ports, protocol, seed);
}

/* 0: the segment opens a flow (SYN without ACK, RST and FIN). A difference, as
 * that needs no jump. */
static __always_inline __u32 is_amid_flow(const struct tcphdr *tcp)
{
	return (((const __u8 *)tcp)[13] & 0x17) ^ 0x02;
}

static __always_inline bool tcp_opens(const struct tcphdr *tcp)
{
	return !is_amid_flow(tcp);
}

/* Parses the IPv4 header at packet->l3. */
static __always_inline int parse_v4(struct xdp_md *ctx, struct packet *packet)
{
	const struct iphdr *ip = at(ctx, packet->l3, sizeof(*ip));
	__u32 header, length;

	if (!ip)
		return -1;
	header = (*(const __u8 *)ip & 15) * 4;
	length = bpf_ntohs(ip->tot_len);
	if (header < sizeof(*ip) || length < header ||
	    length > frame_length(ctx) - packet->l3 ||
	    packet->l3 + length > PACKET_END_MAX)
		return -1;
	packet->protocol = ip->protocol;
	packet->fragment_protocol = ip->protocol;
	packet->l4 = packet->l3 + header;
	packet->end = packet->l3 + length;
	packet->id = ip->id;
	if (ip->frag_off & bpf_htons(IP_FRAGMENT_OFFSET))
		packet->kind = KIND_LATER;
	else if (ip->frag_off & bpf_htons(IP_MORE_FRAGMENTS))
		packet->kind = KIND_FIRST;
	return 0;
}

/* Parses the IPv6 extension header of type packet->protocol at packet->l4, and
 * advances packet->l4 beyond it. */
static __always_inline int parse_extension(struct xdp_md *ctx,
					   struct packet *packet)
{
	const __u8 *header = in_packet(ctx, packet, packet->l4, 8);
	__u32 length = 8;
	__be16 fragment;

	if (!header)
		return -1;
	if (packet->protocol == IPPROTO_FRAGMENT) {
		if (packet->kind == KIND_FIRST)
			return -1;
		fragment = *(const __be16 *)(header + 2);
		packet->id = *(const __be32 *)(header + 4);
		packet->fragment_protocol = header[0];
		if (fragment & bpf_htons(IPV6_FRAGMENT_OFFSET))
			packet->kind = KIND_LATER;
		else if (fragment & bpf_htons(IPV6_MORE_FRAGMENTS))
			packet->kind = KIND_FIRST;
	} else {
		length += 8 * header[1];
		/* the VIP would not be the final destination */
		if (packet->protocol == IPPROTO_ROUTING && header[3])
			return -1;
	}
	packet->protocol = header[0];
	packet->l4 += length;
	return packet->l4 > packet->end ? -1 : 0;
}

static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
	       protocol == IPPROTO_SCTP;
}

static __always_inline bool is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_DSTOPTS || protocol == IPPROTO_FRAGMENT;
}

/* Advances packet->l4 beyond the last extension header, or beyond the header of
 * a later fragment. */
__noinline int walk_extensions(struct xdp_md *ctx, struct packet *packet)
{
	if (!packet)
		return -1;
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		if (packet->kind == KIND_LATER ||
		    !is_extension(packet->protocol))
			return 0;
		if (parse_extension(ctx, packet))
			return -1;
	}
	if (packet->kind == KIND_LATER)
		return 0;
	return is_extension(packet->protocol) ? -1 : 0;
}

/* Parses the IPv6 header at packet->l3 and its extension headers. */
static __always_inline int parse_v6(struct xdp_md *ctx, struct packet *packet)
{
	const struct ipv6hdr *ip = at(ctx, packet->l3, sizeof(*ip));
	__u32 length;

	if (!ip)
		return -1;
	length = bpf_ntohs(ip->payload_len);
	if (!length || length + sizeof(*ip) > frame_length(ctx) - packet->l3 ||
	    packet->l3 + sizeof(*ip) + length > PACKET_END_MAX)
		return -1;
	packet->protocol = ip->nexthdr;
	packet->l4 = packet->l3 + sizeof(*ip);
	packet->end = packet->l4 + length;
	return walk_extensions(ctx, packet);
}

static __always_inline int parse_sctp(struct xdp_md *ctx, struct packet *packet)
{
	const __u8 *chunk = in_packet(ctx, packet, packet->l4 + 12, 1);

	packet->opens_flow = chunk && *chunk == 1; /* INIT */
	return 0;
}

/* Parses ports of TCP, UDP or SCTP, and whether the packet opens a flow. */
static __always_inline int parse_l4(struct xdp_md *ctx, struct packet *packet)
{
	const struct udphdr *ports;
	__u32 size = packet->protocol == IPPROTO_TCP   ? 20
		     : packet->protocol == IPPROTO_UDP ? 8
						       : 12;

	if (packet->l4 + size > packet->end)
		return -1;
	ports = at(ctx, packet->l4, 8);
	if (!ports)
		return -1;
	packet->source_port = ports->source;
	packet->destination_port = ports->dest;
	if (packet->protocol == IPPROTO_TCP) {
		const struct tcphdr *tcp = at(ctx, packet->l4, sizeof(*tcp));

		if (!tcp)
			return -1;
		packet->opens_flow = tcp_opens(tcp);
	} else if (packet->protocol == IPPROTO_SCTP) {
		return parse_sctp(ctx, packet);
	}
	return 0;
}

/*
 * Parses the link header with at most two VLAN tags. Returns the Ethertype
 * after it, 0 if the frame ends before that, and sets *l3.
 */
static __always_inline __be16 parse_link(struct xdp_md *ctx, __u32 *l3)
{
	void *end = frame_end(ctx);
	void *start = frame_start(ctx);
	__be16 type;

	*l3 = ETH_HLEN;
	if (start + ETH_HLEN > end)
		return 0;
	/* Group address: each node would forward its copy (RFC 1812, 5.3.4). */
	if (unlikely(*(__u8 *)start & 1))
		return 0;
	type = *(__be16 *)(start + 12);
	/* is_vlan() would cost the fast path instructions */
	if (likely(type != bpf_htons(ETH_P_8021Q) &&
		   type != bpf_htons(ETH_P_8021AD)))
		return type;
	*l3 = ETH_HLEN + 4;
	if (start + ETH_HLEN + 4 > end)
		return 0;
	type = *(__be16 *)(start + 16);
	if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
		return type;
	*l3 = ETH_HLEN + 8;
	if (start + ETH_HLEN + 8 > end)
		return 0;
	return *(__be16 *)(start + 20);
}

#endif
