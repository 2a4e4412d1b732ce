/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replaces one address and port of a packet: inbound the destination, outbound
 * the source. Helpers correct the checksums, as they know the kernel's checksum
 * state: often a VM's checksum is not computed yet.
 */
#ifndef OXP_HOST_REWRITE_H
#define OXP_HOST_REWRITE_H

#include "ecn.h"
#include "host/packet.h"

enum way {
	WAY_IN,
	WAY_OUT
};

struct rewriting {
	struct ip_address from, to;
	__be16 from_port, to_port;
	__s8 ecn;  /* for the IP header; negative: unchanged */
	__u8 link; /* whether to write `macs` and the Ethertype as well */
	__u8 macs[12];
};

/* Fixes the checksum that covers the addresses. */
static __always_inline int fix_addresses(struct __sk_buff *skb,
					 const struct transport *transport,
					 struct rewriting *change)
{
	__u32 at =
		checksum_offset(transport->protocol, transport->version == 6);
	__u64 flags =
		BPF_F_PSEUDO_HDR |
		(transport->protocol == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0);
	__u32 sum;

	if (!at || transport->later)
		return 0;
	at += transport->offset;
	if (transport->version == 4)
		return bpf_l4_csum_replace(skb, at, last_word(&change->from),
					   last_word(&change->to), 4 | flags);
	sum = bpf_csum_diff((void *)&change->from, 16, (void *)&change->to, 16,
			    0);
	return bpf_l4_csum_replace(skb, at, 0, sum, flags);
}

static __always_inline int set_port(struct __sk_buff *skb,
				    const struct host_packet *packet,
				    struct rewriting *change,
				    const enum way way)
{
	const struct transport *transport = &packet->transport;
	__u32 sum =
		transport->offset + checksum_offset(transport->protocol, true);
	__u32 at = transport->offset + (way == WAY_IN ? 2 : 0);

	if (!packet->has_ports || change->from_port == change->to_port)
		return 0;
	if (frame_fix_l4(skb, true, sum, change->from_port, change->to_port,
			 transport->protocol == IPPROTO_UDP))
		return -1;
	return bpf_skb_store_bytes(skb, at, &change->to_port, 2, 0);
}

struct link_and_v4 {
	__be16 aligned;
	struct ethhdr ethernet;
	struct iphdr ip;
} __attribute__((aligned(4)));
#define LINK_AND_V4 (ETH_HLEN + sizeof(struct iphdr))

static __always_inline __u16 one_change(__be16 check, __u32 change)
{
	return ~fold_32((__u16)~check + fold_32(change));
}

static __always_inline int set_v4(struct __sk_buff *skb, __u32 at,
				  const struct rewriting *change,
				  const enum way way)
{
	struct link_and_v4 header;
	__be32 to = last_word(&change->to);
	__be32 *address = way == WAY_IN ? &header.ip.daddr : &header.ip.saddr;
	__u32 sum;

	if (at != ETH_HLEN ||
	    bpf_skb_load_bytes(skb, 0, &header.ethernet, LINK_AND_V4))
		return -1;
	sum = (__u32)(__u16) ~(*address & 0xffff) + (__u16) ~(*address >> 16) +
	      (to & 0xffff) + (to >> 16);
	*address = to;
	if (change->ecn >= 0) {
		__be16 *word = (void *)&header.ip;
		__be16 was = *word;

		*word = (was & bpf_htons(0xffff & ~ECN_MASK)) |
			bpf_htons(change->ecn);
		sum += change16(was, *word);
	}
	header.ip.check = one_change(header.ip.check, sum);
	if (way == WAY_OUT)
		return bpf_skb_store_bytes(skb, ETH_HLEN, &header.ip,
					   sizeof(header.ip), 0);
	__builtin_memcpy(&header.ethernet, change->macs, 12);
	header.ethernet.h_proto = bpf_htons(ETH_P_IP);
	return bpf_skb_store_bytes(skb, 0, &header.ethernet, LINK_AND_V4, 0);
}

/*
 * Corrects the checksum for the ports of a usual packet. A helper has already
 * corrected it by `addresses`: its result shows whether the checksum is
 * complete and covers the ports, or covers only the addresses and is completed
 * later. If it does not show that, as for sums that are 0 or 0xffff, another
 * helper call decides. Pointers into the packet are invalid afterwards.
 */
static __always_inline int check_of_ports(struct __sk_buff *skb, __u32 at,
					  __be16 *now, __be16 was,
					  __u32 addresses, __be16 from,
					  __be16 to, bool udp)
{
	__u16 complete = ~fold_32((__u16)~was + fold_32(addresses));
	__u16 later = fold_32(was + fold_32(addresses));
	__u16 sum = *now;

	if (complete == later || (__u16)(sum + 1) < 2 ||
	    (sum != complete && sum != later))
		return frame_fix_l4(skb, true, at, from, to, udp);
	if (sum == later)
		return 0;
	sum = ~fold_32((__u16)~sum + change16(from, to));
	*now = udp && !sum ? 0xffff : sum;
	return 0;
}

/* For packets of read_usual(). */
static __always_inline bool can_be_rewritten(const struct host_packet *packet)
{
	return packet->transport.protocol != IPPROTO_SCTP;
}

/* Change of a sum that covers the address. */
static __always_inline __u32 change_of_address(const struct ip_address *from,
					       const struct ip_address *to,
					       const bool v6)
{
	const __u32 *was = (const void *)from, *is = (const void *)to;
	__u64 sum = (__u64)(__u32)~was[3] + is[3];

	for (int i = 0; v6 && i < 3; i++)
		sum += (__u64)(__u32)~was[i] + is[i];
	return fold(sum);
}

/* For TCP or UDP in IPv4 without options or in IPv6, directly after the link
 * header, with the transport's header in one piece. `packet` says which of the
 * two it is, `v6` is a constant. */
static __always_inline int rewrite_headers(struct __sk_buff *skb,
					   const struct host_packet *packet,
					   const struct host_entry *entry,
					   const enum way way, const bool v6)
{
	const bool udp = packet->transport.protocol == IPPROTO_UDP;
	const __u32 l4 =
		ETH_HLEN + (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	const __u32 at = l4 + (udp ? offsetof(struct udphdr, check)
				   : offsetof(struct tcphdr, check));
	const struct ip_address *from =
		way == WAY_IN ? &entry->vip : &entry->fixed;
	const struct ip_address *to =
		way == WAY_IN ? &entry->fixed : &entry->vip;
	__be16 from_port = way == WAY_IN ? entry->vip_port : entry->port;
	__be16 to_port = way == WAY_IN ? entry->port : entry->vip_port;
	__u32 addresses = change_of_address(from, to, v6);
	bool summed = !udp || packet->check;
	struct ethhdr *ethernet;
	struct ipv6hdr *ip6;
	struct iphdr *ip;
	__be16 *ports;
	void *end;

	if (summed &&
	    bpf_l4_csum_replace(skb, at, 0, addresses,
				BPF_F_PSEUDO_HDR |
					(udp ? BPF_F_MARK_MANGLED_0 : 0)))
		return -1;
	/* For IPv6 no header's sum offsets the address's change, as the helper
	 * assumes. Without a sum of the whole packet this has no effect. */
	if (v6 && summed)
		bpf_csum_update(skb, addresses);
	ethernet = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if ((void *)ethernet + l4 + sizeof(struct tcphdr) > end)
		return -1;
	if (summed && from_port != to_port) {
		__be16 *check = (void *)ethernet + at;

		if (check_of_ports(skb, at, check, packet->check, addresses,
				   from_port, to_port, udp))
			return -1;
		ethernet = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		if ((void *)ethernet + l4 + sizeof(struct tcphdr) > end)
			return -1;
	}
	ports = (void *)ethernet + l4;
	ports[way == WAY_IN ? 1 : 0] = to_port;
	if (v6) {
		ip6 = (void *)(ethernet + 1);
		__builtin_memcpy(way == WAY_IN ? &ip6->daddr : &ip6->saddr, to,
				 sizeof(ip6->daddr));
	} else {
		ip = (void *)(ethernet + 1);
		if (way == WAY_IN)
			ip->daddr = last_word(to);
		else
			ip->saddr = last_word(to);
		ip->check = one_change(ip->check, addresses);
	}
	if (way == WAY_OUT)
		return 0;
	__builtin_memcpy(ethernet, entry->macs, sizeof(entry->macs));
	ethernet->h_proto = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	return 0;
}

static __always_inline int rewrite_usual(struct __sk_buff *skb,
					 const struct host_packet *packet,
					 const struct host_entry *entry,
					 const enum way way)
{
	if (packet->transport.version == 4)
		return rewrite_headers(skb, packet, entry, way, false);
	return rewrite_headers(skb, packet, entry, way, true);
}

static __always_inline int set_v6(struct __sk_buff *skb, __u32 at,
				  struct rewriting *change, const enum way way)
{
	struct ethhdr ethernet;

	if (change->ecn >= 0 &&
	    set_ecn(skb, true, at, bpf_htons(ETH_P_IPV6), change->ecn))
		return -1;
	/* The previous helper assumed, as for IPv4, that nothing offsets the
	 * change of the transport's checksum; so must this one. */
	if (bpf_skb_store_bytes(skb, at + (way == WAY_IN ? 24 : 8), &change->to,
				16, BPF_F_RECOMPUTE_CSUM))
		return -1;
	if (way == WAY_OUT)
		return 0;
	__builtin_memcpy(&ethernet, change->macs, 12);
	ethernet.h_proto = bpf_htons(ETH_P_IPV6);
	return bpf_skb_store_bytes(skb, 0, &ethernet, sizeof(ethernet), 0);
}

/* Rewrites the IP header, and the transport's checksum and port. */
static __always_inline int rewrite(struct __sk_buff *skb,
				   const struct host_packet *packet,
				   struct rewriting *change, const enum way way)
{
	if (fix_addresses(skb, &packet->transport, change) ||
	    set_port(skb, packet, change, way))
		return -1;
	if (packet->transport.version == 4)
		return set_v4(skb, packet->ip, change, way);
	return set_v6(skb, packet->ip, change, way);
}

/*
 * Rewrites the packet that an ICMP error quotes, which went the other way:
 * inbound, its source is the VIP and its port; outbound, its destination is the
 * member's. Corrects the checksum of a quoted IPv4 header, but not that of the
 * quoted transport: few quotes include it, and nobody verifies it.
 */
static __always_inline int rewrite_quote(struct __sk_buff *skb,
					 const struct host_packet *error,
					 struct rewriting *change,
					 const enum way way)
{
	struct host_packet quote = {};
	__u32 sum = error->transport.offset + ICMP_CHECKSUM;
	bool v4 = error->transport.version == 4;
	__u32 port, address, difference;
	__be32 from = last_word(&change->from), to = last_word(&change->to);

	if (parse_quote(skb, error, &quote))
		return -1;
	port = quote.transport.offset + (way == WAY_IN ? 0 : 2);
	if (v4)
		address = quote.ip + (way == WAY_IN ? 12 : 16);
	else
		address = quote.ip + (way == WAY_IN ? 8 : 24);
	if (change->from_port != change->to_port &&
	    (frame_fix_l4(skb, true, sum, change->from_port, change->to_port,
			  false) ||
	     bpf_skb_store_bytes(skb, port, &change->to_port, 2, 0)))
		return -1;
	if (v4)
		/* the two changes cancel out in the error's sum */
		return bpf_l3_csum_replace(skb, quote.ip + 10, from, to, 4) ||
		       bpf_skb_store_bytes(skb, address, &to, 4, 0);
	difference = bpf_csum_diff((void *)&change->from, 16,
				   (void *)&change->to, 16, 0);
	return bpf_l4_csum_replace(skb, sum, 0, difference, 0) ||
	       bpf_skb_store_bytes(skb, address, &change->to, 16, 0);
}

#endif
