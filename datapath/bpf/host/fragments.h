/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The entry by which a VM's fragments leave, as later ones have no ports. For
 * what is kept of first fragments see host.h. */
#ifndef OXP_HOST_FRAGMENTS_H
#define OXP_HOST_FRAGMENTS_H

#include "host/flows.h"
#include "host/outbound.h"
#include "shares.h"

static __always_inline __u64 tag_of_fragment(const struct host_packet *packet,
					     __u32 ifindex)
{
	const struct transport *transport = &packet->transport;

	return tag_from(siphash(&transport->source, &transport->destination,
				end_of_name(ifindex, transport->protocol,
					    transport->id, transport->id >> 16),
				transport->version == 6, &settings));
}

static __always_inline struct host_fragment_set *fragment_set(__u64 tag)
{
	__u32 number = tag & (HOST_FRAGMENT_SETS - 1);

	return bpf_map_lookup_elem(&fragments, &number);
}

/* SHARE_WAYS: not found. */
static __always_inline __u32 way_of_fragment(struct host_fragment_set *set,
					     __u64 tag)
{
	__u32 way = 0;

	while (way < SHARE_WAYS && READ_ONCE(set->tag[way]) != tag)
		way++;
	return way;
}

__noinline __u32 place_for_fragment(__u64 tag, __u64 state)
{
	struct host_fragment_set *set = fragment_set(tag);

	return set ? place_in_shares(set->state, state, tag >> 32,
				     HOST_FRAGMENT_AGE_MAX)
		   : 0;
}

/* Records a first fragment that leaves by the entry at `place`. */
__noinline int keep_fragment(const struct host_packet *packet, __u32 ifindex,
			     __u32 place)
{
	const struct host_entry *entry = entries_at(place);
	struct host_fragment_set *set;
	__u64 tag, state, was, *word;
	__u32 way;

	if (!packet || !entry)
		return 0;
	tag = tag_of_fragment(packet, ifindex);
	set = fragment_set(tag);
	if (!set)
		return 0;
	state = share_state(entry->host_port, place);
	way = way_of_fragment(set, tag);
	if (way == SHARE_WAYS)
		way = place_for_fragment(tag, state);
	way &= SHARE_WAYS - 1;
	word = &set->state[way];
	was = READ_ONCE(*word);
	/* another CPU is writing there and came first */
	if ((was && place_of(was) == HOST_NO_PLACE) ||
	    __sync_val_compare_and_swap(word, was, state | HOST_NO_PLACE) !=
		    was)
		return 0;
	__sync_lock_test_and_set(&set->tag[way], tag);
	__sync_lock_test_and_set(word, state);
	return 0;
}

/* Whether the entry at this place still belongs to this tap and address of its
 * VM: since it was recorded, the place may have been reused. */
static __always_inline bool
is_senders(__u32 place, const struct host_packet *packet, __u32 ifindex)
{
	const struct host_entry *entry = entries_at(place);
	const struct host_port *port =
		entry ? ports_at(entry->host_port) : NULL;

	return port && is_used(entry) && port->ifindex == ifindex &&
	       same_address(&entry->fixed, &packet->transport.source);
}

/* For a later fragment: HOST_OUT and the place, or HOST_PASS. */
static __noinline int find_fragment(const struct host_packet *packet,
				    __u32 ifindex)
{
	__u64 tag = tag_of_fragment(packet, ifindex), state;
	struct host_fragment_set *set = fragment_set(tag);
	__u32 way, place;

	if (!set)
		return HOST_PASS;
	way = way_of_fragment(set, tag);
	if (way == SHARE_WAYS)
		return HOST_PASS;
	way &= SHARE_WAYS - 1;
	state = READ_ONCE(set->state[way]);
	place = place_of(state);
	if (place == HOST_NO_PLACE || READ_ONCE(set->tag[way]) != tag ||
	    share_age(state, share_time()) > HOST_FRAGMENT_AGE_MAX)
		return HOST_PASS;
	return is_senders(place, packet, ifindex)
		       ? HOST_OUT | place << PLACE_SHIFT
		       : HOST_PASS;
}

#endif
