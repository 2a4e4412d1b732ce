/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of flows; host.h says what is in them. */
#ifndef OXP_HOST_FLOWS_H
#define OXP_HOST_FLOWS_H

#include "host/hash.h"
#include "host/maps.h"

#define TIME_SHIFT 30 /* of the coarse clock's nanoseconds */
#define REFRESH_AGE 1 /* units: lines are shared with other CPUs */

/* What is global is verified once and not at each call. */

enum table {
	TABLE_FLOWS,
	TABLE_HALF_OPEN,
	TABLE_DIRECT
};

struct flow {
	struct host_flow_set *set; /* NULL: none */
	__u64 state;               /* as it was read */
	__u32 way;
	__u32 number; /* of the set in its table */
	__u32 table;
};

static __always_inline struct host_flow_set *set_of(__u32 table, __u32 number)
{
	if (table == TABLE_FLOWS)
		return bpf_map_lookup_elem(&flows, &number);
	if (table == TABLE_HALF_OPEN)
		return bpf_map_lookup_elem(&half_open, &number);
	return bpf_map_lookup_elem(&direct, &number);
}

static __always_inline __u32 now_in_units(void)
{
	return bpf_ktime_get_coarse_ns() >> TIME_SHIFT & HOST_FLOW_TIME_MASK;
}

static __always_inline __u32 age_of(__u64 state, __u32 now)
{
	return (now - (__u32)(state >> HOST_FLOW_TIME_SHIFT)) &
	       HOST_FLOW_TIME_MASK;
}

static __always_inline __u32 place_of(__u64 state)
{
	return state & HOST_FLOW_PLACE_MASK;
}

static __always_inline __u32 generation_of(__u64 state)
{
	return state >> HOST_FLOW_GENERATION_SHIFT & HOST_GENERATION_MASK;
}

static __always_inline __u64 new_state(__u32 place, __be16 port,
				       __u32 generation, __u32 now, __u64 flags)
{
	return (__u64)port << HOST_FLOW_PORT_SHIFT |
	       (__u64)(generation & HOST_GENERATION_MASK)
		       << HOST_FLOW_GENERATION_SHIFT |
	       (__u64)now << HOST_FLOW_TIME_SHIFT | flags | place;
}

static __always_inline __u64 with_time(__u64 state, __u32 now)
{
	return (state & ~((__u64)HOST_FLOW_TIME_MASK << HOST_FLOW_TIME_SHIFT)) |
	       (__u64)now << HOST_FLOW_TIME_SHIFT;
}

static __always_inline __u64 with_generation(__u64 state, __u32 generation)
{
	return (state &
		~((__u64)HOST_GENERATION_MASK << HOST_FLOW_GENERATION_SHIFT)) |
	       (__u64)(generation & HOST_GENERATION_MASK)
		       << HOST_FLOW_GENERATION_SHIFT;
}

static __always_inline __u32 idle_of(__u64 state,
				     const struct host_settings *node)
{
	if (state & HOST_FLOW_CLOSING)
		return node->closing_idle;
	return state & HOST_FLOW_DATAGRAM ? node->udp_idle : node->tcp_idle;
}

/* A way that was checked: the verifier forgets bounds of what it did not see
 * in a register since. */
static __always_inline __u32 checked(__u32 way)
{
	_Static_assert(HOST_FLOW_WAYS == 8, "mask of ways");
	asm volatile("%0 &= 7" : "+r"(way));
	return way;
}

static __always_inline bool exchange(const struct flow *flow, __u64 to)
{
	__u64 *word = &flow->set->state[checked(flow->way)];

	return __sync_val_compare_and_swap(word, flow->state, to) ==
	       flow->state;
}

/* The way of the set's place that has the tag; HOST_FLOW_WAYS: none has. */
__noinline __u32 find_way(__u32 table, __u32 number, __u64 tag)
{
	const struct host_flow_set *set = set_of(table, number);

	if (set)
		for (__u32 way = 0; way < HOST_FLOW_WAYS; way++)
			if (READ_ONCE(set->tag[way]) == tag)
				return way;
	return HOST_FLOW_WAYS;
}

/* False: the flow is not in this set. Sets flow->set all the same. */
static __always_inline bool in_set(struct flow *flow, __u32 table, __u32 number,
				   __u64 tag)
{
	struct host_flow_set *set = set_of(table, number);
	__u32 way = find_way(table, number, tag);

	flow->set = set;
	flow->table = table;
	flow->number = number;
	if (!set || way >= HOST_FLOW_WAYS)
		return false;
	flow->way = way = checked(way);
	flow->state = READ_ONCE(set->state[way]);
	return flow->state && place_of(flow->state) != HOST_NO_PLACE &&
	       READ_ONCE(set->tag[way]) == tag;
}

/* A flow that is not in the first of its sets may be in the second: only when
 * the first was full. */
static __always_inline __u32 first_set(__u64 tag,
				       const struct host_settings *node)
{
	return tag & (node->flow_sets - 1);
}

static __always_inline __u32 second_set(__u64 tag,
					const struct host_settings *node)
{
	return tag >> 32 & (node->flow_sets - 1);
}

static __always_inline bool find_confirmed(struct flow *flow, __u64 tag,
					   const struct host_settings *node)
{
	return in_set(flow, TABLE_FLOWS, first_set(tag, node), tag) ||
	       in_set(flow, TABLE_FLOWS, second_set(tag, node), tag);
}

/* The ports share the parts; which one a port has is no secret. */
static __always_inline bool find_half_open(struct flow *flow, __u64 tag,
					   __u32 host_port,
					   const struct host_settings *node)
{
	__u32 sets = node->half_open_sets / HOST_HALF_OPEN_PARTS;
	__u32 part = host_port * 0x9e3779b1 >> 28;
	__u32 number = part * sets + (tag & (sets - 1));

	_Static_assert(HOST_HALF_OPEN_PARTS == 16, "bits of the part");
	return in_set(flow, TABLE_HALF_OPEN, number, tag);
}

static __always_inline bool find_direct(struct flow *flow, __u64 tag,
					const struct host_settings *node)
{
	return in_set(flow, TABLE_DIRECT, tag & (node->direct_sets - 1), tag);
}

#define OVER (HOST_FLOW_TIME_MASK + 1) /* and above: scores of free places */
#define SCORE_SHIFT 3

/* 1 if left < right. Without branches, whose combinations the verifier would
 * all follow. */
static __always_inline __u64 is_less(__u64 left, __u64 right)
{
	return (left - right) >> 63;
}

static __always_inline __u64 chosen(__u64 bit, __u64 yes, __u64 no)
{
	return no ^ ((yes ^ no) & -bit);
}

/* How well a place would do for another flow; 0: it may not be taken. `idle`
 * is the table's, 0: as the flow says. In a table that is bounded the oldest
 * gives way, in the other one what closes. */
static __always_inline __u64 score_of(__u64 state, __u64 now, __u64 idle,
				      __u64 bounded,
				      const struct host_settings *node)
{
	__u64 age =
		(now - (state >> HOST_FLOW_TIME_SHIFT)) & HOST_FLOW_TIME_MASK;
	__u64 closing = state / HOST_FLOW_CLOSING & 1;
	__u64 own = chosen(state / HOST_FLOW_DATAGRAM & 1, node->udp_idle,
			   node->tcp_idle);
	__u64 none = ((state - 1) & ~state) >> 63;
	__u64 over;

	own = chosen(closing, node->closing_idle, own);
	over = is_less(chosen(((idle - 1) & ~idle) >> 63, own, idle), age);
	return chosen(none, 2 * OVER,
		      over * OVER + (bounded | closing | over) * age + bounded);
}

/* The best place of a set: its score, and the way in the low bits. */
__noinline __u64 best_place(__u32 table, __u32 number, __u32 now, __u32 idle)
{
	const struct host_settings *node = settings_at(0);
	const struct host_flow_set *set = set_of(table, number);
	__u64 bounded = table != TABLE_FLOWS, best = 0;

	if (!set || !node)
		return 0;
	for (__u64 way = 0; way < HOST_FLOW_WAYS; way++) {
		__u64 score = score_of(READ_ONCE(set->state[way]), now, idle,
				       bounded, node);

		score = score << SCORE_SHIFT | (HOST_FLOW_WAYS - 1 - way);
		best = chosen(is_less(best, score), score, best);
	}
	return best;
}

/* The score of the place that `flow` then has: if it is not 0 it may be
 * taken. */
static __always_inline __u32 choose(struct flow *flow, __u32 now, __u32 idle)
{
	__u64 best = best_place(flow->table, flow->number, now, idle);

	if (!flow->set)
		return 0;
	flow->way = checked(HOST_FLOW_WAYS - 1 - best % HOST_FLOW_WAYS);
	flow->state = READ_ONCE(flow->set->state[flow->way]);
	return best >> SCORE_SHIFT;
}

/* Another's flow has left `flows`. */
__noinline int uncount(__u64 state)
{
	struct host_entry *entry = entries_at(place_of(state));
	struct host_port *port = entry ? ports_at(entry->host_port) : NULL;

	if (port && port->flows)
		__sync_fetch_and_add(&port->flows, -1);
	return 0;
}

/* Takes the chosen place; `state` is the new flow's. */
static __always_inline bool write(struct flow *flow, __u64 tag,
				  const struct ip_address *client, __u64 state)
{
	struct host_flow_set *set = flow->set;
	__u32 way = checked(flow->way);

	if (!exchange(flow, state | HOST_NO_PLACE))
		return false;
	__sync_lock_test_and_set(&set->tag[way], tag);
	set->client[way] = *client;
	__sync_lock_test_and_set(&set->state[way], state);
	return true;
}

/* Into half_open or direct. */
static __always_inline bool keep_bounded(struct flow *flow, __u64 tag,
					 const struct ip_address *client,
					 __u64 state, __u32 now, __u32 idle)
{
	return choose(flow, now, idle) && write(flow, tag, client, state);
}

/* Into flows, on account of the port; false: it has enough, or there is no
 * place. */
__noinline int keep_confirmed(__u64 tag, const struct ip_address *client,
			      __u64 state, __u32 host_port)
{
	const struct host_settings *node = settings_at(0);
	struct host_port *port = ports_at(host_port);
	struct flow flow = {.table = TABLE_FLOWS};
	__u32 now = now_in_units(), score;

	if (!node || !client || !port || port->flows >= port->flows_max)
		return false;
	flow.number = first_set(tag, node);
	flow.set = set_of(TABLE_FLOWS, flow.number);
	score = choose(&flow, now, 0);
	if (score < OVER) {
		flow.number = second_set(tag, node);
		flow.set = set_of(TABLE_FLOWS, flow.number);
		score = choose(&flow, now, 0);
	}
	if (!score || !flow.set || !write(&flow, tag, client, state))
		return false;
	if (flow.state && place_of(flow.state) != HOST_NO_PLACE)
		uncount(flow.state);
	__sync_fetch_and_add(&port->flows, 1);
	return true;
}

#endif
