/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet's data for counting and tracing. */
#ifndef OXP_HOST_COUNT_H
#define OXP_HOST_COUNT_H

#include "host/maps.h"

#define NO_PORT 0xffffffff
#define TO_BE_DECIDED (-2) /* not a TC action */

struct seen {
	__u32 hook;      /* enum host_hook */
	__u32 place;     /* of the entry; HOST_NO_PLACE: none */
	__u32 host_port; /* place; NO_PORT: none */
	__u32 key;
	__u32 length; /* of the inner IP packet */
};

static __always_inline void count(enum host_outcome which)
{
	__u32 index = which;
	__u64 *packets = bpf_map_lookup_elem(&outcomes, &index);

	if (packets)
		++*packets;
}

/* For the node, and for the port if there is one. */
static __noinline void count_of_port(__u32 host_port, __u32 outcome)
{
	struct host_drop_key key = {.host_port = host_port, .outcome = outcome};
	__u64 one = 1, *packets;

	count(outcome);
	if (host_port == NO_PORT)
		return;
	packets = bpf_map_lookup_elem(&drops, &key);
	if (packets)
		__sync_fetch_and_add(packets, 1);
	else
		bpf_map_update_elem(&drops, &key, &one, BPF_ANY);
}

static __noinline int trace(struct __sk_buff *skb, const struct seen *seen,
			    __u32 outcome)
{
	struct host_traced *event =
		bpf_ringbuf_reserve(&traced, sizeof(*event), 0);
	__u32 length = skb->len;

	if (!event)
		return 0;
	event->time = bpf_ktime_get_ns();
	event->hook = seen->hook;
	event->outcome = outcome;
	event->ifindex = skb->ifindex;
	event->key = seen->key;
	event->host_port = seen->host_port;
	event->length = length;
	if (length > HOST_TRACED_BYTES)
		length = HOST_TRACED_BYTES;
	__builtin_memset(event->data, 0, sizeof(event->data));
	if (length)
		bpf_skb_load_bytes(skb, 0, event->data, length);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void
trace_if_wanted(struct __sk_buff *skb, const struct seen *seen, __u32 outcome)
{
	const struct host_settings *node = &settings;

	if (node->traced_port && (node->traced_port == NO_PORT ||
				  node->traced_port == seen->host_port + 1))
		trace(skb, seen, outcome);
}

__noinline int drop(struct __sk_buff *skb, const struct seen *seen,
		    __u32 outcome)
{
	struct host_counters *own;

	if (!seen)
		return 2;
	own = counters_at(seen->place);
	if (own)
		own->drops++;
	count_of_port(seen->host_port, outcome);
	trace_if_wanted(skb, seen, outcome);
	return 2; /* TC_ACT_SHOT */
}

#endif
