/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a frame at the NIC is from an LB node with a key of ours. Only reads.
 */
#ifndef OXP_HOST_ARRIVE_H
#define OXP_HOST_ARRIVE_H

#include "host/count.h"
#include "host/hints.h"
#include "named.h"
#include "tunnel.h"

_Static_assert(sizeof(struct geneve_header) == HOST_GENEVE_HEADER, "Geneve");

/* Bytes that are made linear, if the frame has them: link, outer header with an
 * alternative, inner header and that of TCP. */
#define ARRIVE_PULLED                                                          \
	(ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr) +           \
	 sizeof(struct geneve_header) + OXP_ALTERNATIVE_V6 +                   \
	 sizeof(struct ipv6hdr) + sizeof(struct tcphdr))
/* Bytes that show whether a frame is ours. */
#define ARRIVE_PEEKED                                                          \
	(ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr) +             \
	 sizeof(struct geneve_header))

static __always_inline bool is_local_v6(const struct host_settings *node,
					const struct in6_addr *address)
{
	const __u32 *word = address->in6_u.u6_addr32;

	return word[0] == node->local_v6[0] && word[1] == node->local_v6[1] &&
	       word[2] == node->local_v6[2] && word[3] == node->local_v6[3];
}

static __always_inline bool is_sid(const struct host_settings *node,
				   const struct in6_addr *address)
{
	const __u32 *word = address->in6_u.u6_addr32;

	return word[0] == node->sid[0] && word[1] == node->sid[1] &&
	       word[2] == node->sid[2];
}

/* The cheap check of all frames: whether the destination is one of ours and the
 * protocol is that of a tunnel. */
static __always_inline bool may_be_ours(struct __sk_buff *skb,
					const struct host_settings *node)
{
	void *data = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *v4 = (void *)(ethernet + 1);
	struct ipv6hdr *v6 = (void *)(ethernet + 1);

	if ((void *)(v4 + 1) > end)
		return false;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP))
		return v4->protocol == IPPROTO_UDP &&
		       v4->daddr == node->local_v4;
	if (ethernet->h_proto != bpf_htons(ETH_P_IPV6) ||
	    (void *)(v6 + 1) > end)
		return false;
	if (v6->nexthdr == IPPROTO_UDP)
		return is_local_v6(node, &v6->daddr);
	return (v6->nexthdr == IPPROTO_IPIP || v6->nexthdr == IPPROTO_IPV6 ||
		v6->nexthdr == IPPROTO_ROUTING) &&
	       is_sid(node, &v6->daddr);
}

/* For a SID. */
static __always_inline __u32 key_of_address(const struct ip_address *address)
{
	return bpf_ntohl(*(const __be32 *)(address->bytes + 12));
}

#define NAMED_LENGTH 0xff /* length in bytes */
#define NAMED_V6 0x100    /* the inner packet is IPv6 */

/* Length of what a tunnel packet that names an alternative has for that, maybe
 * with NAMED_V6; 0: names none. Separate because of the stack. */
static __noinline __u32 find_named(struct __sk_buff *skb, bool v6, bool routing)
{
	void *end = (void *)(long)skb->data_end;
	void *ip = (void *)(long)skb->data + ETH_HLEN;
	struct tunnel tunnel = {.version = v6 ? 6 : 4};
	struct outer outer = {.payload = ip + sizeof(struct iphdr)};
	struct named named = {};
	void *inner;

	if (v6)
		outer.payload = ip + sizeof(struct ipv6hdr);
	inner = routing ? find_named_in_segments(&outer, end, &tunnel, &named)
			: find_named_in_geneve(&outer, end, &tunnel, &named);
	if (!inner)
		return 0;
	return named.length |
	       (tunnel.type == bpf_htons(ETH_P_IPV6) ? NAMED_V6 : 0);
}

/* Data about a packet from the NIC before the decision. */
struct chance {
	__u32 named;     /* find_named(), or 0 */
	__u32 key;       /* replaces the packet's; 0: does not */
	__u32 handed_on; /* by another hypervisor */
};

/* Reads the key and checks the tunnel's format. False: not our tunnel. */
static __always_inline bool find_tunnel(struct __sk_buff *skb,
					struct outer *outer, void *end,
					struct tunnel *tunnel,
					struct chance *chance, const bool look,
					__u32 *key)
{
	struct udphdr *udp = outer->payload;
	struct geneve_header *geneve = (void *)(udp + 1);
	bool v6;

	if (outer->protocol != IPPROTO_UDP) {
		*key = key_of_address(&outer->destination);
		v6 = outer->protocol == IPPROTO_IPV6;
		if (outer->protocol == IPPROTO_ROUTING) {
			if (look)
				chance->named = find_named(skb, true, true);
			if (!chance->named)
				return false;
			v6 = chance->named & NAMED_V6;
		}
		tunnel->type = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
		tunnel->length = outer->header + (chance->named & NAMED_LENGTH);
		return true;
	}
	/* OVN's tunnels carry Ethernet and an option, which tells them from
	 * ours if both have the same addresses. */
	if ((void *)(geneve + 1) > end ||
	    udp->dest != bpf_htons(HOST_GENEVE_PORT) || udp->check)
		return false;
	if (bpf_ntohs(udp->len) != outer->length - outer->header)
		outer->wrong = 1;
	*key = bpf_ntohl(geneve->vni) >> 8;
	if (!geneve->version_options)
		return find_inner_of_geneve(outer, end, tunnel);
	tunnel->type = geneve->type;
	if (look)
		chance->named = find_named(skb, tunnel->version == 6, false);
	tunnel->length = outer->header + sizeof(*udp) + sizeof(*geneve) +
			 (chance->named & NAMED_LENGTH);
	return chance->named;
}

struct arrived {
	struct tunnel tunnel;
	struct host_entry *entry;
};

/* PASS: not ours; IN: continue; others: drop. `look` fills in the chance. */
static __always_inline enum host_outcome
arrive(struct __sk_buff *skb, struct arrived *out, struct seen *seen,
       const struct host_settings *node, struct chance *chance, const bool look)
{
	void *data = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	struct ip_address destination = {};
	struct tunnel *tunnel = &out->tunnel;
	struct outer outer = {};
	__be16 type;
	void *ip = skip_link(data, end, &tunnel->link, &type), *inner;
	__u32 place;

	if (tunnel->link != ETH_HLEN ||
	    read_outer(ip, end, type, tunnel, &outer) || outer.fragment ||
	    !find_tunnel(skb, &outer, end, tunnel, chance, look, &seen->key))
		return HOST_PASS;
	if (chance->key)
		seen->key = chance->key;
	place = place_of_key(seen->key);
	if (!chance->handed_on && !is_of_node(&outer.source, node)) {
		if (!look || chance->named || !is_of_peer(&outer.source))
			return place == HOST_NO_PLACE ? HOST_PASS
						      : HOST_DROP_SOURCE;
		chance->handed_on = 1;
	}
	if (place == HOST_NO_PLACE)
		return HOST_DROP_KEY;
	out->entry = entries_at(place);
	/* the key is removed first and added last */
	if (!out->entry || !is_used(out->entry) || out->entry->key != seen->key)
		return HOST_DROP_KEY;
	seen->place = place;
	seen->host_port = out->entry->host_port;
	inner = ip + tunnel->length;
	seen->length = read_inner(inner, end, tunnel, &destination);
	if (!seen->length || outer.wrong ||
	    outer.length > skb->len - tunnel->link ||
	    outer.length != tunnel->length + seen->length)
		return HOST_DROP_MALFORMED;
	return HOST_IN;
}

/* Makes this much of the frame linear, if it has as much. */
static __always_inline void pull_headers(struct __sk_buff *skb)
{
	__u32 linear = skb->data_end - skb->data;

	if (linear < ARRIVE_PULLED && linear < skb->len)
		bpf_skb_pull_data(skb, skb->len < ARRIVE_PULLED
					       ? skb->len
					       : ARRIVE_PULLED);
}

#endif
