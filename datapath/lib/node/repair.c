// SPDX-License-Identifier: Apache-2.0
/*
 * Repairing what a process left that died during a change. A service is an
 * entry in use whose key is in the lookup table at the place that the entry
 * names, with one of the entry's blocks as value. Everything else is derived
 * from these: other keys, VIPs, overflow counts, QUIC servers, counters. If
 * another library was taking over, interfaces may run its program on its maps:
 * replace that by this library's program on the current maps.
 */
#include "node/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "error.h"
#include "nat_table/addresses.h"
#include "nat_table/pools.h"
#include "node/maps.h"
#include "pins.h"
#include "program/repair.h"
#include "state.h"
#include "table/blocks.h"
#include "table/lookup.h"
#include "table/quic_servers.h"
#include "table/vips.h"

static bool is_block_of(const struct service_entry *entry, uint32_t line)
{
	return line && (line == entry->block[0] || line == entry->block[1]);
}

static bool is_service(struct oxp_node *node, uint32_t index)
{
	const struct service_entry *entry = entry_of(node, index);
	struct lookup_key key = entry_key(entry);

	return entry->state == ENTRY_USED &&
	       lookup_holds(node, &key, entry->place) &&
	       is_block_of(entry, *lookup_value(node, key.v6, entry->place));
}

struct kept {
	uint64_t *keys[2]; /* bits by place: IPv4, IPv6 */
	uint64_t *gone;    /* bits by entry: not a service */
};

static void set_bit(uint64_t *bits, uint32_t bit)
{
	bits[bit / 64] |= 1ULL << bit % 64;
}

static void keep_services(struct oxp_node *node, struct kept *kept)
{
	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_entry *entry = entry_of(node, i);

		if (is_service(node, i))
			set_bit(kept->keys[!is_v4(entry->vip)], entry->place);
		else
			set_bit(kept->gone, i);
	}
}

/* A VIP's key is entered before its first service's and removed after its last
 * service's. */
static void keep_vips(struct oxp_node *node, struct kept *kept)
{
	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_entry *entry = entry_of(node, i);
		struct lookup_key key = lookup_key(entry->vip, 0, 0);
		int64_t place;

		if (kept->gone[i / 64] >> i % 64 & 1)
			continue;
		place = lookup_find(node, &key);
		if (place >= 0)
			set_bit(kept->keys[key.v6], place);
	}
}

static void free_entries(struct oxp_node *node, const struct kept *kept)
{
	for (uint32_t i = 0; i < node->config->services_max; i++)
		if (kept->gone[i / 64] >> i % 64 & 1)
			entry_of(node, i)->state = ENTRY_FREE;
}

static int repair_keys(struct oxp_node *node, struct kept *kept, char *error)
{
	int status;

	keep_services(node, kept);
	keep_vips(node, kept);
	keep_pool_keys(node, kept->keys);
	status = lookup_repair(node, (const uint64_t **)kept->keys);
	if (!status)
		status = refresh_vips(node, kept->gone);
	if (status)
		return failure(error, status,
			       "cannot repair the lookup tables");
	status = repair_pools(node, error);
	if (status)
		return status;
	/* covers deletions by the dead process, too */
	status = grace_period(node, error);
	if (!status)
		free_entries(node, kept);
	return status;
}

int repair(struct oxp_node *node, char *error)
{
	uint32_t words = lookup_places(node) / 64 + 1;
	struct kept kept = {};
	int status = is_in_force(node);

	/* taken over by a process that died before it could say so here */
	if (status <= 0) {
		if (!status)
			__atomic_store_n(&node->config->layout, 0,
					 __ATOMIC_RELEASE);
		return failure(error, status ? status : -ESTALE,
			       "%s was taken over by another version",
			       node->pin_directory);
	}
	node->config->nat_addresses = count_pool_addresses(node);
	status = repair_programs(node, error);
	if (status)
		return status;
	remove_folder(node, "maps-new");
	begin_change(node, true);
	node->counters_changes = 0; /* the dead process may have changed them */
	node->lines_changes = 0;
	kept.keys[0] = calloc(words, sizeof(uint64_t));
	kept.keys[1] = calloc(words, sizeof(uint64_t));
	kept.gone =
		calloc(node->config->services_max / 64 + 1, sizeof(uint64_t));
	if (kept.keys[0] && kept.keys[1] && kept.gone)
		status = repair_keys(node, &kept, error);
	else
		status = failure(error, -ENOMEM, "cannot repair");
	if (!status)
		status = repair_quic_servers(node, error);
	if (!status)
		end_change(node);
	free(kept.keys[0]);
	free(kept.keys[1]);
	free(kept.gone);
	return status;
}
