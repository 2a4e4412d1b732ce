// SPDX-License-Identifier: Apache-2.0
/* Creating a state from a stream. */
#include "upgrade/import.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "error.h"
#include "node/create.h"
#include "node/settings.h"
#include "node/uplinks.h"
#include "state.h"
#include "upgrade/import_service.h"
#include "upgrade/reader.h"
#include "upgrade/stream.h"

int imported_sizes(struct import *import, struct node_config *config,
		   char *error)
{
	const struct record *sizes = find_record(import, RECORD_SIZES);
	const struct record *node = find_record(import, RECORD_NODE);
	struct oxp_options options = {};
	struct stream_sizes there;
	struct stream_node settings;
	int status;

	if (!sizes || !node)
		return cut_short(error);
	element_of(sizes, 0, &there, sizeof(there));
	element_of(node, 0, &settings, sizeof(settings));
	options.services_max = there.services_max;
	options.members_max = there.members_max;
	options.slots_max = there.slots_max;
	options.flows_max = there.flows_max;
	status = size_state(&options, config, error);
	if (status)
		return status;
	config->seed = there.seed;
	config->ticked = there.ticked;
	config->idle_timeout_max = there.idle_timeout_max;
	config->watched = there.watched;
	config->counted = there.counted;
	config->nat_addresses = there.nat_addresses;
	config->flags = settings.flags; /* the program depends on both */
	return 0;
}

static int fill_settings(struct oxp_node *node, const struct import *import,
			 char *error)
{
	const struct record *record = find_record(import, RECORD_NODE);
	struct oxp_node_settings settings = {};
	struct stream_node there;

	element_of(record, 0, &there, sizeof(there));
	memcpy(settings.source_v4.bytes, there.source_v4, 16);
	memcpy(settings.source_v6.bytes, there.source_v6, 16);
	settings.entropy_v4 = there.entropy_v4;
	settings.entropy_v6 = there.entropy_v6;
	settings.flags = there.flags;
	settings.icmp_rate = there.icmp_rate;
	return write_first_settings(node, &settings, error);
}

static int fill_uplinks(struct oxp_node *node, const struct import *import,
			char *error)
{
	const struct record *record = find_record(import, RECORD_UPLINKS);
	const struct record *chosen = find_record(import, RECORD_CHOICES);
	struct oxp_uplink uplinks[OXP_UPLINKS_MAX] = {};
	struct stream_choices there;
	struct oxp_choices choices;

	if (!record)
		return cut_short(error);
	if (record->head.count > OXP_UPLINKS_MAX)
		return failure(error, -E2BIG,
			       "the state has %llu uplinks, the limit is %d",
			       (unsigned long long)record->head.count,
			       OXP_UPLINKS_MAX);
	for (uint32_t i = 0; i < record->head.count; i++) {
		struct oxp_uplink *to = &uplinks[i];
		struct stream_uplink one;

		element_of(record, i, &one, sizeof(one));
		to->ifindex = one.ifindex;
		to->mtu = one.mtu;
		memcpy(to->own_mac, one.own_mac, 6);
		memcpy(to->next_hop_mac_v4, one.next_hop_mac_v4, 6);
		memcpy(to->next_hop_mac_v6, one.next_hop_mac_v6, 6);
		memcpy(to->vlan, one.vlan, sizeof(to->vlan));
		to->vlans = one.vlans;
	}
	if (chosen) {
		element_of(chosen, 0, &there, sizeof(there));
		memcpy(choices.v4, there.v4, sizeof(choices.v4));
		memcpy(choices.v6, there.v6, sizeof(choices.v6));
	}
	return write_first_uplinks(node, uplinks, record->head.count,
				   chosen ? &choices : NULL, error);
}

static int fill_services(struct oxp_node *node, const struct import *import,
			 char *error)
{
	uint64_t *taken =
		calloc(node->config->members_max / 64 + 1, sizeof(*taken));
	int status =
		taken ? 0 : failure(error, -ENOMEM, "cannot fill the tables");

	for (uint32_t i = 0; i < import->count && !status; i++)
		if (is_record(&import->records[i], RECORD_SERVICE))
			status = fill_service(node, import, i, taken, error);
	free(taken);
	return status;
}

int fill_node(struct oxp_node *node, const struct import *import, char *error)
{
	int status = fill_settings(node, import, error);

	if (!status)
		status = fill_uplinks(node, import, error);
	if (!status)
		status = fill_services(node, import, error);
	return status;
}
