/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * At the egress of an uplink: gives probes of the health checker, whose mark
 * selects the member through which to probe a VIP, what the forwarding program
 * would give to a client's packet for that member. Replies go from the VIP to
 * the node's own address and do not concern this program.
 *
 * The kernel has routed the probe by the VIP, and its link header is that of
 * the uplink's next hop, as for traffic. If the outer packet is of the other
 * family, the kernel looks up the next hop again.
 *
 * A packet with one of our marks, or to a token, never leaves unchanged.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include "outer.h"
#include "probe.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, OXP_PROBES_MAX);
	__type(key, __u32);
	__type(value, struct probe_target);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, OXP_PROBES_MAX);
	__type(key, struct oxp_address);
	__type(value, __u32);
} tokens SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, OXP_TOKEN_NETWORKS_MAX);
	__type(key, struct token_network);
	__type(value, __u8);
} token_networks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OXP_PROBE_OUTCOMES);
	__type(key, __u32);
	__type(value, __u64);
} outcomes SEC(".maps");

/* The forwarding program's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct node_config);
} config SEC(".maps");

/* The probe before it is changed. */
struct probe {
	__u64 head; /* see outer.h */
	__u32 entropy;
	__u32 l4; /* offset of the transport's header */
	__u8 protocol;
	bool v6;
};

static __always_inline int finish(__u32 outcome, int action)
{
	__u64 *packets = bpf_map_lookup_elem(&outcomes, &outcome);

	if (packets)
		++*packets;
	return action;
}

static __always_inline int drop(__u32 outcome)
{
	return finish(outcome, TC_ACT_SHOT);
}

/* Source and destination port as one word, in the forwarding program's order; 0
 * if the protocol has none. */
static __always_inline __u32 ports_of(struct __sk_buff *skb, __u32 l4,
				      __u8 protocol)
{
	__be16 ports[2];

	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP &&
	     protocol != IPPROTO_SCTP) ||
	    bpf_skb_load_bytes(skb, l4, ports, sizeof(ports)))
		return 0;
	return (__u32)ports[0] << 16 | ports[1];
}

/* Whether the packet is for the target's VIP. */
static __always_inline bool parse_v4(struct __sk_buff *skb,
				     const struct probe_target *target,
				     struct probe *probe)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
	    target->vip[2] != bpf_htonl(0xffff) || target->vip[0] ||
	    target->vip[1] || target->vip[3] != ip.daddr)
		return false;
	probe->head = head_of_v4(&ip);
	probe->l4 = ETH_HLEN + 4 * ip.ihl;
	probe->protocol = ip.protocol;
	probe->entropy = flow_entropy(flow_hash_v4(
		ip.saddr, ip.daddr, ports_of(skb, probe->l4, ip.protocol),
		ip.protocol));
	return true;
}

static __always_inline bool parse_v6(struct __sk_buff *skb,
				     const struct probe_target *target,
				     struct probe *probe)
{
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return false;
	for (int i = 0; i < 4; i++)
		if (target->vip[i] != ip.daddr.in6_u.u6_addr32[i])
			return false;
	probe->head = head_of_v6(&ip);
	probe->l4 = ETH_HLEN + sizeof(ip);
	probe->protocol = ip.nexthdr;
	probe->entropy = flow_entropy(
		flow_hash_v6(ip.saddr.in6_u.u6_addr32, ip.daddr.in6_u.u6_addr32,
			     ports_of(skb, probe->l4, ip.nexthdr), ip.nexthdr));
	return true;
}

/* Sends by the kernel's route to the packet's current destination. The packet
 * passes here again, without its mark. */
static __always_inline int by_route(struct __sk_buff *skb)
{
	int action = bpf_redirect_neigh(skb->ifindex, NULL, 0, 0);

	skb->mark = 0;
	if (action != TC_ACT_REDIRECT)
		return drop(OXP_PROBE_DROP_INTERNAL);
	return finish(OXP_PROBE_SENT, action);
}

/* Type of the added headers, with which the kernel segments the inner packet
 * and computes its checksums. */
static __always_inline __u64 room_flags(__u32 outer_type)
{
	__u64 flags = is_outer_v6(outer_type) ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6
					      : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	__u8 protocol = outer_protocol(outer_type, false);

	if (protocol == IPPROTO_UDP)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	else if (protocol == IPPROTO_GRE)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_GRE;
	return flags;
}

static __always_inline int encapsulate(struct __sk_buff *skb,
				       const struct probe_target *target,
				       const struct probe *probe)
{
	const struct node_config *node;
	__u32 zero = 0, outer_type = without_port(target->outer_type);
	__u32 length = outer_length(outer_type), ip_length;
	bool outer_v6 = is_outer_v6(outer_type);
	__u32 outer[(40 + SHIM_MAX) / 4] __attribute__((aligned(8))) = {};

	node = bpf_map_lookup_elem(&config, &zero);
	if (!node)
		return drop(OXP_PROBE_DROP_INTERNAL);
	if (!has_source(node, outer_v6))
		return drop(OXP_PROBE_DROP_NO_SOURCE);
	if (outer_v6)
		push_v6(outer, probe->head, outer_type, length, probe->entropy,
			node, target->outer, probe->v6);
	else
		push_v4(outer, probe->head, outer_type, length,
			outer_source(node->source_v4, node->entropy_v4,
				     probe->entropy),
			target->outer[3], probe->v6);
	ip_length = outer_v6 ? 40 : 20;
	push_shim((void *)outer + ip_length, outer_type,
		  head_length(probe->head), probe->entropy, target->key,
		  probe->v6);

	if (bpf_skb_adjust_room(skb, length, BPF_ADJ_ROOM_MAC,
				room_flags(outer_type)))
		return drop(OXP_PROBE_DROP_TOO_BIG);
	/* constant lengths, for the verifier of older kernels */
	_Static_assert(SHIM_MAX == 16, "what is stored last");
	if (bpf_skb_store_bytes(skb, ETH_HLEN, outer, 20, 0) ||
	    (length >= 24 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 20, outer + 5, 4, 0)) ||
	    (length >= 28 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 24, outer + 6, 4, 0)) ||
	    (length >= 36 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 28, outer + 7, 8, 0)) ||
	    (length >= 40 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 36, outer + 9, 4, 0)) ||
	    (length >= 44 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 40, outer + 10, 4, 0)) ||
	    (length >= 48 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 44, outer + 11, 4, 0)) ||
	    (length >= 56 &&
	     bpf_skb_store_bytes(skb, ETH_HLEN + 48, outer + 12, 8, 0)))
		return drop(OXP_PROBE_DROP_INTERNAL);
	if (outer_v6 != probe->v6)
		return by_route(skb);
	return finish(OXP_PROBE_SENT, TC_ACT_OK);
}

/* Sets the packet's port to the member's, if the protocol has ports. */
static __always_inline int rewrite_port(struct __sk_buff *skb,
					const struct probe *probe, __be16 port)
{
	__u64 flags = sizeof(port);
	__u32 check;
	__be16 was;

	if (probe->protocol != IPPROTO_TCP && probe->protocol != IPPROTO_UDP)
		return 0;
	check = checksum_offset(probe->protocol, true);
	if (probe->protocol == IPPROTO_UDP)
		flags |= BPF_F_MARK_MANGLED_0;
	if (bpf_skb_load_bytes(skb, probe->l4 + 2, &was, sizeof(was)) ||
	    bpf_l4_csum_replace(skb, probe->l4 + check, was, port, flags))
		return -1;
	return bpf_skb_store_bytes(skb, probe->l4 + 2, &port, sizeof(port), 0);
}

static __always_inline int correct_l4(struct __sk_buff *skb, __u32 l4,
				      __u8 protocol, bool v6, __s64 difference)
{
	__u32 check = checksum_offset(protocol, v6);
	__u64 flags = BPF_F_PSEUDO_HDR;

	if (protocol == IPPROTO_UDP)
		flags |= BPF_F_MARK_MANGLED_0;
	return check ? bpf_l4_csum_replace(skb, l4 + check, 0, difference,
					   flags)
		     : 0;
}

static __always_inline int rewrite_v4(struct __sk_buff *skb,
				      const struct probe_target *target)
{
	__be32 to = target->outer[3];
	struct iphdr ip;
	__s64 difference;
	__u8 marked;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	marked = tos_with_dscp(ip.tos, target->dscp);
	difference = bpf_csum_diff(&ip.daddr, 4, &to, 4, 0);
	if (difference < 0 ||
	    correct_l4(skb, ETH_HLEN + 4 * ip.ihl, ip.protocol, false,
		       difference) ||
	    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check),
				ip.daddr, to, 4) ||
	    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check),
				bpf_htons(ip.tos), bpf_htons(marked), 2))
		return -1;
	return bpf_skb_store_bytes(skb, ETH_HLEN + 1, &marked, 1, 0) ||
	       bpf_skb_store_bytes(skb,
				   ETH_HLEN + offsetof(struct iphdr, daddr),
				   &to, sizeof(to), 0);
}

static __always_inline int rewrite_v6(struct __sk_buff *skb,
				      const struct probe_target *target)
{
	__be32 to[4], was[4];
	struct ipv6hdr ip;
	__s64 difference;
	__be16 first;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	for (int i = 0; i < 4; i++) {
		to[i] = target->outer[i];
		was[i] = ip.daddr.in6_u.u6_addr32[i];
	}
	first = class_with_dscp(*(__be16 *)&ip, target->dscp);
	difference = bpf_csum_diff(was, sizeof(was), to, sizeof(to), 0);
	if (difference < 0 || correct_l4(skb, ETH_HLEN + sizeof(ip), ip.nexthdr,
					 true, difference))
		return -1;
	return bpf_skb_store_bytes(skb, ETH_HLEN, &first, sizeof(first), 0) ||
	       bpf_skb_store_bytes(skb,
				   ETH_HLEN + offsetof(struct ipv6hdr, daddr),
				   to, sizeof(to), 0);
}

static __always_inline int rewrite(struct __sk_buff *skb,
				   const struct probe_target *target, bool v6)
{
	if (v6 ? rewrite_v6(skb, target) : rewrite_v4(skb, target))
		return drop(OXP_PROBE_DROP_INTERNAL);
	return finish(OXP_PROBE_SENT, TC_ACT_OK);
}

/* Whether the destination is in a network of tokens. *mark becomes that of its
 * target, 0 if there is none. */
static __always_inline bool is_to_token(struct __sk_buff *skb, __u32 *mark)
{
	struct token_network key = {};
	const __u32 *number;
	int status;

	/* not as an initializer: that would be a map of constants of its own */
	key.bits = 128;
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		status = bpf_skb_load_bytes(
			skb, ETH_HLEN + offsetof(struct ipv6hdr, daddr),
			key.address, sizeof(key.address));
	} else if (skb->protocol == bpf_htons(ETH_P_IP)) {
		key.address[2] = bpf_htonl(0xffff);
		status = bpf_skb_load_bytes(
			skb, ETH_HLEN + offsetof(struct iphdr, daddr),
			&key.address[3], sizeof(key.address[3]));
	} else {
		return false;
	}
	if (status || !bpf_map_lookup_elem(&token_networks, &key))
		return false;
	number = bpf_map_lookup_elem(&tokens, key.address);
	*mark = number ? *number : 0;
	return true;
}

SEC("tc")
int oxp_probe(struct __sk_buff *skb)
{
	const struct probe_target *target;
	__u32 mark = skb->mark;
	struct probe probe = {};
	bool ours;

	if ((mark & OXP_PROBE_MARK_MASK) != OXP_PROBE_MARK &&
	    !is_to_token(skb, &mark))
		return TC_ACT_UNSPEC;
	target = bpf_map_lookup_elem(&targets, &mark);
	if (!target)
		return drop(OXP_PROBE_DROP_UNKNOWN);
	probe.v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	if (probe.v6)
		ours = parse_v6(skb, target, &probe);
	else
		ours = skb->protocol == bpf_htons(ETH_P_IP) &&
		       parse_v4(skb, target, &probe);
	if (!ours)
		return drop(OXP_PROBE_DROP_DESTINATION);
	if (target->outer_type & OUTER_PORT &&
	    rewrite_port(skb, &probe, target->port))
		return drop(OXP_PROBE_DROP_INTERNAL);
	if (without_port(target->outer_type) == OUTER_NONE)
		return rewrite(skb, target, probe.v6);
	if (!has_outer_header(without_port(target->outer_type)))
		return drop(OXP_PROBE_DROP_INTERNAL);
	return encapsulate(skb, target, &probe);
}
