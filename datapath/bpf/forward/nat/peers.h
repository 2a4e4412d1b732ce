/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets of flows that another node has; doc/source/contributor/nat.rst,
 * "Peers". Between nodes they have an outer IP header and a GRE header with a
 * key (RFC 2890) that contains the state of the search for the owner.
 */
#ifndef OXP_NAT_PEERS_H
#define OXP_NAT_PEERS_H

#include "forward/buffers.h"
#include "forward/nat/fragments.h"
#include "forward/nat/work.h"
#include "verifier.h"

#define NAT_GRE_KEY bpf_htons(0x2000) /* flags: a key, nothing else */
#define NAT_KEY_MAGIC 0x4f580000U
#define NAT_HOPS_MAX 32
#define NAT_OUTER_TTL 64

enum nat_handed_kind {
	NAT_DIRECT_IN, /* not handed on by any node */
	NAT_SEEK,      /* looking for the owner, which returns it: NAT_FOUND */
	NAT_FOUND,     /* to the origin, from the owner */
	NAT_OWNED,     /* from the origin, to the owner that it knows */
	NAT_LOST,      /* to the origin, from a node that is not the owner */
	NAT_NOBODY,    /* to the origin, after all nodes were asked */
};

struct nat_gre {
	__be16 flags;
	__be16 protocol;
	__be32 key;
};

static __always_inline const struct nat_peer_list *nat_peers_of_node(void)
{
	const struct nat_pools *pools = nat_pools_of_node();
	const struct nat_peer_list *list;

	if (!pools)
		return NULL;
	list = &pools->peer_list[READ_ONCE(pools->live_peers) & 1];
	if (READ_ONCE(list->count) < 2 ||
	    READ_ONCE(list->own) >= READ_ONCE(list->count))
		return NULL;
	return list;
}

static __always_inline const __be32 *
nat_peer_at(const struct nat_peer_list *list, __u64 place)
{
	_Static_assert(OXP_NAT_PEERS_MAX == 16, "mask");
	MASK(place, 15);
	return list->address[place];
}

/* The peer's place, or OXP_NAT_PEERS_MAX. */
static __always_inline __u32 nat_peer_of(const struct nat_peer_list *list,
					 const __be32 *address)
{
	for (__u32 i = 0; i < OXP_NAT_PEERS_MAX; i++)
		if (i < READ_ONCE(list->count) &&
		    same_words(nat_peer_at(list, i), address))
			return i;
	return OXP_NAT_PEERS_MAX;
}

static __always_inline __u32 nat_next_peer(const struct nat_peer_list *list)
{
	__u32 next = READ_ONCE(list->own) + 1;

	return next < READ_ONCE(list->count) ? next : 0;
}

static __always_inline __u32 nat_handed_length(bool v6)
{
	return (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) +
	       sizeof(struct nat_gre);
}

/* By how much clients' packets must be able to grow. */
static __always_inline __u32 nat_peers_overhead(void)
{
	const struct nat_peer_list *list = nat_peers_of_node();

	return list ? nat_handed_length(!nat_is_v4(list->address[0])) : 0;
}

/* This CPU's counts of searches in this second (of 2^30 ns), or NULL. */
static __always_inline struct nat_scratch *nat_sought(void)
{
	__u32 only = 0, now = nat_now();
	struct nat_scratch *scratch = bpf_map_lookup_elem(&nat_scratch, &only);

	if (scratch && writes_nat && scratch->seek_time != now) {
		scratch->seek_time = now;
		scratch->seeks = 0;
		scratch->udp_seeks = 0;
		__builtin_memset(scratch->passed, 0, sizeof(scratch->passed));
	}
	return scratch;
}

/* Packets with an unknown owner cost work on several nodes: limits how many a
 * CPU sends per second on a search. */
static __always_inline bool nat_has_seek_left(bool is_datagram)
{
	struct nat_scratch *scratch = nat_sought();
	__u16 *seeks;

	if (!scratch)
		return false;
	if (!writes_nat)
		return true;
	seeks = is_datagram ? &scratch->udp_seeks : &scratch->seeks;
	if (*seeks >= NAT_SEEKS_MAX)
		return false;
	(*seeks)++;
	return true;
}

/* Outer sources can be forged: limits how many of each peer's searches are
 * passed on, so that forged ones do not affect the other peers. */
static __always_inline bool nat_has_pass_left(const struct nat_work *work)
{
	struct nat_scratch *scratch = nat_sought();
	__u64 place = work->handed.place;

	if (!scratch)
		return false;
	if (!writes_nat)
		return true;
	MASK(place, 15);
	if (scratch->passed[place] >= NAT_PASSED_MAX)
		return false;
	scratch->passed[place]++;
	return true;
}

/* Any datagram may be the first of its flow: their owners are looked for only
 * while flows may be moving. */
static __always_inline bool nat_may_seek(bool is_datagram)
{
	const struct nat_pools *pools = nat_pools_of_node();

	if (is_datagram &&
	    (!pools || nat_now() >= READ_ONCE(pools->seek_udp_until)))
		return false;
	return nat_has_seek_left(is_datagram);
}

/* Reads the outer headers; false if they are not those of a peer. */
__noinline int nat_read_outer(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();
	const struct packet *packet;
	const struct nat_gre *gre;
	__u32 key;

	if (!work)
		return false;
	packet = &work->packet;
	if (packet->kind != KIND_WHOLE ||
	    packet->l4 - packet->l3 != (packet->v6 ? sizeof(struct ipv6hdr)
						   : sizeof(struct iphdr)))
		return false;
	gre = in_packet(ctx, packet, packet->l4, sizeof(*gre));
	if (!gre || gre->flags != NAT_GRE_KEY)
		return false;
	key = bpf_ntohl(gre->key);
	if ((key & 0xffff0000) != NAT_KEY_MAGIC)
		return false;
	work->handed.kind = key >> 8;
	work->handed.hops = key;
	if (gre->protocol == bpf_htons(ETH_P_IPV6))
		work->handed.v6 = true;
	else if (gre->protocol != bpf_htons(ETH_P_IP))
		return false;
	return true;
}

/* Whether the packet after the outer headers is of the stated family. */
static __always_inline bool nat_is_inside(struct xdp_md *ctx,
					  const struct nat_work *work)
{
	__u32 offset = work->packet.l4 + sizeof(struct nat_gre);
	const __u8 *ip;

	if (work->handed.v6)
		ip = at(ctx, offset, sizeof(struct ipv6hdr));
	else
		ip = at(ctx, offset, sizeof(struct iphdr));
	return ip && *ip >> 4 == (work->handed.v6 ? 6 : 4);
}

/* Moves the link header, which ends at l3, in front of the inner packet. */
__noinline int nat_strip_outer(struct xdp_md *ctx, __u32 l3, __u32 length,
			       __u32 v6)
{
	__u16 link[LINK_MAX / 2] = {};
	__u16 *bytes;

	if (l3 > LINK_MAX)
		return false;
	bytes = at(ctx, 0, LINK_MAX);
	if (!bytes)
		return false;
	for (__u32 i = 0; i < LINK_MAX / 2; i++)
		link[i] = bytes[i];
	if (bpf_xdp_adjust_head(ctx, length))
		return false;
	bytes = at(ctx, 0, LINK_MAX);
	if (!bytes)
		return false;
	for (__u32 i = 0; i < LINK_MAX / 2; i++)
		if (2 * i < l3)
			bytes[i] = link[i];
	bytes = at(ctx, l3 - 2, 2);
	if (!bytes)
		return false;
	*bytes = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	return true;
}

/* The line of the inner packet's NAT service; 0: none. */
static __always_inline __u32 nat_line_inside(const struct packet *packet)
{
	struct block_view view;
	__s64 line;

	if (packet->v6)
		line = find_v6(packet->destination, packet->destination_port,
			       packet->protocol);
	else
		line = find_v4(packet->destination[3], packet->destination_port,
			       packet->protocol);
	if (line == NOT_FOUND || line & LOOKUP_POOL ||
	    !find_block(line, &view) || !(view.block->flags & OXP_SERVICE_NAT))
		return 0;
	return line;
}

static __always_inline int nat_drop_peer(struct nat_work *work)
{
	count_bytes(OXP_DROP_NAT_PEER, work->frame);
	return nat_end(work, XDP_DROP);
}

/* For GRE to a pool: if a peer sent it, the inner packet replaces it. */
static __always_inline int nat_unwrap(struct xdp_md *ctx, struct nat_work *work)
{
	const struct nat_peer_list *list = nat_peers_of_node();
	__u32 place, l3 = work->packet.l3;
	bool own;

	if (!list || !nat_read_outer(ctx))
		return nat_end(work, XDP_PASS);
	place = nat_peer_of(list, work->packet.source);
	own = place == READ_ONCE(list->own);
	if (place == OXP_NAT_PEERS_MAX || own || work->handed.kind < NAT_SEEK ||
	    work->handed.kind > NAT_NOBODY || work->handed.hops >= NAT_HOPS_MAX)
		return nat_drop_peer(work);
	__builtin_memcpy(work->handed.origin, work->packet.source, 16);
	work->handed.place = place;
	if (!nat_is_inside(ctx, work) ||
	    !nat_strip_outer(ctx, l3, nat_handed_length(work->packet.v6),
			     work->handed.v6))
		return nat_drop_peer(work);
	return NAT_INSIDE;
}

/* The owner that the origin knows, or NULL. */
static __always_inline const __be32 *
nat_owner_of(const struct nat_peer_list *list, const struct packet *packet)
{
	const struct nat_owner *owner;
	struct nat_key key;
	__u32 place;

	nat_key_of_packet(packet, &key);
	owner = bpf_map_lookup_elem(&nat_owners, &key);
	if (!owner)
		return NULL;
	place = nat_peer_of(list, owner->address);
	if (place == OXP_NAT_PEERS_MAX || place == READ_ONCE(list->own))
		return NULL;
	return nat_peer_at(list, place);
}

static __always_inline void nat_forget_owner(const struct packet *packet)
{
	struct nat_key key;

	if (!writes_nat)
		return;
	nat_key_of_packet(packet, &key);
	bpf_map_delete_elem(&nat_owners, &key);
}

static __always_inline void nat_learn_owner(const struct packet *packet,
					    const __be32 *address)
{
	struct nat_owner owner;
	struct nat_key key;

	if (!writes_nat)
		return;
	nat_key_of_packet(packet, &key);
	__builtin_memcpy(owner.address, address, sizeof(owner.address));
	bpf_map_update_elem(&nat_owners, &key, &owner, BPF_ANY);
}

/* Addresses the packet to another node, from this node's own address. */
static __always_inline void nat_aim(struct nat_work *work,
				    const struct nat_peer_list *list,
				    const __be32 *target, __u32 kind)
{
	__builtin_memcpy(work->target, target, sizeof(work->target));
	__builtin_memcpy(work->handed.origin,
			 nat_peer_at(list, READ_ONCE(list->own)),
			 sizeof(work->handed.origin));
	work->handed.kind = kind;
}

static __always_inline bool nat_is_datagram(const struct nat_work *work)
{
	return work->packet.protocol == IPPROTO_UDP;
}

/* Selects the next node for a packet that came in here, or is back from a peer.
 * Returns false if no owner is known and no search is allowed. */
static __always_inline bool nat_aim_as_origin(struct nat_work *work,
					      const struct nat_peer_list *list)
{
	bool has_key = !(work->what & NAT_ERROR);
	const __be32 *owner = NULL;

	if (work->handed.kind == NAT_FOUND) {
		if (has_key)
			nat_learn_owner(&work->packet, work->handed.origin);
		nat_aim(work, list, work->handed.origin, NAT_OWNED);
		return true;
	}
	if (has_key && work->handed.kind == NAT_LOST)
		nat_forget_owner(&work->packet);
	else if (has_key)
		owner = nat_owner_of(list, &work->packet);
	if (owner) {
		nat_aim(work, list, owner, NAT_OWNED);
		return true;
	}
	if (!nat_may_seek(nat_is_datagram(work)))
		return false;
	nat_aim(work, list, nat_peer_at(list, nat_next_peer(list)), NAT_SEEK);
	return true;
}

/* Finds the route to work->target, for work->exit. */
__noinline int nat_exit_to_peer(struct xdp_md *ctx, __u32 entropy)
{
	struct nat_work *work = nat_work_in_hand();
	struct bpf_fib_lookup fib = {};
	bool v6;

	if (!work)
		return false;
	v6 = !nat_is_v4(work->target);
	if (!feature_fib || !(config.flags & OXP_NODE_FIB))
		return nat_exit_by_uplink(entropy, v6, &work->exit);
	fib.family = v6 ? AF_INET6 : AF_INET;
	if (v6) {
		__builtin_memcpy(fib.ipv6_src, work->handed.origin, 16);
		__builtin_memcpy(fib.ipv6_dst, work->target, 16);
	} else {
		fib.ipv4_src = work->handed.origin[3];
		fib.ipv4_dst = work->target[3];
	}
	return nat_exit_of_route(ctx, &fib, v6, &work->exit);
}

static __always_inline void nat_put_gre(struct nat_gre *gre,
					const struct nat_work *work)
{
	gre->flags = NAT_GRE_KEY;
	gre->protocol =
		work->packet.v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	gre->key = bpf_htonl(NAT_KEY_MAGIC | work->handed.kind << 8 |
			     work->handed.hops);
}

/* The packet's DSCP without ECN, so that nothing has to be copied back (RFC
 * 6040, compatibility mode). */
static __always_inline __u8 nat_outer_tos(struct xdp_md *ctx,
					  const struct packet *packet)
{
	const __u8 *ip = at(ctx, packet->l3, 2);

	if (!ip)
		return 0;
	return (packet->v6 ? ip[0] << 4 | ip[1] >> 4 : ip[1]) & 0xfc;
}

/* Sets DF. */
static __always_inline void nat_put_outer_v4(struct iphdr *ip,
					     const struct nat_work *work,
					     __u32 length, __u8 tos)
{
	__u32 *word = (__u32 *)ip;

	word[0] =
		0x45 | tos << 8 | (__u32)bpf_htons(length + sizeof(*ip)) << 16;
	word[1] = (__u32)bpf_htons(IP_DONT_FRAGMENT) << 16;
	word[2] = NAT_OUTER_TTL | IPPROTO_GRE << 8;
	word[3] = work->handed.origin[3];
	word[4] = work->target[3];
	word[2] |= (__u32)(__u16)~fold((__u64)word[0] + word[1] + word[2] +
				       word[3] + word[4])
		   << 16;
}

__noinline int nat_wrap(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();
	struct nat_head head = {.protocol = IPPROTO_GRE};
	struct nat_ends ends = {};
	__u32 outer, link;
	void *ip;
	bool v6;

	if (!work)
		return false;
	v6 = !nat_is_v4(work->target);
	outer = nat_handed_length(v6);
	link = work->exit.link_length;
	head.length =
		work->packet.end - work->packet.l3 + sizeof(struct nat_gre);
	head.tos = nat_outer_tos(ctx, &work->packet);
	ends.source = work->handed.origin;
	ends.destination = work->target;
	if (bpf_xdp_adjust_head(ctx, (int)(work->packet.l3 - outer - link)))
		return false;
	if (v6) {
		ip = at(ctx, link,
			sizeof(struct ipv6hdr) + sizeof(struct nat_gre));
		if (!ip)
			return false;
		nat_put_v6(ip, &head, &ends, NAT_OUTER_TTL);
		nat_put_gre(ip + sizeof(struct ipv6hdr), work);
	} else {
		ip = at(ctx, link,
			sizeof(struct iphdr) + sizeof(struct nat_gre));
		if (!ip)
			return false;
		nat_put_outer_v4(ip, work, head.length, head.tos);
		nat_put_gre(ip + sizeof(struct iphdr), work);
	}
	return nat_put_link(ctx, &work->exit);
}

/* For a packet whose flow is unknown. */
static __always_inline int nat_drop_unknown(struct nat_work *work,
					    __u32 outcome)
{
	struct block_view view;

	if (work->line && find_block(work->line, &view))
		count_drop(view.block->service);
	count_bytes(outcome, work->frame);
	return nat_end(work, XDP_DROP);
}

/* Tells the sender. For drops the outcome is already counted. */
static __always_inline int
nat_too_big_for_peer(struct xdp_md *ctx, struct nat_work *work, __u32 outer)
{
	struct block_view view;

	work->action = nat_too_big(ctx, &work->packet, work->what,
				   (int)work->exit.mtu - (int)outer);
	if (work->action == XDP_DROP && work->line &&
	    find_block(work->line, &view))
		count_drop(view.block->service);
	return NAT_DONE;
}

/* Sends the packet to work->target. */
static __always_inline int nat_send_to_peer(struct xdp_md *ctx,
					    struct nat_work *work)
{
	__u32 outer, length = work->frame - work->packet.l3;

	outer = nat_handed_length(!nat_is_v4(work->target));
	work->handed.hops++;
	if (!nat_exit_to_peer(ctx, (__u32)work->packet.source_port << 16))
		return nat_drop_unknown(work, OXP_DROP_NO_NEXT_HOP);
	if (length + outer > work->exit.mtu)
		return nat_too_big_for_peer(ctx, work, outer);
	work->action = XDP_TX;
	if (work->exit.ifindex != ctx->ingress_ifindex) {
		if (work->frame > first_length(ctx) &&
		    !sends_buffers(work->exit.ifindex))
			return nat_drop_unknown(work, OXP_DROP_MULTI_BUFFER);
		work->action = bpf_redirect_map(&devices, work->exit.ifindex,
						XDP_DROP);
		if (work->action != XDP_REDIRECT)
			return nat_drop_unknown(work, OXP_DROP_NO_NEXT_HOP);
	}
	if (!nat_wrap(ctx))
		return nat_drop_unknown(work, OXP_DROP_NO_HEADROOM);
	count_bytes(OXP_NAT_HANDED_ON, work->frame);
	return NAT_DONE;
}

/* Whether other nodes may have the flow of the current packet. */
static __always_inline bool nat_may_ask_peers(void)
{
	const struct nat_work *work = nat_work_in_hand();

	return work && work->handed.kind != NAT_NOBODY && nat_peers_of_node();
}

/* Whether another node may have a flow that this node does not know. */
static __always_inline bool nat_may_be_known(const struct nat_work *work)
{
	return work->what & NAT_ERROR || nat_is_datagram(work) ||
	       !work->packet.opens_flow;
}

/* Passes on another node's search. If all nodes have been asked, the last one
 * tells the origin. */
static __always_inline void nat_seek_on(struct nat_work *work,
					const struct nat_peer_list *list)
{
	const __be32 *next = nat_peer_at(list, nat_next_peer(list));

	if (same_words(next, work->handed.origin))
		nat_aim(work, list, next, NAT_NOBODY);
	else
		__builtin_memcpy(work->target, next, sizeof(work->target));
}

/* Selects the peer that got the first fragment, if it still is one. */
static __always_inline bool nat_aim_later(struct nat_work *work,
					  const struct nat_peer_list *list)
{
	__be16 port;
	__u32 place = nat_follow_to_peer(&work->packet, &port);

	if (place >= READ_ONCE(list->count) || place == READ_ONCE(list->own))
		return false;
	nat_aim(work, list, nat_peer_at(list, place), NAT_OWNED);
	return true;
}

/* For a packet whose flow is not here. Returns NAT_UNKNOWN if no other node has
 * it either, or none is to be asked. */
__noinline int nat_hand_on(struct xdp_md *ctx)
{
	const struct nat_peer_list *list = nat_peers_of_node();
	struct nat_work *work = nat_work_in_hand();

	if (!work)
		return NAT_DONE;
	if (!list || !nat_may_be_known(work) || work->handed.kind == NAT_NOBODY)
		return NAT_UNKNOWN;
	if (work->packet.kind == KIND_LATER) {
		if (!nat_aim_later(work, list))
			return nat_drop_unknown(work, OXP_DROP_FRAGMENT);
	} else if (work->handed.kind == NAT_SEEK) {
		if (!nat_has_pass_left(work))
			return nat_drop_peer(work);
		nat_seek_on(work, list);
	} else if (work->handed.kind == NAT_OWNED) {
		nat_aim(work, list, work->handed.origin, NAT_LOST);
	} else if (!nat_aim_as_origin(work, list)) {
		/* which may as well begin here */
		if (nat_is_datagram(work))
			return NAT_UNKNOWN;
		return nat_drop_unknown(work, OXP_DROP_NAT_PEER);
	} else if (work->handed.kind == NAT_OWNED &&
		   work->packet.kind == KIND_FIRST) {
		nat_remember_peer(&work->packet,
				  nat_peer_of(list, work->target));
	}
	return nat_send_to_peer(ctx, work);
}

/* For a flow of this node that another node looks for: returns the packet, so
 * that the other node learns the owner. */
__noinline int nat_tell_owner(struct xdp_md *ctx)
{
	const struct nat_peer_list *list = nat_peers_of_node();
	struct nat_work *work = nat_work_in_hand();

	if (!work || !list)
		return NAT_GO_ON;
	nat_aim(work, list, work->handed.origin, NAT_FOUND);
	return nat_send_to_peer(ctx, work);
}

#endif
