/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Open slots: which of its two owners, or which third member from an earlier
 * change, has the flow. Remembered flows are single words, so that CPUs and
 * the library read them whole; they are replaced by compare and exchange, so
 * that two CPUs never both believe to have the same place.
 */
#ifndef OXP_FLOW_CACHE_H
#define OXP_FLOW_CACHE_H

#include "forward/count.h"
#include "forward/parse.h"

#define TIME_UNIT_SHIFT 30 /* of the coarse clock's nanoseconds */
/* Ages are known modulo FLOW_TIME_MASK + 1; this leaves room to be late. */
#define AGE_MAX 16000
/* An opened flow that its client has not confirmed may give way then. */
#define UNCONFIRMED_AGE 2

struct memory {
	struct flow_set *set;
	__u64 name;    /* bits of FLOW_TAG_MASK */
	__u64 seen;    /* the flow's entry as it was read, 0: none */
	__u32 place;   /* of the flow's entry; FLOW_SET_WAYS: none */
	__u32 timeout; /* units */
	__u32 now;
};

static __always_inline __u32 age_of(const struct memory *memory, __u64 entry)
{
	return (memory->now - (entry >> FLOW_TIME_SHIFT)) & FLOW_TIME_MASK;
}

/* Seconds as units, which are a little longer. */
static __always_inline __u32 in_units(__u32 seconds)
{
	return seconds < AGE_MAX ? seconds : AGE_MAX;
}

static __always_inline __u64 new_entry(const struct memory *memory,
				       __u32 member)
{
	return (memory->name & FLOW_TAG_MASK) |
	       (__u64)(memory->now & FLOW_TIME_MASK) << FLOW_TIME_SHIFT |
	       (member & FLOW_MEMBER);
}

/* A place that was checked already, as in member_of(). */
static __always_inline __u64 *entry_at(struct flow_set *set, __u64 place)
{
	_Static_assert(FLOW_SET_WAYS == 8, "mask of places");
	asm volatile("%0 &= 7" : "+r"(place));
	return &set->entry[place];
}

static __always_inline bool exchange(const struct memory *memory, __u32 place,
				     __u64 was, __u64 is)
{
	if (place >= FLOW_SET_WAYS)
		return false;
	return __sync_val_compare_and_swap(entry_at(memory->set, place), was,
					   is) == was;
}

/* The place of the flow's entry in its set, FLOW_SET_WAYS if it has none. */
__noinline __u32 find_place(__u32 number, __u64 name)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);

	if (set)
		for (__u32 way = 0; way < FLOW_SET_WAYS; way++)
			if ((READ_ONCE(set->entry[way]) ^ name) <=
			    ~FLOW_TAG_MASK)
				return way;
	return FLOW_SET_WAYS;
}

/* Returns whether the flow has a set, which is always. */
static __always_inline bool recall(struct memory *memory, __u64 name,
				   const struct service_block *block)
{
	__u32 number = name & flow_sets_mask;

	memory->set = bpf_map_lookup_elem(&flows, &number);
	if (!memory->set)
		return false;
	memory->name = name;
	memory->now = bpf_ktime_get_coarse_ns() >> TIME_UNIT_SHIFT;
	memory->timeout = in_units(block->idle_timeout);
	memory->seen = 0;
	memory->place = find_place(number, name);
	if (memory->place < FLOW_SET_WAYS) {
		memory->seen = READ_ONCE(*entry_at(memory->set, memory->place));
		/* it was another's meanwhile */
		if ((memory->seen ^ name) > ~FLOW_TAG_MASK) {
			memory->seen = 0;
			memory->place = FLOW_SET_WAYS;
		}
	}
	return true;
}

/* Other services' entries may live longer than this one's. */
static __always_inline __u32 longest_timeout(const struct memory *memory)
{
	const struct node_config *node;
	__u32 zero = 0, longest = 0;

	node = bpf_map_lookup_elem(&config, &zero);
	if (node)
		longest = in_units(node->idle_timeout_max);
	return longest > memory->timeout ? longest : memory->timeout;
}

/* 1 if left < right. Without branches, whose combinations the verifier would
 * all follow. */
static __always_inline __u64 is_less(__u64 left, __u64 right)
{
	return (left - right) >> 63;
}

#define WORTH_FREE (FLOW_TIME_MASK + 1)

/* How well an entry's place would do for another flow; 0: it may not be
 * taken. */
static __always_inline __u64 worth_of(__u64 entry, __u32 now, __u32 timeout)
{
	__u64 age = (now - (entry >> FLOW_TIME_SHIFT)) & FLOW_TIME_MASK;
	__u64 free = ((entry - 1) & ~entry) >> 63; /* entry is 0 */
	__u64 loose =
		is_less(UNCONFIRMED_AGE, age) & ~(entry / FLOW_CONFIRMED) & 1;

	free |= is_less(timeout, age);
	return free * WORTH_FREE + loose * age;
}

/* The place that does best for another flow, the first of equals. */
__noinline __u32 best_place(__u32 number, __u32 now, __u32 timeout)
{
	const struct flow_set *set = bpf_map_lookup_elem(&flows, &number);
	__u64 best = 0;

	if (!set)
		return 0;
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 worth =
			worth_of(READ_ONCE(set->entry[way]), now, timeout);

		worth = worth * FLOW_SET_WAYS + (FLOW_SET_WAYS - 1 - way);
		if (worth > best)
			best = worth;
	}
	return FLOW_SET_WAYS - 1 - best % FLOW_SET_WAYS;
}

/* Remembers the flow in its own place, a free one, or one that may be taken.
 * Returns whether it could. */
static __always_inline bool remember(const struct memory *memory, __u32 member)
{
	__u32 timeout, place;
	__u64 was;

	if (memory->place < FLOW_SET_WAYS)
		return exchange(memory, memory->place, memory->seen,
				new_entry(memory, member));
	timeout = longest_timeout(memory);
	place = best_place(memory->name & flow_sets_mask, memory->now, timeout);
	if (place >= FLOW_SET_WAYS)
		return false;
	was = READ_ONCE(*entry_at(memory->set, place));
	if (!worth_of(was, memory->now, timeout))
		return false;
	return exchange(memory, place, was, new_entry(memory, member));
}

/* Confirms the flow's entry and refreshes its time, no more often than it has
 * to: the line is shared with other CPUs. */
static __always_inline void keep(const struct memory *memory)
{
	__u64 entry = memory->seen;

	if (age_of(memory, entry) > 1)
		entry = new_entry(memory, entry & FLOW_MEMBER);
	entry |= FLOW_CONFIRMED;
	if (entry != memory->seen)
		exchange(memory, memory->place, memory->seen, entry);
}

static __always_inline __u8 flags_of(const struct service_block *block,
				     __u32 member)
{
	if (member >= OXP_MEMBERS_MAX)
		return 0;
	return READ_ONCE(member_of(block, member)->flags);
}

struct owners {
	__u32 now;
	__u32 before;
	__u32 before_flags;
};

static __always_inline __u32 take_new(struct xdp_md *ctx,
				      const struct memory *memory,
				      const struct owners *owners)
{
	if (owners->before == owners->now) {
		if (memory->place < FLOW_SET_WAYS)
			exchange(memory, memory->place, memory->seen, 0);
		return owners->now;
	}
	if (owners->now >= OXP_MEMBERS_MAX || remember(memory, owners->now))
		return owners->now;
	count(ctx, OXP_MEMORY_FULL);
	return owners->before_flags & MEMBER_TAKES_FLOWS ? owners->before
							 : owners->now;
}

static __always_inline __u32 take_unknown(const struct memory *memory,
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
		remember(memory, old);
	return old;
}

static __always_inline __u32 owner_of(struct xdp_md *ctx,
				      const struct packet *packet, __u64 name,
				      const struct service_block *block,
				      const struct owners *owners)
{
	bool source = block->flags & OXP_SERVICE_SOURCE;
	bool opens = packet->opens_flow && !source;
	struct memory memory;
	__u32 member, flags;

	if (packet->kind == KIND_LATER)
		return owners->before_flags & MEMBER_KEEPS_FLOWS
			       ? owners->before
			       : owners->now;
	if (!recall(&memory, name, block))
		return owners->now;
	if (memory.seen && age_of(&memory, memory.seen) <= memory.timeout) {
		member = memory.seen & FLOW_MEMBER;
		flags = flags_of(block, member);
		if (flags & MEMBER_KEEPS_FLOWS && !opens) {
			keep(&memory);
			return member;
		}
		if (flags & MEMBER_KEEPS_FLOWS && flags & MEMBER_TAKES_FLOWS)
			return member;
	}
	if (opens)
		return take_new(ctx, &memory, owners);
	return take_unknown(&memory, owners,
			    packet->protocol != IPPROTO_UDP && !source,
			    block->flags & BLOCK_LEARNING);
}

/*
 * The member for a flow of an open slot, at least OXP_MEMBERS_MAX if there is
 * nobody. `name` is the flow's.
 */
__noinline __u32 open_slot(struct xdp_md *ctx, const struct packet *packet,
			   __u32 number, __u32 slot, __u64 name)
{
	const struct service_block *block;
	__u32 service = number >> 1, taken;
	struct owners owners;
	__u8 *age;

	if (!packet || slot >= slots_max)
		return SLOT_NOBODY;
	block = bpf_map_lookup_elem(&tables, &number);
	if (!block)
		return SLOT_NOBODY;
	owners.now = READ_ONCE(block->slot[slot]) & SLOT_MEMBER;
	owners.before = READ_ONCE(block->slot[BEFORE_OFFSET(slots_max) + slot]);
	owners.before_flags = flags_of(block, owners.before);
	taken = owner_of(ctx, packet, name, block, &owners);
	if (taken == owners.now)
		return taken;
	age = bpf_map_lookup_elem(&ages, &service);
	if (age && READ_ONCE(age[slot]))
		WRITE_ONCE(age[slot], 0);
	return taken;
}

#endif
