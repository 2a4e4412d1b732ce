/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Later fragments have no ports: they follow the first one, or a rule that
 * needs none. */
#ifndef OXP_FRAGMENTS_H
#define OXP_FRAGMENTS_H

#include "forward/block.h"
#include "forward/lookup.h"
#include "forward/martian.h"
#include "forward/select.h"

static __always_inline void fragment_key_of(const struct packet *packet,
					    struct fragment_key *key)
{
	__builtin_memcpy(key->source, packet->source, sizeof(key->source));
	__builtin_memcpy(key->destination, packet->destination,
			 sizeof(key->destination));
	key->id = packet->id;
	key->protocol = packet->fragment_protocol;
	__builtin_memset(key->reserved, 0, sizeof(key->reserved));
}

static __always_inline __s64 find_service(const struct packet *packet,
					  __be16 port, __u8 protocol)
{
	if (packet->v6)
		return find_v6(packet->destination, port, protocol);
	return find_v4(packet->destination[3], port, protocol);
}

/* After the first fragment was selected. */
__noinline int remember_fragment(const struct packet *packet,
				 const struct target *target)
{
	struct fragment_owner owner = {};
	struct fragment_key key;
	struct block_view view;

	if (!packet || !target || !find_block(target->block, &view))
		return 0;
	fragment_key_of(packet, &key);
	owner.service = view.block->service;
	owner.member = target->member;
	owner.port = packet->destination_port;
	owner.protocol = packet->protocol;
	bpf_map_update_elem(&fragments, &key, &owner, BPF_ANY);
	return 0;
}

static __always_inline __be16 port_of_fragments(const struct vip_entry *vip,
						__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return READ_ONCE(vip->fragment_port_tcp);
	case IPPROTO_UDP:
		return READ_ONCE(vip->fragment_port_udp);
	case IPPROTO_SCTP:
		return READ_ONCE(vip->fragment_port_sctp);
	default:
		return 0;
	}
}

/* Where the first fragment went: returns whether that is known and still
 * holds. */
__noinline int follow_first(const struct packet *packet, struct target *target)
{
	const struct fragment_owner *owner;
	struct fragment_key key;
	struct block_view view;
	struct flow flow;
	__s64 number;

	if (!packet || !target)
		return false;
	fragment_key_of(packet, &key);
	owner = bpf_map_lookup_elem(&fragments, &key);
	if (!owner)
		return false;
	number = find_service(packet, owner->port, owner->protocol);
	if (number == NOT_FOUND || !find_block(number, &view) ||
	    view.block->service != owner->service)
		return false;
	target->block = number;
	target->member = owner->member;
	if (!(flags_of(&view, target->member) & MEMBER_KEEPS_FLOWS))
		return false;
	flow_of(packet, view.block, &flow);
	target->entropy = flow_entropy(hash_with(packet, &flow, FLOW_SEED));
	return true;
}

/* The service that takes a VIP's fragments of this protocol. */
__noinline __s64 fallback_service(const struct packet *packet, __u32 vip)
{
	const struct vip_entry *entry;
	__be16 port;

	if (!packet)
		return NOT_FOUND;
	entry = bpf_map_lookup_elem(&vips, &vip);
	if (!entry)
		return NOT_FOUND;
	port = port_of_fragments(entry, packet->protocol);
	return port ? find_service(packet, port, packet->protocol) : NOT_FOUND;
}

static __always_inline int admit_fragment(const struct packet *packet,
					  __u32 block)
{
	return is_martian(packet) ? OXP_DROP_MARTIAN : admit(packet, block);
}

/* A later fragment to the VIP with the index `vip`. */
static __always_inline int select_fragment(struct xdp_md *ctx,
					   const struct packet *packet,
					   struct target *target, __u32 vip)
{
	struct block_view view;
	__s64 number;
	int outcome;

	if (follow_first(packet, target))
		return admit_fragment(packet, target->block);
	/* the first one had more extension headers: nothing says of what */
	if (!has_ports(packet->protocol))
		return OXP_PASS;
	number = fallback_service(packet, vip);
	if (number == NOT_FOUND)
		return OXP_DROP_FRAGMENT;
	/* whose ports say what becomes of it */
	if (find_block(number, &view) && view.block->flags & OXP_SERVICE_NAT)
		return OXP_DROP_FRAGMENT;
	target->block = number;
	outcome = admit_fragment(packet, target->block);
	if (outcome != OXP_FORWARDED)
		return outcome;
	count(ctx, OXP_FRAGMENT_GUESSED);
	return select_slot(ctx, packet, target);
}

#endif
