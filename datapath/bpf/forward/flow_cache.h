/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Open slots: which of its two owners, or which third member from an earlier
 * change, has the flow. Remembered flows are single words, so that CPUs and
 * the library read them whole; they are replaced by compare and exchange, so
 * that two CPUs never both believe to have the same place.
 */
#ifndef OXP_FLOW_CACHE_H
#define OXP_FLOW_CACHE_H

#include "flow_time.h"
#include "forward/block.h"
#include "forward/count.h"
#include "forward/parse.h"

/* Ages are known modulo FLOW_TIME_MASK + 1; this leaves room to be late. */
#define AGE_MAX 16000
/* An opened flow that its client has not confirmed may give way then. */
#define UNCONFIRMED_AGE 2

struct cached_flow {
	struct flow_set *set;
	__u64 tag;     /* bits of FLOW_TAG_MASK */
	__u64 seen;    /* the flow's entry as it was read, 0: none */
	__u32 place;   /* of the flow's entry; FLOW_SET_WAYS: none */
	__u32 timeout; /* units */
	__u32 now;
};

/* 0 also of what is a unit ahead of this CPU's time. */
static __always_inline __u32 age_at(__u32 now, __u64 entry)
{
	__u32 next = (now + 1 - (entry >> FLOW_TIME_SHIFT)) & FLOW_TIME_MASK;

	return next - !!next;
}

static __always_inline __u32 age_of(const struct cached_flow *cached,
				    __u64 entry)
{
	return age_at(cached->now, entry);
}

/* Seconds as units, which are a little longer. */
static __always_inline __u32 in_units(__u32 seconds)
{
	return seconds < AGE_MAX ? seconds : AGE_MAX;
}

static __always_inline __u64 new_entry(const struct cached_flow *cached,
				       __u32 member)
{
	return (cached->tag & FLOW_TAG_MASK) |
	       (__u64)(cached->now & FLOW_TIME_MASK) << FLOW_TIME_SHIFT |
	       (member & FLOW_MEMBER);
}

/* A place that was checked already: the verifier forgets bounds of values that
 * it did not see in a register since. */
static __always_inline __u64 *entry_at(struct flow_set *set, __u64 place)
{
	_Static_assert(FLOW_SET_WAYS == 8, "mask of places");
	asm volatile("%0 &= 7" : "+r"(place));
	return &set->entry[place];
}

static __always_inline bool exchange(const struct cached_flow *cached,
				     __u32 place, __u64 was, __u64 is)
{
	if (place >= FLOW_SET_WAYS)
		return false;
	return __sync_val_compare_and_swap(entry_at(cached->set, place), was,
					   is) == was;
}

/* The place of the flow's entry in its set, FLOW_SET_WAYS if it has none; the
 * upper half is the time, for which only here is stack. */
__noinline __u64 find_place(__u32 number, __u64 tag)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);
	__u64 now = (__u64)recent_units(&config.last_asked) << 32;

	if (set)
		for (__u32 way = 0; way < FLOW_SET_WAYS; way++)
			if ((READ_ONCE(set->entry[way]) ^ tag) <=
			    ~FLOW_TAG_MASK)
				return now | way;
	return now | FLOW_SET_WAYS;
}

/* Returns whether the flow has a set, which is always. */
static __always_inline bool look_up(struct cached_flow *cached, __u64 tag,
				    const struct service_block *block)
{
	__u32 number = tag & flow_sets_mask;
	__u64 found;

	cached->set = bpf_map_lookup_elem(&flows, &number);
	if (!cached->set)
		return false;
	cached->tag = tag;
	cached->timeout = in_units(block->idle_timeout_s);
	cached->seen = 0;
	found = find_place(number, tag);
	cached->now = found >> 32;
	cached->place = found;
	if (cached->place < FLOW_SET_WAYS) {
		cached->seen = READ_ONCE(*entry_at(cached->set, cached->place));
		/* it was another's meanwhile */
		if ((cached->seen ^ tag) > ~FLOW_TAG_MASK) {
			cached->seen = 0;
			cached->place = FLOW_SET_WAYS;
		}
	}
	return true;
}

/* Other services' entries may live longer than this one's. */
static __always_inline __u32 longest_timeout(const struct cached_flow *cached)
{
	__u32 longest = in_units(config.idle_timeout_max);

	return longest > cached->timeout ? longest : cached->timeout;
}

/* 1 if left < right. Without branches, whose combinations the verifier would
 * all follow. */
static __always_inline __u64 is_less(__u64 left, __u64 right)
{
	return (left - right) >> 63;
}

#define SCORE_FREE (FLOW_TIME_MASK + 1)

/* How well an entry's place would do for another flow; 0: it may not be
 * taken. */
static __always_inline __u64 score_of(__u64 entry, __u32 now, __u32 timeout)
{
	__u64 age = age_at(now, entry);
	__u64 free = ((entry - 1) & ~entry) >> 63; /* entry is 0 */
	__u64 evictable =
		is_less(UNCONFIRMED_AGE, age) & ~(entry / FLOW_CONFIRMED) & 1;

	free |= is_less(timeout, age);
	return free * SCORE_FREE + evictable * age;
}

/* The place that does best for another flow, the first of equals. */
__noinline __u32 best_place(__u32 number, __u32 now, __u32 timeout)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);
	__u64 best = 0;

	if (!set)
		return 0;
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 score =
			score_of(READ_ONCE(set->entry[way]), now, timeout);

		score = score * FLOW_SET_WAYS + (FLOW_SET_WAYS - 1 - way);
		if (score > best)
			best = score;
	}
	return FLOW_SET_WAYS - 1 - best % FLOW_SET_WAYS;
}

/* Remembers the flow in its own place, a free one, or one that may be taken.
 * Returns whether it could. */
static __always_inline bool store(const struct cached_flow *cached,
				  __u32 member)
{
	__u32 timeout, place;
	__u64 was;

	if (cached->place < FLOW_SET_WAYS)
		return exchange(cached, cached->place, cached->seen,
				new_entry(cached, member));
	timeout = longest_timeout(cached);
	place = best_place(cached->tag & flow_sets_mask, cached->now, timeout);
	if (place >= FLOW_SET_WAYS)
		return false;
	was = READ_ONCE(*entry_at(cached->set, place));
	if (!score_of(was, cached->now, timeout))
		return false;
	return exchange(cached, place, was, new_entry(cached, member));
}

/* Confirms the flow's entry and refreshes its time, no more often than it has
 * to: the line is shared with other CPUs. */
static __always_inline void confirm(const struct cached_flow *cached)
{
	__u64 entry = cached->seen;

	if (age_of(cached, entry) > 1)
		entry = new_entry(cached, entry & FLOW_MEMBER);
	entry |= FLOW_CONFIRMED;
	if (entry != cached->seen)
		exchange(cached, cached->place, cached->seen, entry);
}

/* Whether a packet to `one` can name `other`, who may have its flow. */
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
	__u32 now; /* SLOT_NOBODY: none */
	__u32 before;
	__u32 before_flags;
};

static __always_inline __u32 take_new(struct xdp_md *ctx,
				      const struct cached_flow *cached,
				      const struct owners *owners)
{
	if (owners->before == owners->now) {
		if (cached->place < FLOW_SET_WAYS)
			exchange(cached, cached->place, cached->seen, 0);
		return owners->now;
	}
	if (owners->now == SLOT_NOBODY || store(cached, owners->now))
		return owners->now;
	count(ctx, OXP_MEMORY_FULL);
	return owners->before_flags & MEMBER_TAKES_FLOWS ? owners->before
							 : owners->now;
}

static __always_inline __u32 take_unknown(const struct cached_flow *cached,
					  const struct owners *owners,
					  bool connected, bool learning)
{
	__u32 old = owners->before_flags & MEMBER_KEEPS_FLOWS ? owners->before
							      : owners->now;

	if (connected)
		return old;
	if (!learning)
		return owners->now;
	if (old != owners->now)
		store(cached, old);
	return old;
}

static __always_inline __u32 owner_of(struct xdp_md *ctx,
				      const struct packet *packet, __u64 tag,
				      const struct block_view *view,
				      const struct owners *owners)
{
	const struct service_block *block = view->block;
	bool source = block->flags & OXP_SERVICE_SOURCE;
	bool opens = packet->opens_flow && !source;
	struct cached_flow cached;
	__u32 member, flags;

	if (packet->kind == KIND_LATER)
		return owners->before_flags & MEMBER_KEEPS_FLOWS
			       ? owners->before
			       : owners->now;
	if (!look_up(&cached, tag, block))
		return owners->now;
	if (cached.seen && age_of(&cached, cached.seen) <= cached.timeout) {
		member = cached.seen & FLOW_MEMBER;
		flags = flags_of(view, member);
		if (flags & MEMBER_KEEPS_FLOWS && !opens) {
			confirm(&cached);
			return member;
		}
		if (flags & MEMBER_KEEPS_FLOWS && flags & MEMBER_TAKES_FLOWS)
			return member;
	}
	if (opens)
		return take_new(ctx, &cached, owners);
	return take_unknown(&cached, owners,
			    packet->protocol != IPPROTO_UDP && !source,
			    block->flags & BLOCK_LEARNING);
}

/*
 * The member for a flow of an open slot at this position, SLOT_NOBODY if there
 * is none. `tag` is the flow's.
 */
__noinline __u32 open_slot(struct xdp_md *ctx, const struct packet *packet,
			   __u32 line, __u32 position, __u64 tag)
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
	owners.before_flags = flags_of(&view, owners.before);
	/* With a second chance new flows go to the slot's owner, remembered or
	 * not: their next packets get there all the same. */
	if (view.block->flags & OXP_SERVICE_SECOND_CHANCE)
		owners.before_flags &= ~MEMBER_TAKES_FLOWS;
	taken = owner_of(ctx, packet, tag, &view, &owners);
	if (taken != owners.now)
		renew_age(view.block, slot);
	return taken;
}

/* Who else may have the flow of a packet to `taken`, plus 1; 0: nobody, or
 * nobody that the packet can name. */
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
