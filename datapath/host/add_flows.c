// SPDX-License-Identifier: Apache-2.0
/* Adds flows that began on another hypervisor. They are written as the programs
 * write theirs (host.h), which may read and write at the same time. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"
#include "host_flow_name.h"
#include "state.h"

static bool has_tag(struct host_flow_set *set, uint64_t tag)
{
	for (int way = 0; way < HOST_FLOW_WAYS; way++)
		if (__atomic_load_n(host_state(set, way), __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(host_tag(set, way), __ATOMIC_ACQUIRE) ==
			    tag)
			return true;
	return false;
}

static bool has_room_beyond(struct host_flow_set *set, uint32_t kept)
{
	uint32_t room = 0;

	for (int way = 0; way < HOST_FLOW_WAYS; way++)
		room += !__atomic_load_n(host_state(set, way),
					 __ATOMIC_RELAXED);
	return room > kept;
}

/* Takes a free place, the tag's line first, and leaves `kept` places free. */
static bool write_free(struct oxh_host *host, uint32_t number, uint64_t tag,
		       const struct ip_address *client, uint64_t state,
		       uint32_t kept)
{
	struct host_flow_set *set =
		ELEMENTS(host, MAP_FLOWS, struct host_flow_set) + number;
	struct host_clients *clients =
		ELEMENTS(host, MAP_FLOW_CLIENTS, struct host_clients) + number;

	for (int i = 0; has_room_beyond(set, kept) && i < HOST_FLOW_WAYS; i++) {
		int way = i ^ host_line(tag) * HOST_LINE_WAYS;
		__u64 *word = host_state(set, way), expected = 0;

		if (!__atomic_compare_exchange_n(
			    word, &expected, state | HOST_NO_PLACE, false,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(host_tag(set, way), tag, __ATOMIC_SEQ_CST);
		clients->client[way] = *client;
		__atomic_store_n(word, state, __ATOMIC_SEQ_CST);
		return true;
	}
	return false;
}

static bool add_flow(struct oxh_host *host, const struct oxh_flow *flow)
{
	const struct host_settings *settings = settings_of(host);
	struct host_flow_set *sets = host->memory[MAP_FLOWS];
	const struct host_entry *entry;
	struct ip_address client;
	struct host_port *port;
	uint32_t place, first, second, kept;
	uint64_t tag, state;

	if (bpf_map_lookup_elem(host->map[MAP_KEYS], &flow->key, &place) ||
	    !flow->client_port)
		return false;
	entry = &entries_of(host)[place];
	port = &ports_of(host)[entry->host_port];
	memcpy(&client, &flow->client, sizeof(client));
	if (is_v4(&client) != is_v4(&entry->fixed) ||
	    port->flows >= port->flows_max)
		return false;
	tag = tag_from(
		siphash(&entry->fixed, &client,
			end_of_name(entry->host_port, entry->protocol,
				    entry->port, htons(flow->client_port)),
			!is_v4(&entry->fixed), settings));
	first = host_first_set(tag, settings->flow_sets);
	second = host_second_set(tag, settings->flow_sets);
	if (has_tag(&sets[first], tag) || has_tag(&sets[second], tag))
		return false;
	/* the previous generation: the flow is checked at its next packet */
	state = (uint64_t)htons(flow->client_port) << HOST_FLOW_PORT_SHIFT |
		(uint64_t)((port->generation - 1) & HOST_GENERATION_MASK)
			<< HOST_FLOW_GENERATION_SHIFT |
		now_in_units() << HOST_FLOW_TIME_SHIFT | HOST_FLOW_ANSWERED |
		(flow->closing ? HOST_FLOW_CLOSING : 0) |
		(entry->protocol == IPPROTO_TCP ? 0 : HOST_FLOW_DATAGRAM) |
		place;
	kept = host_kept_places(port->flows, settings->flow_sets);
	if (!write_free(host, first, tag, &client, state, kept) &&
	    !write_free(host, second, tag, &client, state, kept))
		return false;
	__atomic_fetch_add(&port->flows, 1, __ATOMIC_RELAXED);
	return true;
}

int oxh_flows_add(struct oxh_host *host, const struct oxh_flow *flows,
		  uint32_t count, char *error)
{
	int status = lock_host(host, error), added = 0;

	if (status)
		return status;
	for (uint32_t i = 0; i < count; i++)
		added += add_flow(host, &flows[i]);
	unlock_host(host);
	return added;
}
