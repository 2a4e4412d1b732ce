// SPDX-License-Identifier: Apache-2.0
/* Reading the state back, and checking it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int describe(struct oxp_node *node, uint32_t index,
		    struct oxp_service *out, char *error)
{
	const struct service_block *block = live_block(node, index);
	const struct service_entry *entry = entry_of(node, index);
	int status;

	*out = (struct oxp_service){
		.key.port = ntohs(entry->port),
		.key.protocol = entry->protocol,
		.index = index,
		.slots = block->slots,
		.members = block->members,
		.enabled = block->enabled,
		.generation = entry->active,
	};
	memcpy(out->key.vip.bytes, entry->vip, sizeof(entry->vip));
	status = read_service_counters(node, index, &out->counters);
	return status ? failure(error, status, "cannot read counters") : 0;
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

int oxp_services(struct oxp_node *node, struct oxp_service *out,
		 uint32_t capacity, char *error)
{
	uint32_t count = 0;
	int status;

	status = lock_node(node, error);
	if (status)
		return status;
	for (uint32_t i = 0; i < node->config->services_max && !status; i++) {
		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		if (count < capacity)
			status = describe(node, i, &out[count], error);
		count++;
	}
	unlock_node(node);
	if (status)
		return status;
	qsort(out, count < capacity ? count : capacity, sizeof(*out), by_key);
	return count;
}

/* Locks the node and finds a service; its index or an error, then unlocked. */
static int lock_service(struct oxp_node *node, const struct oxp_key *key,
			char *error)
{
	struct key_v4 v4;
	int status;

	status = key_to_v4(key, &v4, error);
	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	status = find_index(node, &v4);
	if (status < 0) {
		unlock_node(node);
		return failure(error, status, "service");
	}
	return status;
}

int oxp_service(struct oxp_node *node, const struct oxp_key *key,
		struct oxp_service *out, char *error)
{
	int index = lock_service(node, key, error), status;

	if (index < 0)
		return index;
	status = describe(node, index, out, error);
	unlock_node(node);
	return status;
}

int oxp_service_members(struct oxp_node *node, const struct oxp_key *key,
			struct oxp_member_state *out, uint32_t capacity,
			char *error)
{
	int index = lock_service(node, key, error), status = 0;
	const struct service_block *block;
	uint32_t count;

	if (index < 0)
		return index;
	block = live_block(node, index);
	count = block->members;
	for (uint32_t i = 0; i < count && i < capacity && !status; i++) {
		const struct block_member *member = &block->member[i];

		out[i] = (struct oxp_member_state){
			.check = member->check,
			.weight = member->weight,
			.admin_up = !!(member->flags & MEMBER_ADMIN_UP),
			.healthy = !!(member->flags & MEMBER_HEALTHY),
			.known = !!(member->flags & MEMBER_KNOWN),
		};
		memcpy(&out[i].address, member->address,
		       sizeof(out[i].address));
		status = read_member_counters(node, member->counter,
					      &out[i].counters);
	}
	unlock_node(node);
	return status ? failure(error, status, "cannot read counters")
		      : (int)count;
}

int oxp_service_table(struct oxp_node *node, const struct oxp_key *key,
		      uint16_t *out, uint32_t capacity, char *error)
{
	int index = lock_service(node, key, error);
	const struct service_block *block;
	uint32_t slots;

	if (index < 0)
		return index;
	block = live_block(node, index);
	slots = block->slots;
	memcpy(out, block->slot,
	       (slots < capacity ? slots : capacity) * sizeof(*out));
	unlock_node(node);
	return slots;
}

int oxp_service_pick(struct oxp_node *node, const struct oxp_key *key,
		     const struct oxp_address *client, uint16_t client_port,
		     struct oxp_address *member, char *error)
{
	const struct service_block *block;
	__be32 source, destination;
	int index, status = 0;
	uint16_t chosen;
	uint32_t hash;

	if (memcmp(client->bytes, v4_mapped, sizeof(v4_mapped)))
		return failure(error, -EAFNOSUPPORT, "clients must be IPv4");
	index = lock_service(node, key, error);
	if (index < 0)
		return index;
	memcpy(&source, client->bytes + 12, sizeof(source));
	memcpy(&destination, key->vip.bytes + 12, sizeof(destination));
	hash = flow_hash(source, destination, htons(client_port),
			 htons(key->port), key->protocol);
	block = live_block(node, index);
	chosen = block->slot[flow_slot(hash, block->slots)];
	if (chosen < OXP_MEMBERS_MAX)
		memcpy(member->bytes, block->member[chosen].address,
		       sizeof(member->bytes));
	else
		status =
			failure(error, -ENETUNREACH, "no member takes traffic");
	unlock_node(node);
	return status;
}

int oxp_info(struct oxp_node *node, struct oxp_info *info, char *error)
{
	const struct node_config *config = node->config;
	int status = lock_node(node, error);

	if (status)
		return status;
	*info = (struct oxp_info){
		.layout = config->layout,
		.services_max = config->services_max,
		.members_max = config->members_max,
		.slots_max = config->slots_max,
		.map_bytes = node->blocks_length,
	};
	for (uint32_t i = 0; i < config->services_max; i++) {
		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		info->services++;
		info->members += live_block(node, i)->members;
	}
	unlock_node(node);
	return 0;
}

/* What is wrong with a service, or NULL. */
static const char *find_fault(struct oxp_node *node, uint32_t index,
			      struct service_block *again)
{
	const struct service_entry *entry = entry_of(node, index);
	const struct service_block *block = live_block(node, index);
	struct key_v4 key = {.port = entry->port, .protocol = entry->protocol};

	memcpy(&key.address, entry->vip + 12, sizeof(key.address));
	if (find_index(node, &key) != (int)index)
		return "its key does not lead to it";
	if (block->generation != entry->active)
		return "its block has another generation";
	if (block->slots > node->config->slots_max ||
	    !oxp_is_prime(block->slots))
		return "its table has an impossible size";
	if (block->members > OXP_MEMBERS_MAX)
		return "it has too many members";
	again->slots = block->slots;
	again->members = block->members;
	memcpy(again->member, block->member,
	       block->members * sizeof(*block->member));
	compute_slots(again);
	if (again->enabled != block->enabled ||
	    memcmp(again->slot, block->slot,
		   block->slots * sizeof(*block->slot)))
		return "its table is not the one of its members";
	return NULL;
}

int oxp_verify(struct oxp_node *node, char *error)
{
	struct service_block *again = calloc(1, node->block_size);
	int faults = 0, status;

	if (!again)
		return failure(error, -ENOMEM, "cannot verify");
	status = lock_node(node, error);
	for (uint32_t i = 0; !status && i < node->config->services_max; i++) {
		const struct service_entry *entry = entry_of(node, i);
		char vip[INET6_ADDRSTRLEN];
		const char *fault;

		if (entry->state != ENTRY_USED)
			continue;
		fault = find_fault(node, i, again);
		if (!fault || faults++ || !error)
			continue;
		inet_ntop(AF_INET, entry->vip + 12, vip, sizeof(vip));
		snprintf(error, OXP_ERROR_LENGTH,
			 "service %s port %u protocol %u: %s", vip,
			 ntohs(entry->port), entry->protocol, fault);
	}
	if (!status)
		unlock_node(node);
	free(again);
	return status ? status : faults;
}
