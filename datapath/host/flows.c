// SPDX-License-Identifier: Apache-2.0
/* Flows: freeing those that expired or belong to an entry, and listing. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "age_since.h"
#include "error.h"
#include "state.h"

static const int maps_of_tables[] = {MAP_FLOWS, MAP_HALF_OPEN};
#define TABLES 2

static uint32_t age_of(uint64_t state, uint32_t now)
{
	return age_since(state >> HOST_FLOW_TIME_SHIFT, now,
			 HOST_FLOW_TIME_MASK, AGE_AHEAD);
}

static uint32_t idle_of(struct oxh_host *host, int table, uint64_t state)
{
	const struct host_settings *settings = settings_of(host);

	if (table == OXH_HALF_OPEN)
		return settings->half_open_idle;
	if (state & HOST_FLOW_CLOSING)
		return settings->closing_idle;
	return state & HOST_FLOW_DATAGRAM ? settings->udp_idle
					  : settings->tcp_idle;
}

static bool clear_state(__u64 *state, __u64 was)
{
	return __atomic_compare_exchange_n(state, &was, 0, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void forget_flows(struct oxh_host *host, uint32_t place)
{
	struct host_entry *entry = &entries_of(host)[place];
	struct host_port *port = &ports_of(host)[entry->host_port];

	for (int table = 0; table < TABLES; table++) {
		int which = maps_of_tables[table];
		struct host_flow_set *sets = host->memory[which];

		for (uint32_t i = 0; i < host->count[which]; i++)
			for (int way = 0; way < HOST_FLOW_WAYS; way++) {
				__u64 *word = host_state(&sets[i], way);
				uint64_t was =
					__atomic_load_n(word, __ATOMIC_ACQUIRE);

				if (!was ||
				    (was & HOST_FLOW_PLACE_MASK) != place ||
				    !clear_state(word, was))
					continue;
				if (table == OXH_CONFIRMED && port->flows)
					__atomic_fetch_sub(&port->flows, 1,
							   __ATOMIC_RELAXED);
			}
	}
}

static int tick_table(struct oxh_host *host, int table, uint32_t now,
		      uint32_t *counts)
{
	int which = maps_of_tables[table], freed = 0;
	struct host_flow_set *sets = host->memory[which];

	for (uint32_t i = 0; i < host->count[which]; i++)
		for (int way = 0; way < HOST_FLOW_WAYS; way++) {
			__u64 *word = host_state(&sets[i], way);
			uint64_t was = __atomic_load_n(word, __ATOMIC_ACQUIRE);
			uint32_t place = was & HOST_FLOW_PLACE_MASK;

			if (!was)
				continue;
			if (age_of(was, now) > idle_of(host, table, was)) {
				freed += clear_state(word, was);
				continue;
			}
			if (table == OXH_CONFIRMED &&
			    place < host->count[MAP_ENTRIES])
				counts[entries_of(host)[place].host_port]++;
		}
	return freed;
}

int oxh_tick(struct oxh_host *host, char *error)
{
	uint32_t *counts = calloc(host->count[MAP_PORTS], sizeof(*counts));
	int status = lock_host(host, error), freed = 0;
	uint32_t now = now_in_units();

	if (!status && !counts)
		status = failure(error, -ENOMEM, "cannot count flows");
	if (!status) {
		for (int table = 0; table < TABLES; table++)
			freed += tick_table(host, table, now, counts);
		/* changes by packets meanwhile are counted at the next tick */
		for (uint32_t i = 0; i < host->count[MAP_PORTS]; i++)
			if (ports_of(host)[i].flows != counts[i])
				__atomic_store_n(&ports_of(host)[i].flows,
						 counts[i], __ATOMIC_RELAXED);
	}
	unlock_host(host);
	free(counts);
	return status ? status : freed;
}

static void describe(struct oxh_host *host, const struct ip_address *client,
		     uint64_t state, uint32_t now, struct oxh_flow *out)
{
	uint32_t place = state & HOST_FLOW_PLACE_MASK;
	const struct host_entry *entry = &entries_of(host)[place];
	const struct host_port *port = &ports_of(host)[entry->host_port];

	*out = (struct oxh_flow){
		.client_port = ntohs(state >> HOST_FLOW_PORT_SHIFT),
		.key = entry->key,
		.idle = age_of(state, now),
		.answered = !!(state & HOST_FLOW_ANSWERED),
		.closing = !!(state & HOST_FLOW_CLOSING),
		.direct = !!(state & HOST_FLOW_DIRECT),
		.outdated = (state >> HOST_FLOW_GENERATION_SHIFT &
			     HOST_GENERATION_MASK) != port->generation,
	};
	memcpy(&out->client, client, 16);
	memcpy(out->port_id, port->id, 16);
}

/* Lists flows of one port or all: `host_port` is a place, or negative. */
static int list_flows(struct oxh_host *host, uint32_t table, int host_port,
		      struct oxh_flow *out, uint32_t capacity)
{
	int which = maps_of_tables[table];
	struct host_flow_set *sets = host->memory[which];
	struct host_clients *clients =
		host->memory[which + MAP_FLOW_CLIENTS - MAP_FLOWS];
	uint32_t now = now_in_units(), count = 0;

	for (uint32_t i = 0; i < host->count[which]; i++)
		for (int way = 0; way < HOST_FLOW_WAYS; way++) {
			uint64_t state = __atomic_load_n(
				host_state(&sets[i], way), __ATOMIC_ACQUIRE);
			uint32_t place = state & HOST_FLOW_PLACE_MASK;

			if (!state || place >= host->count[MAP_ENTRIES])
				continue;
			if (host_port >= 0 &&
			    entries_of(host)[place].host_port !=
				    (uint32_t)host_port)
				continue;
			if (age_of(state, now) > idle_of(host, table, state))
				continue;
			if (count++ < capacity)
				describe(host, &clients[i].client[way], state,
					 now, &out[count - 1]);
		}
	return count;
}

int oxh_flows_list(struct oxh_host *host, uint32_t table, struct oxh_flow *out,
		   uint32_t capacity, char *error)
{
	if (table >= TABLES)
		return failure(error, -EINVAL, "unknown table %u", table);
	return list_flows(host, table, -1, out, capacity);
}

int oxh_port_flows_list(struct oxh_host *host, const uint8_t id[16],
			struct oxh_flow *out, uint32_t capacity, char *error)
{
	int host_port = find_port(host, id);

	if (host_port < 0)
		return failure(error, host_port, "there is no such port");
	return list_flows(host, OXH_CONFIRMED, host_port, out, capacity);
}
