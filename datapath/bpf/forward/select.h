/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a packet of a service to the member for its flow. The lookup table gives
 * the service's block, and everything else comes from there: the library does
 * not touch a block while packets may exist that have read its number.
 *
 * select_* return OXP_FORWARDED and fill in the target, or the reason why not.
 */
#ifndef OXP_SELECT_H
#define OXP_SELECT_H

#include "forward/allow.h"
#include "forward/block.h"
#include "forward/count.h"
#include "forward/flow_cache.h"
#include "forward/parse.h"
#include "forward/quic.h"
#include "forward/rate.h"
#include "forward/record.h"

/* Passed by reference to separate functions, so it has no holes. */
struct target {
	__u64 name;  /* of the flow, if its slot is open */
	__u32 block; /* the block's line */
	__u32 position;
	__u16 member;      /* index within the service, or SLOT_NOBODY */
	__u16 alternative; /* index plus 1; 0: none */
	__u32 entropy;
};

/* Flags of services that need more than a hash and a table. */
#define BLOCK_SPECIAL                                                          \
	(OXP_SERVICE_SOURCE | OXP_SERVICE_QUIC | BLOCK_ALLOWED |               \
	 OXP_SERVICE_NAT)

/* The fields of a packet that determine its slot. */
struct flow {
	__be32 source[4];
	__u32 ports;
	__u8 protocol;
};

static __always_inline __u64 hash_with(const struct packet *packet,
				       const struct flow *flow, __u64 seed)
{
	if (packet->v6)
		return called_hash_v6(flow->source, packet->destination,
				      flow->ports, flow->protocol, seed);
	return seeded_hash_v4(flow->source[3], packet->destination[3],
			      flow->ports, flow->protocol, seed);
}

/* The flow's name in `flows`: attackers cannot make names collide, and names
 * differ between the services of a VIP even where ports do not count. */
static __always_inline __u64 name_of(__u64 seeded_hash,
				     const struct service_block *block)
{
	return flow_name(seeded_hash, block->service);
}

/* The `length` leading bits of one word of an address, none for 0 and less. */
static __always_inline __be32 leading_bits(__be32 word, int length)
{
	if (length <= 0)
		return 0;
	if (length >= 32)
		return word;
	return word & bpf_htonl(~0U << (32 - length));
}

/* Reduces a flow to its client. */
static __always_inline void cut_source(struct flow *flow, bool v6,
				       const struct service_block *block)
{
	if (v6) {
		int length = block->source_length_v6;

		for (int i = 0; i < 4; i++)
			flow->source[i] =
				leading_bits(flow->source[i], length - 32 * i);
	} else {
		flow->source[3] =
			leading_bits(flow->source[3], block->source_length_v4);
	}
	flow->ports = 0;
	flow->protocol = 0;
}

static __always_inline void flow_of(const struct packet *packet,
				    const struct service_block *block,
				    struct flow *flow)
{
	__builtin_memcpy(flow->source, packet->source, sizeof(flow->source));
	flow->ports = 0;
	flow->protocol = packet->protocol;
	if (packet->kind != KIND_LATER)
		flow->ports = (__u32)packet->source_port << 16 |
			      packet->destination_port;
	if (block->flags & OXP_SERVICE_SOURCE)
		cut_source(flow, packet->v6, block);
}

static __always_inline void record_slot(const struct block_view *view,
					__u32 position)
{
	const struct service_block *block = view->block;
	__u32 slot, undecided, open;

	if (likely(!records))
		return;
	slot = slot_at(position, block->slots);
	undecided = block->flags & BLOCK_ASK && is_undecided(view, slot);
	open = undecided && is_still_open(view, slot);
	RECORD(SLOT, slot, block->slots, undecided, open,
	       owner_of_slot(view, slot),
	       undecided ? before_of(view, position) : SLOT_NOBODY);
}

/* Selects by the table. Returns SELECT_OPEN where that does not decide. */
#define SELECT_OPEN (-1)
#define SELECT_CHANGED (-2) /* it decides, but there may be an alternative */
__noinline int find_slot(const struct packet *packet, struct target *target)
{
	struct block_view view;
	struct flow flow;
	__u32 slot;
	__u64 hash;

	if (!packet || !target || !find_block(target->block, &view))
		return OXP_DROP_INTERNAL;
	flow_of(packet, view.block, &flow);
	hash = hash_with(packet, &flow, FLOW_SEED);
	target->position = flow_position(hash);
	target->entropy = flow_entropy(hash);
	record_slot(&view, target->position);
	slot = slot_at(target->position, view.block->slots);
	target->member = owner_of_slot(&view, slot);
	if (view.block->flags & BLOCK_ASK && is_undecided(&view, slot)) {
		if (!is_still_open(&view, slot))
			return SELECT_CHANGED;
		target->name = name_of(hash_with(packet, &flow, node_seed),
				       view.block);
		return SELECT_OPEN;
	}
	return target->member < view.block->members ? OXP_FORWARDED
						    : OXP_DROP_NO_MEMBER;
}

static __always_inline int select_slot(struct xdp_md *ctx,
				       const struct packet *packet,
				       struct target *target)
{
	int outcome = find_slot(packet, target);

	if (outcome >= 0)
		return outcome;
	if (outcome == SELECT_OPEN)
		target->member = open_slot(ctx, packet, target->block,
					   target->position, target->name);
	if (target->member >= OXP_MEMBERS_MAX)
		return OXP_DROP_NO_MEMBER;
	target->alternative = find_alternative(
		packet, target->block, target->position, target->member);
	return OXP_FORWARDED;
}

/* Selects by QUIC connection ID. Returns whether that is one of ours. */
__noinline int select_quic(struct xdp_md *ctx, struct packet *packet,
			   struct target *target)
{
	struct block_view view;
	struct flow flow;
	int member;

	if (!packet || !target || !find_block(target->block, &view))
		return false;
	packet->opens_flow = quic_opens(ctx, packet);
	member = quic_member(ctx, packet, view.block->service);
	if (member < 0 || !(flags_of(&view, member) & MEMBER_KEEPS_FLOWS)) {
		RECORD(QUIC_NOBODY);
		return false;
	}
	RECORD(QUIC_MEMBER, member);
	flow_of(packet, view.block, &flow);
	target->entropy = flow_entropy(hash_with(packet, &flow, FLOW_SEED));
	target->member = member;
	return true;
}

/* Whether the source is allowed and within its rate. */
__noinline int admit(const struct packet *packet, __u32 line)
{
	const struct service_block *block;
	struct block_view view;

	if (!packet || !find_block(line, &view))
		return OXP_DROP_INTERNAL;
	block = view.block;
	if (block->flags & BLOCK_ALLOWED &&
	    !is_allowed(packet->source + (packet->v6 ? 0 : 3), packet->v6,
			block->networks))
		return OXP_DROP_NOT_ALLOWED;
	if (block->new_flow_rate && packet->kind != KIND_LATER &&
	    (packet->opens_flow || packet->protocol == IPPROTO_UDP) &&
	    !may_open(packet, block, block->service))
		return OXP_DROP_RATE;
	return OXP_FORWARDED;
}

/* Runs all checks and the selection, except for martians. */
static __always_inline int
select_member(struct xdp_md *ctx, struct packet *packet, struct target *target)
{
	struct block_view view;
	int outcome;

	if (!find_block(target->block, &view))
		return OXP_DROP_INTERNAL;
	outcome = admit(packet, target->block);
	if (outcome != OXP_FORWARDED)
		return outcome;
	if (view.block->flags & OXP_SERVICE_QUIC &&
	    select_quic(ctx, packet, target))
		return OXP_FORWARDED;
	return select_slot(ctx, packet, target);
}

#endif
