/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Results of the last lookups. A hash table of the kernel costs several calls,
 * and mitigations make many processors mispredict each return from one. A hint
 * is the place of an entry, and the entry itself tells whether it is the right
 * one: so hints need not be kept valid, may start as zeroes, and names that
 * share a hint cost no more than without hints.
 */
#ifndef OXP_HOST_HINTS_H
#define OXP_HOST_HINTS_H

#include "host/packet.h"
#include "likely.h"

#define HINTS 8192 /* a power of two */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HINTS);
	__type(key, __u32);
	__type(value, __u32);
} key_hints SEC(".maps"), listener_hints SEC(".maps");

/* The upper half of a hint has bits of the name, so that names without an entry
 * seldom read one. The lower half is the place. */
#define HINT_NAME 0xffff0000

struct hinted {
	__u32 name;
	__u32 *hint; /* NULL is unreachable; for the verifier */
};

static __always_inline struct hinted hinted_in(void *hints, __u64 name)
{
	__u64 spread = name * 0x9e3779b97f4a7c15ULL;
	__u32 number = spread >> 48 & (HINTS - 1);

	return (struct hinted){spread >> 16 & HINT_NAME,
			       bpf_map_lookup_elem(hints, &number)};
}

/* NULL: no hint. *place gets the entry's place. */
static __always_inline const struct host_entry *
entry_of_hint(const struct hinted *hinted, __u32 *place)
{
	__u32 word;

	if (!hinted->hint)
		return NULL;
	word = READ_ONCE(*hinted->hint);
	*place = word & ~HINT_NAME;
	return (word ^ hinted->name) < 0x10000 ? entries_at(*place) : NULL;
}

static __always_inline __u32 keep_hint(const struct hinted *hinted, __u32 place)
{
	if (hinted->hint)
		WRITE_ONCE(*hinted->hint, hinted->name | place);
	return place;
}

/* The place of the entry with the key; HOST_NO_PLACE: none. */
static __always_inline __u32 place_of_key(__u32 key)
{
	struct hinted hinted = hinted_in(&key_hints, key);
	const struct host_entry *entry;
	__u32 place = 0, *found;

	entry = entry_of_hint(&hinted, &place);
	if (likely(entry && entry->key == key && is_used(entry)))
		return place;
	found = find_key(key);
	return found ? keep_hint(&hinted, *found) : HOST_NO_PLACE;
}

static __always_inline struct host_listener *
find_listener(__u32 ifindex, __u8 protocol, __be16 port,
	      const struct ip_address *fixed)
{
	struct host_listener_key key = {
		.ifindex = ifindex,
		.port = port,
		.protocol = protocol,
		.fixed = *fixed,
	};

	return bpf_map_lookup_elem(&listeners, &key);
}

static __always_inline bool is_at(const struct host_entry *entry, __u32 ifindex,
				  __u8 protocol, __be16 port,
				  const struct ip_address *fixed)
{
	const struct host_port *at;

	if (!is_used(entry) || entry->port != port ||
	    entry->protocol != protocol || !same_address(&entry->fixed, fixed))
		return false;
	at = ports_at(entry->host_port);
	return at && at->ifindex == ifindex;
}

/* The place of an entry with the member's port; HOST_NO_PLACE: none. */
static __always_inline __u32 place_of_listener(__u32 ifindex, __u8 protocol,
					       __be16 port,
					       const struct ip_address *fixed)
{
	const __u64 *address = (const __u64 *)fixed;
	__u64 name = (__u64)ifindex << 32 | port << 8 | protocol;
	struct hinted hinted =
		hinted_in(&listener_hints, name ^ address[0] ^ address[1]);
	const struct host_listener *listener;
	const struct host_entry *entry;
	__u32 place = 0;

	entry = entry_of_hint(&hinted, &place);
	if (likely(entry && is_at(entry, ifindex, protocol, port, fixed)))
		return place;
	listener = find_listener(ifindex, protocol, port, fixed);
	return listener ? keep_hint(&hinted, listener->place) : HOST_NO_PLACE;
}

#endif
