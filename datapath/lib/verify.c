// SPDX-License-Identifier: Apache-2.0
/* Computing everything again that follows from something else. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "internal.h"

static bool keeps_flows(const struct service_block *block, uint16_t member)
{
	return member < block->members &&
	       block->member[member].flags & MEMBER_KEEPS_FLOWS;
}

static const char *find_fault_in_slots(struct oxp_node *node,
				       struct service_block *block,
				       uint16_t *owners)
{
	const uint16_t *before = before_of(node, block);
	uint32_t open = 0;

	if (compute_owners(block, owners))
		return "there is no memory to compute its table";
	for (uint32_t i = 0; i < block->slots; i++) {
		uint16_t slot = block->slot[i];

		if ((slot & SLOT_MEMBER) != owners[i])
			return "its table is not the one of its members";
		if (!(slot & SLOT_OPEN))
			continue;
		open++;
		if (before[i] != SLOT_NOBODY && !keeps_flows(block, before[i]))
			return "an open slot leads to nobody";
	}
	/* a tick that was cut off leaves a number that is too high */
	if (open > block->open && block->open != 65535)
		return "it has more open slots than it says";
	return NULL;
}

static const char *find_fault_in_members(const struct service_block *block)
{
	struct block_member again[OXP_MEMBERS_MAX];

	if (block->members > OXP_MEMBERS_MAX)
		return "it has too many members";
	memcpy(again, block->member, block->members * sizeof(*again));
	if (compute_flags(again, block->members) != block->enabled ||
	    memcmp(again, block->member, block->members * sizeof(*again)))
		return "its members' flags contradict each other";
	return NULL;
}

/* What is wrong with a service, or NULL. */
static const char *find_fault(struct oxp_node *node, uint32_t index,
			      uint16_t *owners, uint32_t *quic)
{
	const struct service_entry *entry = entry_of(node, index);
	struct lookup_key key = entry_key(entry);
	struct lookup_key vip = lookup_key(entry->vip, 0, 0);
	struct service_block *block;
	const char *fault;
	int64_t place;

	if (find_service(node, &key) != (int)index ||
	    !lookup_holds(node, &key, entry->place))
		return "its key does not lead to it";
	place = lookup_find(node, &vip);
	if (place < 0 || *lookup_value(node, vip.v6, place) != entry->vip_index)
		return "its VIP is not known";
	block = live_block(node, index);
	if (block->slots > node->config->slots_max ||
	    !oxp_is_prime(block->slots))
		return "its table has an impossible size";
	fault = find_fault_in_members(block);
	if (!fault)
		fault = find_fault_in_slots(node, block, owners);
	if (!fault && !quic_servers_right(node, index, quic))
		fault = "its QUIC servers are not those of its members";
	return fault;
}

static uint32_t count_keys(int map)
{
	char key[sizeof(struct quic_key)], next[sizeof(key)];
	uint32_t count = 0;
	bool more = !bpf_map_get_next_key(map, NULL, next);

	for (; more; count++) {
		memcpy(key, next, sizeof(key));
		more = !bpf_map_get_next_key(map, key, next);
	}
	return count;
}

static const char *find_fault_in_vips(struct oxp_node *node, uint32_t *vips)
{
	uint32_t max = node->config->services_max;
	uint32_t *counts = calloc(max, sizeof(*counts));
	const char *fault = NULL;

	if (!counts)
		return "no memory to count the VIPs";
	for (uint32_t i = 0; i < max; i++)
		if (entry_of(node, i)->state == ENTRY_USED &&
		    entry_of(node, i)->vip_index < max)
			counts[entry_of(node, i)->vip_index]++;
	for (uint32_t i = 0; i < max; i++) {
		*vips += !!counts[i];
		if (counts[i] != node->vips[i].services)
			fault = "a VIP has another number of services";
	}
	free(counts);
	return fault;
}

/* Faults that are of no single service. */
static const char *find_common_fault(struct oxp_node *node, uint32_t services,
				     uint32_t quic)
{
	uint32_t keys, vips = 0;
	const char *fault = find_fault_in_vips(node, &vips);
	int wrong = lookup_check(node, &keys);

	if (fault)
		return fault;
	if (wrong < 0)
		return "no memory to count the keys";
	if (wrong)
		return "buckets of the lookup tables have wrong counts";
	if (keys != services + vips)
		return "the lookup tables have keys of nobody";
	if (count_keys(node->map[MAP_QUIC_SERVERS]) != quic)
		return "there are QUIC servers of nobody";
	return NULL;
}

struct faults {
	struct oxp_fault *out;
	uint32_t capacity;
	uint32_t count;
};

/* `entry`: the service that it is about, or NULL. */
static void add_fault(struct faults *faults, const struct service_entry *entry,
		      const char *text)
{
	struct oxp_fault *fault = &faults->out[faults->count];

	if (faults->count++ >= faults->capacity)
		return;
	*fault = (struct oxp_fault){};
	if (entry) {
		memcpy(fault->key.vip.bytes, entry->vip, sizeof(entry->vip));
		fault->key.port = ntohs(entry->port);
		fault->key.protocol = entry->protocol;
	}
	snprintf(fault->text, sizeof(fault->text), "%s", text);
}

static void verify(struct oxp_node *node, uint16_t *owners,
		   struct faults *faults)
{
	uint32_t services = 0, quic = 0;
	const char *fault;

	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_entry *entry = entry_of(node, i);

		if (entry->state != ENTRY_USED)
			continue;
		services++;
		fault = find_fault(node, i, owners, &quic);
		if (fault)
			add_fault(faults, entry, fault);
	}
	fault = find_common_fault(node, services, quic);
	if (fault)
		add_fault(faults, NULL, fault);
}

int oxp_faults(struct oxp_node *node, struct oxp_fault *out, uint32_t capacity,
	       char *error)
{
	uint16_t *owners = calloc(node->config->slots_max, sizeof(*owners));
	struct faults faults = {out, capacity, 0};
	int status;

	if (!owners)
		return failure(error, -ENOMEM, "cannot verify");
	status = lock_node(node, error);
	if (!status) {
		verify(node, owners, &faults);
		unlock_node(node);
	}
	free(owners);
	return status ? status : (int)faults.count;
}

int oxp_verify(struct oxp_node *node, char *error)
{
	struct oxp_fault first;
	int count = oxp_faults(node, &first, 1, error);

	if (count <= 0 || !error)
		return count;
	if (first.key.protocol)
		snprintf(error, OXP_ERROR_LENGTH, "%s: %s",
			 key_text(first.key.vip.bytes, htons(first.key.port),
				  first.key.protocol),
			 first.text);
	else
		snprintf(error, OXP_ERROR_LENGTH, "%s", first.text);
	return count;
}
