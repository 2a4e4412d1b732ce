/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BLOCK_LIMITED: connections of services with a limit, as far as a node sees
 * them: the client's packets. A connection is counted by its SYN, or by another
 * packet where another node had it before; until the client sends FIN or RST,
 * or nothing for the idle timeout.
 *
 * The count of a service is that of its entries that are not closed: whoever
 * has exchanged an entry counts, and nobody else. So packets on all CPUs and
 * the library agree on it without a lock.
 */
#ifndef OXP_CONNECTIONS_H
#define OXP_CONNECTIONS_H

#include "forward/count.h"
#include "forward/flow_cache.h"

enum connection_event {
	CONNECTION_GOES_ON,
	CONNECTION_OPENS,
	CONNECTION_ENDS,
};

/* Passed to functions of its own by reference, so without holes. */
struct connection {
	__u64 name;
	__u32 service;
	__u32 event; /* enum connection_event */
};

static __always_inline __u64 connection_entry(const struct connection *one,
					      __u64 now)
{
	return one->name >> CONNECTION_TAG_SHIFT << CONNECTION_TAG_SHIFT |
	       (__u64)(one->service & CONNECTION_SERVICE_MASK)
		       << CONNECTION_SERVICE_SHIFT |
	       (now & FLOW_TIME_MASK) << CONNECTION_TIME_SHIFT;
}

static __always_inline __u64 connection_age(__u64 entry, __u64 now)
{
	return (now - (entry >> CONNECTION_TIME_SHIFT)) & FLOW_TIME_MASK;
}

/* 1 if the entry is counted. Not by branches: see score_of(). */
static __always_inline __u64 is_counted(__u64 entry)
{
	__u64 used = ~((entry - 1) & ~entry) >> 63;

	return used & ~entry & CONNECTION_CLOSED;
}

/* The count goes with the entry. Returns whether it was exchanged. */
static __always_inline bool exchange_connection(__u64 *at, __u64 was, __u64 is)
{
	__u32 before =
		was >> CONNECTION_SERVICE_SHIFT & CONNECTION_SERVICE_MASK;
	__u32 after = is >> CONNECTION_SERVICE_SHIFT & CONNECTION_SERVICE_MASK;
	struct connection_count *count;

	if (__sync_val_compare_and_swap(at, was, is) != was)
		return false;
	if (is_counted(was)) {
		count = bpf_map_lookup_elem(&connection_counts, &before);
		if (count)
			__sync_fetch_and_add(&count->open, -1);
	}
	if (is_counted(is)) {
		count = bpf_map_lookup_elem(&connection_counts, &after);
		if (count)
			__sync_fetch_and_add(&count->open, 1);
	}
	return true;
}

/* The place of the connection's entry in its set; FLOW_SET_WAYS: none. */
__noinline __u32 find_connection(__u32 number, __u64 wanted)
{
	const struct flow_set *set = bpf_map_lookup_elem(&connections, &number);

	if (set)
		for (__u32 way = 0; way < FLOW_SET_WAYS; way++)
			if ((READ_ONCE(set->entry[way]) ^ wanted) <=
			    ~CONNECTION_IDENTITY)
				return way;
	return FLOW_SET_WAYS;
}

/* How well an entry's place would do for another one; 0: it may not be
 * taken. Free ones, then those whose time is over, which are still counted,
 * closed ones by their age. */
static __always_inline __u64 connection_score(__u64 entry, __u64 now,
					      __u64 timeout)
{
	__u64 age = connection_age(entry, now);
	__u64 closed = entry & CONNECTION_CLOSED;
	__u64 confirmed = entry / CONNECTION_CONFIRMED & 1;
	__u64 free = ((entry - 1) & ~entry) >> 63; /* entry is 0 */
	__u64 over = is_less(timeout, age) |
		     (~confirmed & is_less(CONNECTION_OPENING_AGE, age) & 1);

	return free * (4 * SCORE_FREE) + over * (2 * SCORE_FREE) +
	       closed * (SCORE_FREE | age);
}

__noinline __u32 best_connection(__u32 number, __u32 now, __u32 timeout)
{
	const struct flow_set *set = bpf_map_lookup_elem(&connections, &number);
	__u64 best = 0;

	if (!set)
		return FLOW_SET_WAYS;
	for (__u32 way = 0; way < FLOW_SET_WAYS; way++) {
		__u64 score = connection_score(READ_ONCE(set->entry[way]), now,
					       timeout);

		score = score * FLOW_SET_WAYS + FLOW_SET_WAYS - 1 - way;
		if (score > best)
			best = score;
	}
	/* the score alone is 0: none may be taken */
	return best < FLOW_SET_WAYS ? FLOW_SET_WAYS
				    : FLOW_SET_WAYS - 1 - best % FLOW_SET_WAYS;
}

static __always_inline bool is_over(__u64 entry, __u64 now, __u64 timeout)
{
	__u64 limit =
		entry & CONNECTION_CONFIRMED ? timeout : CONNECTION_OPENING_AGE;

	return connection_age(entry, now) > limit;
}

/* What the entry of a connection becomes that is known. */
static __always_inline __u64 next_connection(__u64 was, __u64 fresh,
					     __u32 event, __u64 now)
{
	bool closed = was & CONNECTION_CLOSED;

	if (event == CONNECTION_ENDS)
		return closed ? was
			      : fresh | CONNECTION_CLOSED |
					CONNECTION_CONFIRMED;
	if (event == CONNECTION_OPENS) /* again: one that was repeated */
		return closed ? fresh : was;
	if (closed)
		return connection_age(was, now) > CONNECTION_CLOSED_AGE ? fresh
									: was;
	if (was & CONNECTION_CONFIRMED && connection_age(was, now) <= 1)
		return was;
	return fresh | CONNECTION_CONFIRMED;
}

/* Without a limit, as for a moment when one goes, there is room. */
static __always_inline bool has_room(__u32 service)
{
	const struct connection_count *count =
		bpf_map_lookup_elem(&connection_counts, &service);
	__u32 limit;

	if (!count)
		return true;
	limit = READ_ONCE(count->limit);
	return !limit || READ_ONCE(count->open) < limit;
}

#define CONNECTION_UNKNOWN 2 /* no place */
/* Returns whether the connection may go on. */
__noinline int follow_connection(struct connection *one, __u32 timeout)
{
	__u64 now, fresh, next, was = 0;
	__u32 number, place, longest;
	struct flow_set *set;
	bool known;

	if (!one)
		return true;
	number = one->name % CONNECTION_SETS;
	set = bpf_map_lookup_elem(&connections, &number);
	if (!set)
		return true;
	now = units_now() & FLOW_TIME_MASK;
	fresh = connection_entry(one, now);
	place = find_connection(number, fresh);
	if (place < FLOW_SET_WAYS)
		was = READ_ONCE(*entry_at(set, place));
	known = place < FLOW_SET_WAYS &&
		(was ^ fresh) <= ~CONNECTION_IDENTITY &&
		!is_over(was, now, in_units(timeout));
	if (!known && one->event == CONNECTION_ENDS)
		return true;
	if (one->event == CONNECTION_OPENS &&
	    (!known || was & CONNECTION_CLOSED) && !has_room(one->service))
		return false;
	next = known ? next_connection(was, fresh, one->event, now) : fresh;
	if (place >= FLOW_SET_WAYS) {
		longest = in_units(config.idle_timeout_max);
		place = best_connection(number, now, longest);
		if (place >= FLOW_SET_WAYS)
			return CONNECTION_UNKNOWN;
		was = READ_ONCE(*entry_at(set, place));
		if (!connection_score(was, now, longest))
			return CONNECTION_UNKNOWN;
	}
	/* who is late does without: another packet comes */
	if (next != was)
		exchange_connection(entry_at(set, place), was, next);
	return true;
}

static __always_inline __u32 read_connection_event(struct xdp_md *ctx,
						   const struct packet *packet)
{
	const __u8 *tcp = at(ctx, packet->l4, 14);

	if (packet->opens_flow)
		return CONNECTION_OPENS;
	return tcp && tcp[13] & 5 ? CONNECTION_ENDS : CONNECTION_GOES_ON;
}

/* Whether the service takes the packet's connection. */
__noinline int may_connect(struct xdp_md *ctx, const struct packet *packet,
			   __u32 line)
{
	struct connection one = {};
	struct block_view view;
	__u32 ports;
	int may;

	if (!packet || packet->kind > KIND_FIRST || !find_block(line, &view))
		return true;
	ports = (__u32)packet->source_port << 16 | packet->destination_port;
	one.name = flow_tag(
		packet->v6 ? called_hash_v6(packet->source, packet->destination,
					    ports, packet->protocol, node_seed)
			   : seeded_hash_v4(packet->source[3],
					    packet->destination[3], ports,
					    packet->protocol, node_seed));
	one.service = view.block->service;
	one.event = read_connection_event(ctx, packet);
	may = follow_connection(&one, view.block->idle_timeout_s);
	if (may == CONNECTION_UNKNOWN)
		count(ctx, OXP_MEMORY_FULL);
	return may;
}

#endif
