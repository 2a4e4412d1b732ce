/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Watches flows to know how many are alive: entries of `watched` that the
 * library counts. The first packet that does not open a flow adds its entry, so
 * that a flood of SYNs adds none; the entry stays until the client ends the
 * flow or goes silent. Packets of other uplinks do not come here.
 */
#ifndef OXP_WATCH_H
#define OXP_WATCH_H

#include "age_since.h"
#include "forward/flow_cache.h"
#include "forward/flow_end.h"
#include "forward/selected.h"
#include "verifier.h"

/* As in struct uplink_set. */
static __always_inline __u32 choice_of(__u32 entropy)
{
	return entropy >> 26;
}

enum watch_event {
	WATCH_NOTHING,
	WATCH_GOES_ON,
	WATCH_OPENS,
	WATCH_ENDS,
};

/* What the packet means for its flow, and its ports. */
static __always_inline enum watch_event
read_event(struct xdp_md *ctx, const struct selected *selected, __u32 *ports)
{
	const __u8 *l4 = at(ctx, selected->l4, 8);

	/* for later fragments and ICMP errors l4 is not the flow's ports */
	if (selected->kind >= KIND_LATER || !l4)
		return WATCH_NOTHING;
	*ports = *(const __u32 *)l4;
	if (!selected->amid_flow)
		return WATCH_OPENS;
	return ends_flow(ctx, selected->l4, selected->protocol) ? WATCH_ENDS
								: WATCH_GOES_ON;
}

static __always_inline __u64 watch_age(__u64 entry, __u64 now)
{
	return age_since(entry >> WATCH_TIME_SHIFT, now, FLOW_TIME_MASK,
			 AGE_AHEAD);
}

/* Rates how suitable an entry's place is for another flow; 0: it must not be
 * taken. Free and expired entries first, then flows that have ended, then those
 * with a single packet, the oldest first. Without branches, as the verifier
 * would follow all combinations of those. */
#define WATCH_FREE 0x8000
#define WATCH_ENDED 0x4000
static __always_inline __u64 watch_score(__u64 entry, __u64 now, __u64 timeout)
{
	__u64 age = watch_age(entry, now), closed = entry & WATCH_CLOSED;
	__u64 free = ((entry - 1) & ~entry) >> 63; /* entry is 0 */
	__u64 once =
		~(entry / WATCH_SEEN_AGAIN) & is_less(UNCONFIRMED_AGE, age);

	free |= is_less(timeout, age);
	free |= closed & is_less(WATCH_CLOSED_AGE, age);
	return free * WATCH_FREE + closed * (WATCH_ENDED | age) +
	       ((once & ~closed) & 1) * age;
}

/* The place of the flow's entry in its set, WATCH_WAYS if it has none. */
__noinline __u32 watch_find(__u32 number, __u64 wanted)
{
	const struct watched_set *set = bpf_map_lookup_elem(&watched, &number);

	if (set)
		for (__u32 way = 0; way < WATCH_WAYS; way++)
			if ((READ_ONCE(set->entry[way]) ^ wanted) <=
			    ~WATCH_IDENTITY)
				return way;
	return WATCH_WAYS;
}

/* The best place for another flow, WATCH_WAYS if there is none. */
__noinline __u32 watch_best(__u32 number, __u32 now, __u32 timeout)
{
	const struct watched_set *set = bpf_map_lookup_elem(&watched, &number);
	__u64 best = WATCH_WAYS; /* with a score of 0 */

	if (!set)
		return WATCH_WAYS;
	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		__u64 score =
			watch_score(READ_ONCE(set->entry[way]), now, timeout);

		score = score * 2 * WATCH_WAYS + way;
		if (score > best)
			best = score;
	}
	return best % (2 * WATCH_WAYS);
}

/* `place` was checked, but the verifier loses bounds that it has not seen on
 * the register itself. */
static __always_inline __u64 *entry_at(struct watched_set *set, __u64 place)
{
	_Static_assert(WATCH_WAYS == 8, "mask of places");
	MASK(place, 7);
	return &set->entry[place];
}

/* The new value of the flow's entry. */
static __always_inline __u64 watch_known(__u64 was, __u64 fresh,
					 enum watch_event event, __u64 now)
{
	bool closed = was & WATCH_CLOSED;

	if (event == WATCH_ENDS)
		return fresh | WATCH_CLOSED;
	/* a client that reuses its port starts with this packet; for a live
	 * flow it is a retransmission or forged */
	if (event == WATCH_OPENS)
		return closed ? 0 : was;
	/* the client acknowledges what follows its end */
	if (closed && watch_age(was, now) <= WATCH_CLOSED_AGE)
		return was;
	if (closed)
		return fresh;
	if (was & WATCH_SEEN_AGAIN && watch_age(was, now) <= 1)
		return was;
	return fresh | WATCH_SEEN_AGAIN;
}

static __always_inline void count_watched(void)
{
	__u32 line = WATCH_SETS + bpf_get_smp_processor_id() % WATCH_LOADS;
	struct watched_set *load = bpf_map_lookup_elem(&watched, &line);

	if (load)
		load->entry[0]++;
}

/* Called when the packet, still unchanged, is about to leave. `watch` is from
 * the service's block. Returns 0. */
__noinline int watch(struct xdp_md *ctx, const struct selected *selected,
		     __u32 service, __u32 watch)
{
	__u64 name, now, fresh, next, was = 0;
	__u32 ports = 0, number, place;
	struct watched_set *set;
	enum watch_event event;

	if (!selected)
		return 0;
	count_watched();
	event = read_event(ctx, selected, &ports);
	if (event == WATCH_NOTHING)
		return 0;
	name = watch_name(selected->entropy, ports, node_seed);
	if (!watch_has_part(name >> WATCH_TAG_SHIFT, WATCH_NOTED(watch)))
		return 0;
	number = name % WATCH_SETS;
	set = bpf_map_lookup_elem(&watched, &number);
	if (!set)
		return 0;
	now = units_now() & FLOW_TIME_MASK;
	fresh = name >> WATCH_TAG_SHIFT << WATCH_TAG_SHIFT |
		(__u64)(service & WATCH_SERVICE_MASK) << WATCH_SERVICE_SHIFT |
		(__u64)choice_of(selected->entropy) << WATCH_CHOICE_SHIFT |
		now << WATCH_TIME_SHIFT;
	place = watch_find(number, fresh);
	if (place >= WATCH_WAYS && event != WATCH_OPENS)
		place = watch_best(number, now,
				   in_units(config.idle_timeout_max));
	if (place >= WATCH_WAYS)
		return 0;
	was = READ_ONCE(*entry_at(set, place));
	if ((was ^ fresh) <= ~WATCH_IDENTITY)
		next = watch_known(was, fresh, event, now);
	else if (event == WATCH_OPENS)
		return 0;
	else
		next = fresh | (event == WATCH_ENDS ? WATCH_CLOSED : 0);
	/* on a lost race the flow's next packet updates the entry */
	if (next != was)
		__sync_val_compare_and_swap(entry_at(set, place), was, next);
	return 0;
}

#endif
