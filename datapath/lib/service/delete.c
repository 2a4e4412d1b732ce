// SPDX-License-Identifier: Apache-2.0
/*
 * Deleting services: keys, VIPs, a grace period, then what the keys led to. The
 * node is dirty from the first step to the last.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "epoch.h"
#include "error.h"
#include "nat_table/flows.h"
#include "node/lock.h"
#include "service/validate.h"
#include "service/watch.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/lookup.h"
#include "table/quic_servers.h"
#include "table/vips.h"

struct deletion {
	uint32_t *indices;
	uint32_t count;
	uint64_t *gone; /* bits by index */
	bool nat;       /* one of the services is OXP_SERVICE_NAT */
};

static void erase_keys(struct oxp_node *node, struct deletion *deletion,
		       const struct oxp_key *keys, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct lookup_key key =
			lookup_key(keys[i].vip.bytes, htons(keys[i].port),
				   keys[i].protocol);
		int index = find_service(node, &key);

		if (index < 0 || deletion->gone[index / 64] >> index % 64 & 1)
			continue;
		deletion->indices[deletion->count++] = index;
		deletion->gone[index / 64] |= 1ULL << index % 64;
	}
	if (!deletion->count)
		return;
	begin_change(node, true);
	for (uint32_t i = 0; i < deletion->count; i++) {
		struct service_entry *entry =
			entry_of(node, deletion->indices[i]);
		struct lookup_key key = entry_key(entry);

		deletion->nat |=
			!!(live_block(node, deletion->indices[i])->flags &
			   OXP_SERVICE_NAT);
		if (lookup_holds(node, &key, entry->place))
			lookup_erase(node, &key, entry->place);
	}
}

/* Release what the service has. No packet uses it any more. */
static int forget(struct oxp_node *node, uint32_t index, char *error)
{
	struct service_entry *entry = entry_of(node, index);
	const struct service_block *block = live_block(node, index);
	int status;

	status = write_quic_servers(node, index, block, NULL, error);
	if (status)
		return status;
	for (uint32_t i = 0; i < block->members; i++)
		if (block->member[i].flags & MEMBER_PRESENT)
			release_counter(node, block->member[i].counter, 0);
	if (node->config->generation < block->generation)
		node->config->generation = block->generation;
	__atomic_store_n(&entry->state, ENTRY_FREE, __ATOMIC_RELEASE);
	forget_blocks(node, index);
	return 0;
}

static int delete(struct oxp_node *node, struct deletion *deletion,
		  const struct oxp_key *keys, uint32_t count, char *error)
{
	int status;

	erase_keys(node, deletion, keys, count);
	if (!deletion->count)
		return 0;
	/* stays dirty after a failure: the next user repairs the state */
	status = refresh_vips(node, deletion->gone);
	if (status)
		return failure(error, status, "cannot count the VIPs");
	status = grace_period(node, error);
	for (uint32_t i = 0; i < deletion->count && !status; i++)
		status = forget(node, deletion->indices[i], error);
	if (status)
		return status;
	forget_watched(node, deletion->gone);
	if (deletion->nat)
		end_nat_flows_of_services(node, deletion->gone);
	end_change(node);
	return deletion->count;
}

int oxp_services_delete(struct oxp_node *node, const struct oxp_key *keys,
			uint32_t count, char *error)
{
	struct deletion deletion = {};
	int status = 0;

	for (uint32_t i = 0; i < count && !status; i++)
		status = check_key(&keys[i], error);
	if (status)
		return status;
	deletion.indices = calloc(count + 1, sizeof(*deletion.indices));
	deletion.gone = calloc(node->config->services_max / 64 + 1,
			       sizeof(*deletion.gone));
	if (!deletion.indices || !deletion.gone)
		status = failure(error, -ENOMEM, "cannot delete services");
	if (!status)
		status = lock_node(node, error);
	if (!status) {
		status = delete (node, &deletion, keys, count, error);
		unlock_node(node);
	}
	free(deletion.indices);
	free(deletion.gone);
	return status;
}
