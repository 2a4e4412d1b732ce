// SPDX-License-Identifier: Apache-2.0
/* Exporting the state as a stream (stream.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "node/lock.h"
#include "node/settings.h"
#include "node/uplinks.h"
#include "service/limit.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/members.h"
#include "table/networks.h"
#include "upgrade/export_packets.h"
#include "upgrade/export_slots.h"
#include "upgrade/stream.h"
#include "upgrade/writer.h"

static void write_sizes(struct writer *writer)
{
	const struct node_config *config = writer->node->config;
	struct stream_sizes sizes = {
		.services_max = config->services_max,
		.members_max = config->members_max,
		.slots_max = config->slots_max,
		.flows_max = config->flows_max,
		.seed = config->seed,
		.ticked = config->ticked,
		.idle_timeout_max = config->idle_timeout_max,
		.watched = config->watched,
		.counted = config->counted,
		.nat_addresses = config->nat_addresses,
	};

	begin_record(writer, RECORD_SIZES, STREAM_MANDATORY, sizeof(sizes), 1);
	put_elements(writer, &sizes, sizeof(sizes));
}

static void write_node(struct writer *writer)
{
	struct oxp_node_settings settings;
	struct stream_node out = {};

	read_node_settings(writer->node, &settings);
	memcpy(out.source_v4, settings.source_v4.bytes, 16);
	memcpy(out.source_v6, settings.source_v6.bytes, 16);
	out.entropy_v4 = settings.entropy_v4;
	out.entropy_v6 = settings.entropy_v6;
	out.flags = settings.flags;
	out.icmp_rate = settings.icmp_rate;
	begin_record(writer, RECORD_NODE, STREAM_MANDATORY, sizeof(out), 1);
	put_elements(writer, &out, sizeof(out));
}

static void write_uplinks(struct writer *writer)
{
	struct oxp_uplink uplinks[OXP_UPLINKS_MAX];
	struct oxp_choices choices;
	struct stream_choices out;
	uint32_t count =
		read_uplinks(writer->node, uplinks, OXP_UPLINKS_MAX, &choices);

	begin_record(writer, RECORD_UPLINKS, STREAM_MANDATORY,
		     sizeof(struct stream_uplink), count);
	for (uint32_t i = 0; i < count; i++) {
		const struct oxp_uplink *from = &uplinks[i];
		struct stream_uplink one = {
			.ifindex = from->ifindex,
			.mtu = from->mtu,
			.vlan = {from->vlan[0], from->vlan[1]},
			.vlans = from->vlans,
		};

		memcpy(one.own_mac, from->own_mac, 6);
		memcpy(one.next_hop_mac_v4, from->next_hop_mac_v4, 6);
		memcpy(one.next_hop_mac_v6, from->next_hop_mac_v6, 6);
		put_elements(writer, &one, sizeof(one));
	}
	memcpy(out.v4, choices.v4, sizeof(out.v4));
	memcpy(out.v6, choices.v6, sizeof(out.v6));
	begin_record(writer, RECORD_CHOICES, 0, sizeof(out), 1);
	put_elements(writer, &out, sizeof(out));
}

static void write_format(struct writer *writer, const char *name,
			 uint32_t format)
{
	struct stream_format one = {.format = format};

	memcpy(one.name, name, strlen(name));
	put_elements(writer, &one, sizeof(one));
}

static void write_formats(struct writer *writer)
{
	uint32_t formats = 0;

	for (int i = 0; i < MAPS; i++)
		formats += !!map_formats[i];
	begin_record(writer, RECORD_FORMATS, 0, sizeof(struct stream_format),
		     formats + 1);
	for (int i = 0; i < MAPS; i++)
		if (map_formats[i])
			write_format(writer, map_names[i], map_formats[i]);
	write_format(writer, "flow names", FORMAT_FLOW_NAMES);
}

static struct stream_counters counters_of(const struct oxp_counters *from)
{
	return (struct stream_counters){from->packets, from->bytes,
					from->flows};
}

static void write_service(struct writer *writer, uint32_t index,
			  const struct service_block *block)
{
	const struct service_entry *entry = entry_of(writer->node, index);
	const uint32_t flags = OXP_SERVICE_SOURCE | OXP_SERVICE_QUIC |
			       OXP_SERVICE_SECOND_CHANCE | OXP_SERVICE_RESET |
			       OXP_SERVICE_NAT;
	bool source = block->flags & OXP_SERVICE_SOURCE;
	bool nat = block->flags & OXP_SERVICE_NAT;
	struct service_counts counts;
	struct stream_service out = {
		.port = ntohs(entry->port),
		.protocol = entry->protocol,
		.encapsulation = block->encapsulation,
		.index = index,
		.slots = block->slots,
		.flags = block->flags & flags,
		.connection_limit = connection_limit(writer->node, index),
		.generation = block->generation,
		.dscp = nat ? 0 : block->dscp,
		.source_length_v4 = source ? block->source_length_v4 : 0,
		.source_length_v6 = source ? block->source_length_v6 : 0,
		.is_learning = !!(block->flags & BLOCK_LEARNING),
		.sid_function = nat ? 0 : ntohs(block->sid_function),
		.idle_timeout_s = block->idle_timeout_s,
		.new_flow_rate = block->new_flow_rate,
		.new_flow_burst = block->new_flow_burst,
		.learning = block->learning,
		.watch = block->watch,
		.nat_flows = nat ? block->nat_flows * NAT_FLOWS_UNIT : 0,
		.nat_group = nat ? block->nat_group : 0,
	};

	read_service_counts(writer->node, index, &counts);
	out.counters = counters_of(&counts.counters);
	out.drops = counts.drops;
	out.flow_table_full = counts.flow_table_full;
	memcpy(out.vip, entry->vip, sizeof(out.vip));
	begin_record(writer, RECORD_SERVICE, STREAM_MANDATORY, sizeof(out), 1);
	put_elements(writer, &out, sizeof(out));
}

static void write_member(struct writer *writer, uint32_t index,
			 const struct block_member *member)
{
	struct oxp_counters counters;
	struct stream_member out = {
		.check = member->check,
		.index = index,
		.weight = member->weight,
		.mtu = member->mtu,
		.admin_up = !!(member->flags & MEMBER_ADMIN_UP),
		.backup = !!(member->flags & MEMBER_BACKUP),
		.healthy = !!(member->flags & MEMBER_HEALTHY),
		.known = !!(member->flags & MEMBER_KNOWN),
		.port = ntohs(member->port),
		.counter = member->counter,
	};

	if (member->counter >= writer->node->config->members_max)
		writer->status = -ERANGE;
	read_member_counters(writer->node, member->counter, &counters);
	out.counters = counters_of(&counters);
	memcpy(out.address, member->address, sizeof(out.address));
	put_elements(writer, &out, sizeof(out));
}

static void write_members(struct writer *writer,
			  const struct service_block *block)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < block->members; i++)
		count += !!(block->member[i].flags & MEMBER_PRESENT);
	begin_record(writer, RECORD_MEMBERS, STREAM_MANDATORY,
		     sizeof(struct stream_member), count);
	for (uint32_t i = 0; i < block->members; i++)
		if (block->member[i].flags & MEMBER_PRESENT)
			write_member(writer, i, &block->member[i]);
}

static void write_tunnels(struct writer *writer,
			  const struct service_block *block)
{
	uint32_t count = 0, tunnels = 0;

	for (uint32_t i = 0; i < block->members; i++) {
		count += !!(block->member[i].flags & MEMBER_PRESENT);
		tunnels += !!block->member[i].tunnel;
	}
	if (!tunnels)
		return;
	begin_record(writer, RECORD_TUNNELS, STREAM_MANDATORY,
		     sizeof(struct stream_tunnel), count);
	for (uint32_t i = 0; i < block->members; i++) {
		struct stream_tunnel one = {};
		struct oxp_tunnel tunnel;

		if (!(block->member[i].flags & MEMBER_PRESENT))
			continue;
		tunnel_of(&block->member[i], &tunnel);
		memcpy(one.address, tunnel.address.bytes, sizeof(one.address));
		one.key = tunnel.key;
		one.encapsulation = tunnel.encapsulation;
		one.keeps_port = tunnel.keeps_port;
		one.takes_alternative = tunnel.takes_alternative;
		put_elements(writer, &one, sizeof(one));
	}
}

static void export_networks(struct writer *writer,
			    const struct service_block *block)
{
	const struct oxp_network *allowed;
	uint32_t count;

	if (!(block->flags & BLOCK_ALLOWED))
		return;
	allowed = networks_of(writer->node, block, &count);
	if (count != block->allowed_count) {
		writer->status = -EUCLEAN; /* damaged: do not allow everybody */
		return;
	}
	begin_record(writer, RECORD_NETWORKS, STREAM_MANDATORY,
		     sizeof(struct stream_network), count);
	for (uint32_t i = 0; i < count; i++) {
		struct stream_network one = {
			.length = allowed[i].length,
		};

		memcpy(one.address, allowed[i].address.bytes,
		       sizeof(one.address));
		put_elements(writer, &one, sizeof(one));
	}
}

/* Write services completely, or only their counters and ages. */
static void write_services(struct writer *writer, bool whole)
{
	struct oxp_node *node = writer->node;

	for (uint32_t i = 0; i < node->config->services_max && !writer->status;
	     i++) {
		const struct service_block *block;

		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		block = live_block(node, i);
		write_service(writer, i, block);
		write_members(writer, block);
		if (whole) {
			write_tunnels(writer, block);
			export_networks(writer, block);
			write_slots(writer, block);
		}
		if (block->flags & BLOCK_OPEN)
			write_ages(writer, block);
	}
}

static void write_end(struct writer *writer)
{
	struct stream_end end = {.records = writer->records};

	begin_record(writer, RECORD_END, STREAM_MANDATORY, sizeof(end), 1);
	put_elements(writer, &end, sizeof(end));
}

static int export(struct oxp_node *node, FILE *file, enum oxp_part part)
{
	struct writer writer = {.node = node, .file = file};

	put_elements(&writer, STREAM_MAGIC, sizeof(STREAM_MAGIC));
	if (part == OXP_PART_ALL) {
		write_sizes(&writer);
		write_node(&writer);
		write_uplinks(&writer);
	}
	write_formats(&writer);
	if (part != OXP_PART_FLOWS)
		write_outcomes(&writer);
	if (part != OXP_PART_FLOWS && !writer.status)
		write_services(&writer, part == OXP_PART_ALL);
	if (part != OXP_PART_COUNTERS && !writer.status)
		write_flows(&writer);
	write_end(&writer);
	return writer.status;
}

int oxp_export_part(struct oxp_node *node, int fd, enum oxp_part part,
		    char *error)
{
	int copy = dup(fd), status = 0;
	FILE *file = copy < 0 ? NULL : fdopen(copy, "w");

	if (!file) {
		status = failure(error, -errno, "cannot write the state");
		if (copy >= 0)
			close(copy);
		return status;
	}
	if (!node->handing_over)
		status = lock_node(node, error);
	if (!status) {
		status = export(node, file, part);
		if (!node->handing_over)
			unlock_node(node);
		if (status)
			failure(error, status, "cannot read the state");
	}
	errno = 0;
	if ((ferror(file) | fclose(file)) && !status)
		status = failure(error, errno ? -errno : -EIO,
				 "cannot write the state");
	return status;
}

int oxp_export(struct oxp_node *node, int fd, char *error)
{
	return oxp_export_part(node, fd, OXP_PART_ALL, error);
}
