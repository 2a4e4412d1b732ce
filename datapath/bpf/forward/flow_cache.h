/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Open slots: which of the slot's two owners has the flow, or which third
 * member from an earlier change. Remembered flows are single words, which CPUs
 * and the library read atomically; they are replaced by compare and exchange,
 * so that two CPUs never both take the same place.
 */
#ifndef OXP_FLOW_CACHE_H
#define OXP_FLOW_CACHE_H

#include "age_since.h"
#include "branch_free.h"
#include "flow_time.h"
#include "forward/block.h"
#include "forward/count.h"
#include "forward/flow_end.h"
#include "forward/parse.h"
#include "forward/record.h"

/* Ages are known modulo FLOW_TIME_MASK + 1; this leaves a margin for delays. */
#define AGE_MAX 16000
/* Age from which a flow that its client has not confirmed may be replaced. */
#define UNCONFIRMED_AGE 2

struct cached_flow {
	__u64 name;    /* flow_name() */
	__u64 seen;    /* the flow's entry as read, 0: none */
	__u32 timeout; /* units */
	__u32 now;
};

static __always_inline __u32 set_of(__u64 name)
{
	return name & flow_sets_mask;
}

static __always_inline __u32 age_at(__u32 now, __u64 entry)
{
	return age_since(entry >> FLOW_TIME_SHIFT, now, FLOW_TIME_MASK,
			 AGE_AHEAD);
}

static __always_inline __u32 age_of(const struct cached_flow *cached,
				    __u64 entry)
{
	return age_at(cached->now, entry);
}

/* Converts seconds to units, which are a little longer. */
static __always_inline __u32 in_units(__u32 seconds)
{
	return seconds < AGE_MAX ? seconds : AGE_MAX;
}

static __always_inline __u64 new_entry(const struct cached_flow *cached,
				       __u32 member)
{
	return (cached->name & FLOW_NAME_MASK) |
	       (__u64)(cached->now & FLOW_TIME_MASK) << FLOW_TIME_SHIFT |
	       (member & FLOW_MEMBER);
}

/* The flow's entry, 0 if it has none. */
__noinline __u64 find_entry(__u32 number, __u64 name)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);

	if (set)
		for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
			__u64 entry = READ_ONCE(set->entry[way]);

			if (entry && (entry ^ name) <= ~FLOW_NAME_MASK)
				return entry;
		}
	return 0;
}

/* Replaces the first matching entry. Returns whether it was still there. */
__noinline int exchange(__u32 number, __u64 was, __u64 is)
{
	struct flow_set *set = bpf_map_lookup_elem(&flows, &number);

	if (set)
		for (__u32 way = 0; way < FLOW_SET_WAYS; way++)
			if (READ_ONCE(set->entry[way]) == was)
				return __sync_val_compare_and_swap(
					       &set->entry[way], was, is) ==
				       was;
	return false;
}

static __always_inline void look_up(struct cached_flow *cached, __u64 name,
				    const struct service_block *block)
{
	cached->name = name;
	cached->timeout = in_units(block->idle_timeout_s);
	cached->now = recent_units(&config.last_asked);
	cached->seen = find_entry(set_of(name), name);
}

/* Other services' entries may live longer than this one's. */
static __always_inline __u32 longest_timeout(const struct cached_flow *cached)
{
	__u32 longest = in_units(config.idle_timeout_max);

	return longest > cached->timeout ? longest : cached->timeout;
}

/* 1 if the entries have the same share; hides the comparison from the compiler.
 */
static __always_inline __u64 has_share_of(__u64 entry, __u64 other)
{
	__u64 differs = (entry ^ other) & FLOW_SHARE;

	barrier_var(differs);
	return is_less(differs, 1);
}

#define SCORE_FREE (FLOW_TIME_MASK + 1)

/* Rates how suitable an entry's place is for another one; 0: it must not be
 * taken. `timeout` is the longest of all services. */
static __always_inline __u64 score_of(__u64 entry, __u64 other, __u64 timeout)
{
	__u64 age = age_at(other >> FLOW_TIME_SHIFT, entry);
	__u64 free = ((entry - 1) & ~entry) >> 63; /* entry is 0 */
	__u64 loose = ~(entry / FLOW_CONFIRMED) | entry / FLOW_ENDED;

	free |= is_less(timeout, age);
	return free * SCORE_FREE +
	       (is_less(UNCONFIRMED_AGE, age) & loose) * age;
}

/* Entries of a full set with the same share as `other`, times SHARE_ENTRY, plus
 * those of them that are not confirmed. */
#define SHARE_ENTRY 16
static __always_inline __u64 count_share(const struct flow_set *set,
					 __u64 other)
{
	__u64 count = 0;

#pragma clang loop unroll(disable)
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 entry = READ_ONCE(set->entry[way]);
		__u64 opening = ~(entry / FLOW_CONFIRMED) & 1;

		count += has_share_of(entry, other) * (SHARE_ENTRY + opening);
	}
	return count;
}

/*
 * Rates an entry's place for a share that has `own` places of the set: the
 * oldest entry of the share with most. That share must have at least two more,
 * or the new owner would end up with more and have to give the place back.
 */
static __always_inline __u64 crowded_score(const struct flow_set *set,
					   __u64 entry, __u64 other, __u64 own)
{
	__u64 entries = count_share(set, entry) / SHARE_ENTRY;

	return (entries * SCORE_FREE +
		age_at(other >> FLOW_TIME_SHIFT, entry)) *
	       is_less(own + 1, entries);
}

#define NO_ENTRY (~0ULL) /* never an entry */

/* The best entry of the set to replace with a new one, the first of equals. */
__noinline __u64 find_loose(__u32 number, __u64 entry, __u32 timeout)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);
	__u64 best = 0, loose = NO_ENTRY;

	if (!set)
		return NO_ENTRY;
#pragma clang loop unroll(disable)
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 was = READ_ONCE(set->entry[way]);
		__u64 score = score_of(was, entry, timeout);

		if (score > best) {
			best = score;
			loose = was;
		}
	}
	return loose;
}

/* The first entry of the new one's share that has exceeded its own service's
 * timeout, where other services' timeouts are longer. */
__noinline __u64 find_outdated(__u32 number, __u64 entry, __u32 timeout)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);

	if (!set)
		return NO_ENTRY;
#pragma clang loop unroll(disable)
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 was = READ_ONCE(set->entry[way]);

		if (!((was ^ entry) & FLOW_SHARE) &&
		    age_at(entry >> FLOW_TIME_SHIFT, was) > timeout)
			return was;
	}
	return NO_ENTRY;
}

/* An entry to replace in a full set, for a service that has less than its
 * share; but only if all its entries are confirmed: so a flood of SYNs takes
 * one place of a set and not half of them. */
__noinline __u64 find_crowded(__u32 number, __u64 entry)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);
	__u64 best = 0, crowded = NO_ENTRY, own;

	if (!set)
		return NO_ENTRY;
	own = count_share(set, entry);
	if (own % SHARE_ENTRY)
		return NO_ENTRY;
	own /= SHARE_ENTRY;
#pragma clang loop unroll(disable)
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 was = READ_ONCE(set->entry[way]);
		__u64 score = crowded_score(set, was, entry, own);

		if (score > best) {
			best = score;
			crowded = was;
		}
	}
	return crowded;
}

/* Remembers the flow, in its own place if it has one. Returns whether it could.
 */
static __always_inline bool store(const struct cached_flow *cached,
				  __u32 member)
{
	__u64 entry = new_entry(cached, member), was = cached->seen;
	__u32 number = set_of(cached->name);

	if (!was)
		was = find_loose(number, entry, longest_timeout(cached));
	if (was == NO_ENTRY)
		was = find_outdated(number, entry, cached->timeout);
	if (was == NO_ENTRY)
		was = find_crowded(number, entry);
	return was != NO_ENTRY && exchange(number, was, entry);
}

/* Confirms the flow's entry and refreshes its time, no more often than
 * necessary, as other CPUs use the same line. A packet long after the flow's
 * end shows that it has not ended: anybody can send a RST. */
static __always_inline void confirm(const struct cached_flow *cached, bool ends)
{
	__u64 entry = cached->seen;
	__u32 age = age_of(cached, entry);

	if (entry & FLOW_ENDED ? age > FLOW_ENDED_AGE : age > 1 || ends)
		entry = new_entry(cached, entry & FLOW_MEMBER);
	entry |= FLOW_CONFIRMED;
	if (ends)
		entry |= FLOW_ENDED;
	if (entry != cached->seen)
		exchange(set_of(cached->name), cached->seen, entry);
}

/* Whether a packet to `one` can name `other`, which may have its flow. */
__noinline int can_name(__u32 line, __u32 one, __u32 other)
{
	struct block_view view;

	return find_block(line, &view) &&
	       view.block->flags & OXP_SERVICE_SECOND_CHANCE && one != other &&
	       one < view.block->members &&
	       flags_of(&view, other) & MEMBER_KEEPS_FLOWS &&
	       are_alternatives(member_of(&view, one), member_of(&view, other));
}

struct owners {
	__u32 now;  /* for new flows; SLOT_NOBODY: none */
	__u32 old;  /* for flows that are not remembered */
	__u32 full; /* for new flows that cannot be remembered */
	__u32 before;
};

static __always_inline __u32 take_new(struct xdp_md *ctx,
				      const struct cached_flow *cached,
				      const struct owners *owners,
				      __u32 service)
{
	if (owners->before == owners->now) {
		if (cached->seen)
			exchange(set_of(cached->name), cached->seen, 0);
		RECORD(TAKEN_NEW, owners->now);
		return owners->now;
	}
	if (owners->now == SLOT_NOBODY || store(cached, owners->now)) {
		RECORD(TAKEN_NEW, owners->now);
		return owners->now;
	}
	count_table_full(ctx, service);
	RECORD(TAKEN_FULL, owners->full);
	return owners->full;
}

static __always_inline __u32 take_unknown(const struct cached_flow *cached,
					  const struct owners *owners,
					  bool connected, bool learning)
{
	if (connected) {
		RECORD(TAKEN_OLD, owners->old);
		return owners->old;
	}
	if (!learning) {
		RECORD(TAKEN_UNKNOWN, owners->now);
		return owners->now;
	}
	RECORD(TAKEN_LEARNT, owners->old);
	if (owners->old != owners->now)
		store(cached, owners->old);
	return owners->old;
}

static __always_inline __u32 owner_of(struct xdp_md *ctx,
				      const struct packet *packet, __u64 name,
				      const struct block_view *view,
				      const struct owners *owners)
{
	const struct service_block *block = view->block;
	bool source = block->flags & OXP_SERVICE_SOURCE;
	bool opens = packet->opens_flow && !source;
	struct cached_flow cached;
	__u32 member, flags;

	if (packet->kind == KIND_LATER) {
		RECORD(TAKEN_FRAGMENT, owners->old);
		return owners->old;
	}
	look_up(&cached, name, block);
	if (cached.seen && age_of(&cached, cached.seen) <= cached.timeout) {
		member = cached.seen & FLOW_MEMBER;
		flags = flags_of(view, member);
		RECORD(REMEMBERED, member, age_of(&cached, cached.seen),
		       !!(cached.seen & FLOW_CONFIRMED));
		if (flags & MEMBER_KEEPS_FLOWS && !opens) {
			RECORD(TAKEN_REMEMBERED, member);
			confirm(&cached,
				!source && packet_ends_flow(ctx, packet));
			return member;
		}
		if (flags & MEMBER_KEEPS_FLOWS && flags & MEMBER_TAKES_FLOWS) {
			RECORD(TAKEN_AGAIN, member);
			return member;
		}
	} else {
		RECORD(NOT_REMEMBERED);
	}
	if (opens)
		return take_new(ctx, &cached, owners, block->service);
	return take_unknown(&cached, owners,
			    packet->protocol != IPPROTO_UDP && !source,
			    block->flags & BLOCK_LEARNING);
}

/*
 * The member for a flow of an open slot at this position, SLOT_NOBODY if there
 * is none. `name` is the flow's.
 */
__noinline __u32 open_slot(struct xdp_md *ctx, const struct packet *packet,
			   __u32 line, __u32 position, __u64 name)
{
	struct block_view view;
	struct owners owners;
	__u32 slot, taken;

	if (!packet || !find_block(line, &view))
		return SLOT_NOBODY;
	slot = slot_at(position, view.block->slots);
	owners.now = owner_of_slot(&view, slot);
	if (owners.now >= view.block->members)
		owners.now = SLOT_NOBODY;
	owners.before = before_of(&view, position);
	if (owners.before >= view.block->members)
		owners.before = SLOT_NOBODY;
	owners.old = flags_of(&view, owners.before) & MEMBER_KEEPS_FLOWS
			     ? owners.before
			     : owners.now;
	/* The member that the table alone selects for the flow's next packets,
	 * even if that member drains; but with a second chance those packets
	 * reach the slot's owner anyway. */
	owners.full = can_name(line, owners.old, owners.now) ? owners.now
							     : owners.old;
	taken = owner_of(ctx, packet, name, &view, &owners);
	if (taken != owners.now)
		renew_age(view.block, slot);
	return taken;
}

/* Another member that may have the flow of a packet to `taken`, plus 1; 0:
 * none, or none that the packet can name. */
__noinline __u32 find_alternative(const struct packet *packet, __u32 line,
				  __u32 position, __u32 taken)
{
	struct block_view view;
	__u32 other;

	if (!packet || packet->opens_flow || packet->kind == KIND_FIRST ||
	    packet->kind == KIND_LATER || !find_block(line, &view) ||
	    !(view.block->flags & OXP_SERVICE_SECOND_CHANCE))
		return 0;
	other = before_of(&view, position);
	if (other == taken)
		other = owner_of_slot(&view,
				      slot_at(position, view.block->slots));
	return can_name(line, taken, other) ? other + 1 : 0;
}

#endif
