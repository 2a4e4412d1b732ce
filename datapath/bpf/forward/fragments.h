/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Later fragments have no ports: they follow the first fragment, or a rule that
 * needs no ports. */
#ifndef OXP_FRAGMENTS_H
#define OXP_FRAGMENTS_H

#include "forward/block.h"
#include "forward/lookup.h"
#include "forward/martian.h"
#include "forward/record.h"
#include "forward/select.h"
#include "forward/shared_sets.h"

static __always_inline __u64 name_of_fragment(const struct packet *packet)
{
	return fragment_name(packet->source, packet->destination, packet->id,
			     packet->fragment_protocol, node_seed);
}

static __always_inline struct shared_set *fragments_at(__u64 name)
{
	__u32 number = name & (FRAGMENT_SETS - 1);

	return bpf_map_lookup_elem(&fragments, &number);
}

/* Records a first fragment. */
__noinline int leave_fragment(const struct packet *packet, __u32 owner,
			      __u32 what, __u64 value)
{
	struct shared_set *set;
	__u64 name;

	if (!packet)
		return 0;
	name = name_of_fragment(packet);
	set = fragments_at(name);
	return leave_in_set(set, name, share_state(owner, what), value,
			    FRAGMENT_AGE_MAX);
}

/* Returns what the first fragment of a later one's packet has left, and its
 * value; 0: unknown. */
static __always_inline __u32 what_first_left(const struct packet *packet,
					     __u64 *value)
{
	__u64 name = name_of_fragment(packet), state;
	struct shared_set *set = fragments_at(name);
	__u32 way = way_in_set(set, name);

	if (!set || way >= SHARE_WAYS)
		return 0;
	state = READ_ONCE(set->state[way]);
	*value = READ_ONCE(set->value[way]);
	if ((state & SHARE_WHAT) == SHARE_BUSY ||
	    READ_ONCE(set->tag[way]) != name ||
	    share_age(state, share_time()) > FRAGMENT_AGE_MAX)
		return 0;
	return state & SHARE_WHAT;
}

static __always_inline __s64 find_service(const struct packet *packet,
					  __be16 port, __u8 protocol)
{
	if (packet->v6)
		return find_v6(packet->destination, port, protocol);
	return find_v4(packet->destination[3], port, protocol);
}

/* The owner for a packet to a VIP, or to an address of a pool. */
__noinline __u32 owner_of_fragment(const struct packet *packet)
{
	__u32 found;

	if (!packet)
		return 0;
	found = packet->v6 ? find_v6(packet->destination, 0, 0)
			   : find_v4(packet->destination[3], 0, 0);
	return found & LOOKUP_POOL
		       ? FRAGMENT_POOL | (found & (NAT_ADDRESSES - 1))
		       : found & FRAGMENT_VIP;
}

/* Called after a member was selected for the first fragment. */
__noinline int remember_fragment(const struct packet *packet,
				 const struct target *target)
{
	struct block_view view;

	if (!packet || !target || !find_block(target->block, &view))
		return 0;
	RECORD(FIRST_FRAGMENT);
	return leave_fragment(
		packet, owner_of_fragment(packet), packet->protocol,
		fragment_value(view.block->service, target->member,
			       packet->destination_port));
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

/* Selects the first fragment's member. Returns whether that is known and valid.
 */
__noinline int follow_first(const struct packet *packet, struct target *target)
{
	struct block_view view;
	struct flow flow;
	__u64 value = 0;
	__s64 number;
	__u32 what;

	if (!packet || !target)
		return false;
	what = what_first_left(packet, &value);
	if (!what || what >= FRAGMENT_OF_NAT)
		return false;
	number = find_service(packet, value >> 48, what);
	if (number == NOT_FOUND || !find_block(number, &view) ||
	    view.block->service != (__u32)value)
		return false;
	target->block = number;
	target->member = value >> 32;
	if (!(flags_of(&view, target->member) & MEMBER_KEEPS_FLOWS))
		return false;
	flow_of(packet, view.block, &flow);
	target->entropy = flow_entropy(hash_with(packet, &flow, FLOW_SEED));
	RECORD(FOLLOWED, view.block->service, target->member);
	return true;
}

/* The service that gets a VIP's fragments of this protocol. */
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

/* For a later fragment to the VIP with index `vip`. */
static __always_inline int select_fragment(struct xdp_md *ctx,
					   const struct packet *packet,
					   struct target *target, __u32 vip)
{
	struct block_view view;
	__s64 number;
	int outcome;

	if (follow_first(packet, target))
		return admit_fragment(packet, target->block);
	/* first fragment had more extension headers: unknown service */
	if (!has_ports(packet->protocol))
		return OXP_PASS;
	RECORD(NOT_FOLLOWED);
	number = fallback_service(packet, vip);
	if (number == NOT_FOUND)
		return OXP_DROP_FRAGMENT;
	/* NAT needs the ports */
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
