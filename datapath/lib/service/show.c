// SPDX-License-Identifier: Apache-2.0
/* Reading services. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "node/lock.h"
#include "service/find.h"
#include "service/limit.h"
#include "service/watch.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/members.h"
#include "table/networks.h"
#include "table/quic_servers.h"
#include "table/slot_transition.h"
#include "table/slots.h"

static void describe(struct oxp_node *node, uint32_t index,
		     struct oxp_service *out)
{
	const struct service_block *block = live_block(node, index);
	const struct service_entry *entry = entry_of(node, index);
	bool source = block->flags & OXP_SERVICE_SOURCE;
	bool nat = block->flags & OXP_SERVICE_NAT;

	*out = (struct oxp_service){
		.key.port = ntohs(entry->port),
		.key.protocol = entry->protocol,
		.index = index,
		.slots = block->slots,
		.enabled = block->enabled,
		.open_slots = block->open,
		.generation = block->generation,
		.members_state = hash_members(block),
		.settings =
			{
				.slots = block->slots,
				.flags =
					block->flags &
					(OXP_SERVICE_SOURCE | OXP_SERVICE_QUIC |
					 OXP_SERVICE_SECOND_CHANCE |
					 OXP_SERVICE_NAT | OXP_SERVICE_RESET),
				.encapsulation = block->encapsulation,
				.dscp = nat ? 0 : block->dscp,
				.sid_function =
					nat ? 0 : ntohs(block->sid_function),
				.source_length_v4 =
					source ? block->source_length_v4 : 0,
				.source_length_v6 =
					source ? block->source_length_v6 : 0,
				.idle_timeout_s = block->idle_timeout_s,
				.new_flow_rate = block->new_flow_rate,
				.new_flow_burst = block->new_flow_burst,
				.allowed_count = block->allowed_count,
				.nat_flows =
					nat ? block->nat_flows * NAT_FLOWS_UNIT
					    : 0,
				.nat_group = nat ? block->nat_group : 0,
				.connection_limit =
					connection_limit(node, index),
			},
		.open_connections = connection_limit(node, index)
					    ? node->nat_services[index].active &
						      ~NAT_TAKEN_OUT
					    : 0,
	};
	memcpy(out->key.vip.bytes, entry->vip, sizeof(entry->vip));
	for (uint32_t i = 0; i < places_of(block); i++)
		out->members += !!(block->member[i].flags & MEMBER_PRESENT);
}

static int by_key(const void *left, const void *right)
{
	const struct oxp_service *a = left, *b = right;
	int order = memcmp(&a->key.vip, &b->key.vip, sizeof(a->key.vip));

	if (order)
		return order;
	if (a->key.protocol != b->key.protocol)
		return a->key.protocol < b->key.protocol ? -1 : 1;
	return (a->key.port > b->key.port) - (a->key.port < b->key.port);
}

static int read_alive(struct oxp_node *node, struct oxp_service *services,
		      uint32_t count, uint32_t first, uint32_t most)
{
	uint32_t *alive = calloc(most - first, sizeof(*alive));

	if (!alive)
		return -ENOMEM;
	count_alive(node, first, most - first, alive);
	for (uint32_t i = 0; i < count; i++)
		services[i].active_flows = alive[services[i].index - first];
	free(alive);
	return 0;
}

/* NAT services count both directions. */
static int read_replies(struct oxp_node *node, struct oxp_service *service)
{
	struct reply_counters replies;
	int status = read_reply_counters(node, service->index, &replies);

	service->reply_packets = replies.packets;
	service->reply_bytes = replies.bytes;
	service->active_flows =
		node->nat_services[service->index].active & ~NAT_TAKEN_OUT;
	return status;
}

static void set_counts(struct oxp_node *node, struct oxp_service *service)
{
	struct service_counts counts;

	read_service_counts(node, service->index, &counts);
	service->counters = counts.counters;
	service->drops = counts.drops;
	service->flow_table_full = counts.flow_table_full;
}

static int read_counters(struct oxp_node *node, struct oxp_service *services,
			 uint32_t count)
{
	uint32_t first = UINT32_MAX, most = 0;
	int status = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (services[i].index >= most)
			most = services[i].index + 1;
		if (services[i].index < first)
			first = services[i].index;
	}
	if (count)
		status = read_alive(node, services, count, first, most);
	for (uint32_t i = 0; i < count && !status; i++)
		if (services[i].settings.flags & OXP_SERVICE_NAT)
			status = read_replies(node, &services[i]);
	for (uint32_t i = 0; i < count; i++)
		set_counts(node, &services[i]);
	return status;
}

int oxp_services_list(struct oxp_node *node, struct oxp_service *out,
		      uint32_t capacity, char *error)
{
	uint32_t count = 0, filled;
	int status = lock_node(node, error);

	if (status)
		return status;
	FOR_EACH_SERVICE(node, i) {
		if (count < capacity)
			describe(node, i, &out[count]);
		count++;
	}
	filled = count < capacity ? count : capacity;
	status = read_counters(node, out, filled);
	unlock_node(node);
	if (status)
		return failure(error, status, "cannot read counters");
	qsort(out, filled, sizeof(*out), by_key);
	return count;
}

int oxp_service_get(struct oxp_node *node, const struct oxp_key *key,
		    struct oxp_service *out, char *error)
{
	int index = lock_service(node, key, error), status;

	if (index < 0)
		return index;
	describe(node, index, out);
	status = read_counters(node, out, 1);
	unlock_node(node);
	return status ? failure(error, status, "cannot read counters") : 0;
}

static void describe_member(const struct block_member *member, uint16_t index,
			    struct oxp_member_state *out)
{
	*out = (struct oxp_member_state){
		.check = member->check,
		.weight = member->weight,
		.mtu = member->mtu,
		.admin_up = !!(member->flags & MEMBER_ADMIN_UP),
		.backup = !!(member->flags & MEMBER_BACKUP),
		.healthy = !!(member->flags & MEMBER_HEALTHY),
		.known = !!(member->flags & MEMBER_KNOWN),
		.takes_flows = !!(member->flags & MEMBER_TAKES_FLOWS),
		.index = index,
		.port = ntohs(member->port),
	};
	memcpy(&out->address, member->address, sizeof(out->address));
	tunnel_of(member, &out->tunnel);
}

int oxp_members_list(struct oxp_node *node, const struct oxp_key *key,
		     struct oxp_member_state *out, uint32_t capacity,
		     char *error)
{
	int index = lock_service(node, key, error);
	uint16_t sorted[OXP_MEMBERS_MAX];
	const struct service_block *block;
	uint32_t count;

	if (index < 0)
		return index;
	block = live_block(node, index);
	count = sorted_members(block, sorted);
	for (uint32_t i = 0; i < count && i < capacity; i++) {
		const struct block_member *member = &block->member[sorted[i]];

		describe_member(member, sorted[i], &out[i]);
		out[i].quic_server_id = quic_server_id(
			&out[i].address, name_port(block, sorted, i));
		read_member_counters(node, member->counter, &out[i].counters);
	}
	unlock_node(node);
	return count;
}

int oxp_networks_list(struct oxp_node *node, const struct oxp_key *key,
		      struct oxp_network *out, uint32_t capacity, char *error)
{
	int index = lock_service(node, key, error);
	const struct oxp_network *networks;
	uint32_t count;

	if (index < 0)
		return index;
	networks = networks_of(node, live_block(node, index), &count);
	for (uint32_t i = 0; i < count && i < capacity; i++)
		out[i] = networks[i];
	unlock_node(node);
	return count;
}

int oxp_table_get(struct oxp_node *node, const struct oxp_key *key,
		  uint16_t *out, uint16_t *before, uint32_t capacity,
		  uint32_t *before_slots, char *error)
{
	int index = lock_service(node, key, error);
	uint16_t sorted[OXP_MEMBERS_MAX], position[STAYS];
	const struct service_block *block;
	uint32_t slots, old, count;

	if (index < 0)
		return index;
	block = live_block(node, index);
	count = sorted_members(block, sorted);
	memset(position, 0xff, sizeof(position)); /* OXP_NO_MEMBER */
	for (uint32_t i = 0; i < count; i++)
		position[sorted[i]] = i;
	slots = block->slots;
	if (slots > node->config->slots_max)
		slots = node->config->slots_max; /* damaged */
	old = block->flags & BLOCK_OPEN ? block->before_slots : slots;
	for (uint32_t i = 0; i < slots && i < capacity; i++)
		out[i] = position[SLOT_STAYS(owner_at(block, i))];
	for (uint32_t i = 0; before && i < old && i < capacity; i++)
		before[i] = old != slots || slot_is_open(block, i)
				    ? position[SLOT_STAYS(before_at(block, i))]
				    : out[i];
	if (before_slots)
		*before_slots = old;
	unlock_node(node);
	return slots;
}
