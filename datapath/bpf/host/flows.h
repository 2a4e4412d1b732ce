/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of flows; host.h describes their contents. */
#ifndef OXP_HOST_FLOWS_H
#define OXP_HOST_FLOWS_H

#include "age_since.h"
#include "branch_free.h"
#include "flow_time.h"
#include "host/count.h"
#include "host/hash.h"
#include "host/maps.h"
#include "verifier.h"

#define REFRESH_AGE 1 /* units; lines are shared with other CPUs */

/* Global functions are verified once and not at each call. */

enum table {
	TABLE_FLOWS,
	TABLE_HALF_OPEN
};

struct flow {
	struct host_flow_set *set; /* NULL: none */
	struct host_clients *clients;
	__u64 *word; /* of its state */
	__u64 state; /* as read */
};

static __always_inline struct host_flow_set *set_of(__u32 table, __u32 number)
{
	if (table == TABLE_FLOWS)
		return bpf_map_lookup_elem(&flows, &number);
	return bpf_map_lookup_elem(&half_open, &number);
}

static __always_inline struct host_clients *clients_of(__u32 table,
						       __u32 number)
{
	if (table == TABLE_FLOWS)
		return bpf_map_lookup_elem(&flow_clients, &number);
	return bpf_map_lookup_elem(&half_open_clients, &number);
}

static __always_inline __u32 now_in_units(void)
{
	return units_now() & HOST_FLOW_TIME_MASK;
}

static __always_inline __u32 age_of(__u64 state, __u32 now)
{
	return age_since(state >> HOST_FLOW_TIME_SHIFT, now,
			 HOST_FLOW_TIME_MASK, AGE_AHEAD);
}

static __always_inline __u32 place_of(__u64 state)
{
	return state & HOST_FLOW_PLACE_MASK;
}

static __always_inline __u32 generation_of(__u64 state)
{
	return state >> HOST_FLOW_GENERATION_SHIFT & HOST_GENERATION_MASK;
}

/* To be called before the rules are read, which change first: a flow that the
 * old rules allowed must not get the new rules' generation. */
static __always_inline __u32 rules_generation(const struct host_port *port)
{
	return READ_ONCE(port->generation);
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

static __always_inline bool exchange(const struct flow *flow, __u64 to)
{
	return __sync_val_compare_and_swap(flow->word, flow->state, to) ==
	       flow->state;
}

/* The state of the flow in a set; NULL: not found. Which way it is in is hidden
 * from the verifier, which would follow all further code for each. */
static __always_inline __u64 *state_of(struct host_flow_set *set, __u64 tag)
{
	__u64 at = 0;

	_Static_assert(sizeof(set->line[0]) == 64 && HOST_LINE_WAYS == 4 &&
			       HOST_FLOW_WAYS == 8,
		       "bits of what is added");
#pragma unroll
	for (__u32 way = 0; way < HOST_FLOW_WAYS; way++) {
		at = way / HOST_LINE_WAYS * 64 + way % HOST_LINE_WAYS * 8;
		if (READ_ONCE(*host_tag(set, way)) == tag)
			goto found;
	}
	return NULL;
found:
	asm volatile("%0 ^= %1\n%0 ^= %1\n%0 &= 0x58" : "+r"(at) : "r"(tag));
	return (void *)set->line[0].state + at;
}

static __always_inline __u64 *tag_beside(__u64 *word)
{
	return word - HOST_LINE_WAYS;
}

/* Returns whether the flow is in this set. Sets flow->set in any case. */
static __always_inline bool in_set(struct flow *flow, __u32 table, __u32 number,
				   __u64 tag)
{
	struct host_flow_set *set = set_of(table, number);

	flow->set = set;
	flow->clients = clients_of(table, number);
	flow->word = set ? state_of(set, tag) : NULL;
	if (!flow->word)
		return false;
	flow->state = READ_ONCE(*flow->word);
	return flow->state && place_of(flow->state) != HOST_NO_PLACE &&
	       READ_ONCE(*tag_beside(flow->word)) == tag;
}

/* A flow is in its second set only if the first was full. */
static __always_inline __u32 first_set(__u64 tag,
				       const struct host_settings *node)
{
	return host_first_set(tag, node->flow_sets);
}

static __always_inline __u32 second_set(__u64 tag,
					const struct host_settings *node)
{
	return host_second_set(tag, node->flow_sets);
}

static __always_inline bool find_confirmed(struct flow *flow, __u64 tag,
					   const struct host_settings *node)
{
	return in_set(flow, TABLE_FLOWS, first_set(tag, node), tag) ||
	       in_set(flow, TABLE_FLOWS, second_set(tag, node), tag);
}

/* Ports share the parts; which part a port uses is no secret. */
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

#define OVER (HOST_FLOW_TIME_MASK + 1) /* and above: scores of free places */
#define SCORE_SHIFT 3

/* Rates a place of `flows` for another flow; 0: it must not be taken. */
static __always_inline __u64 score_of(__u64 state, __u64 now,
				      const struct host_settings *node)
{
	__u64 age = age_of(state, now);
	__u64 closing = state / HOST_FLOW_CLOSING & 1;
	__u64 idle = chosen(state / HOST_FLOW_DATAGRAM & 1, node->udp_idle,
			    node->tcp_idle);
	__u64 over;

	over = is_less(chosen(closing, node->closing_idle, idle), age);
	return chosen(is_zero(state), 2 * OVER,
		      over * OVER + (closing | over) * age);
}

/* The best place of a set: its score, with the way in the low bits, preferably
 * one in the tag's line. 0: no more than `kept` places could be taken. */
static __always_inline __u64 best_place(struct host_flow_set *set, __u32 now,
					__u64 tag, __u32 kept,
					const struct host_settings *node)
{
	__u64 last = HOST_FLOW_WAYS - 1 - host_line(tag) * HOST_LINE_WAYS;
	__u64 best = 0, room = 0;

	for (__u64 way = 0; way < HOST_FLOW_WAYS; way++) {
		__u64 score =
			score_of(READ_ONCE(*host_state(set, way)), now, node);

		room += 1 - is_zero(score);
		score = score << SCORE_SHIFT | (way ^ last);
		best = chosen(is_less(best, score), score, best);
	}
	return chosen(is_less(kept, room), best ^ last, 0);
}

/* The way in a result of best_place(). */
static __always_inline __u32 way_of(__u64 best)
{
	__u32 way = best % HOST_FLOW_WAYS;

	_Static_assert(HOST_FLOW_WAYS == 8, "mask of ways");
	MASK(way, 7);
	return way;
}

static __always_inline void take_way(struct flow *flow, __u32 way)
{
	flow->word = host_state(flow->set, way);
	flow->state = READ_ONCE(*flow->word);
}

/* The score of the set's best place, 0: none may be taken; `way` is set. */
static __always_inline __u32 choose(struct flow *flow, __u32 number, __u64 tag,
				    __u32 *way, __u32 now, __u32 kept,
				    const struct host_settings *node)
{
	__u64 best;

	flow->set = set_of(TABLE_FLOWS, number);
	flow->clients = clients_of(TABLE_FLOWS, number);
	if (!flow->set)
		return 0;
	best = best_place(flow->set, now, tag, kept, node);
	*way = way_of(best);
	take_way(flow, *way);
	return best >> SCORE_SHIFT;
}

/* In half_open the oldest is replaced if no place is free. */
static __always_inline __u32 choose_oldest(struct flow *flow, __u64 now)
{
	__u64 best = 0;
	__u32 chosen_way;

	for (__u64 way = 0; way < HOST_FLOW_WAYS; way++) {
		__u64 state = READ_ONCE(*host_state(flow->set, way));
		__u64 age = age_of(state, now);

		age += is_zero(state) * OVER;
		age = age << SCORE_SHIFT | (HOST_FLOW_WAYS - 1 - way);
		best = chosen(is_less(best, age), age, best);
	}
	chosen_way = HOST_FLOW_WAYS - 1 - way_of(best);
	take_way(flow, chosen_way);
	return chosen_way;
}

/* To be called after a flow was removed from `flows`. */
__noinline int uncount(__u64 state)
{
	struct host_entry *entry = entries_at(place_of(state));
	struct host_port *port = entry ? ports_at(entry->host_port) : NULL;

	if (port && port->flows)
		__sync_fetch_and_add(&port->flows, -1);
	return 0;
}

/* Takes the chosen place; `state` is the new flow's. */
static __always_inline bool write(struct flow *flow, __u32 way, __u64 tag,
				  const struct ip_address *client, __u64 state)
{
	if (!flow->clients || !exchange(flow, state | HOST_NO_PLACE))
		return false;
	__sync_lock_test_and_set(tag_beside(flow->word), tag);
	flow->clients->client[way] = *client;
	__sync_lock_test_and_set(flow->word, state);
	return true;
}

/* Adds to half_open. */
static __always_inline bool keep_bounded(struct flow *flow, __u64 tag,
					 const struct ip_address *client,
					 __u64 state, __u32 now,
					 __u32 host_port)
{
	const struct host_settings *node = &settings;

	if (!flow->set ||
	    !write(flow, choose_oldest(flow, now), tag, client, state))
		return false;
	if (flow->state && age_of(flow->state, now) <= node->half_open_idle)
		count_of_port(host_port, HOST_HALF_OPEN_EVICTED);
	return true;
}

/* Adds to `flows` and to the port's count; false: the port has reached its
 * limit, or there is no place. */
__noinline int keep_confirmed(__u64 tag, const struct ip_address *client,
			      __u64 state, __u32 host_port)
{
	const struct host_settings *node = &settings;
	struct host_port *port = ports_at(host_port);
	struct flow flow = {};
	__u32 now = now_in_units(), score, way = 0, has, kept;

	if (!client || !port)
		return false;
	has = READ_ONCE(port->flows);
	if (has >= port->flows_max)
		return false;
	kept = host_kept_places(has, node->flow_sets);
	score = choose(&flow, first_set(tag, node), tag, &way, now, kept, node);
	if (score < OVER)
		score = choose(&flow, second_set(tag, node), tag, &way, now,
			       kept, node);
	if (!score || !flow.set || !write(&flow, way, tag, client, state))
		return false;
	if (flow.state && place_of(flow.state) != HOST_NO_PLACE)
		uncount(flow.state);
	__sync_fetch_and_add(&port->flows, 1);
	return true;
}

#endif
