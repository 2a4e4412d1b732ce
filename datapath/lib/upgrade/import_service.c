// SPDX-License-Identifier: Apache-2.0
/* Importing one service. */
#include "upgrade/import_service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "error.h"
#include "service/limit.h"
#include "service/set.h"
#include "service/validate.h"
#include "state.h"
#include "table/blocks.h"
#include "table/members.h"
#include "table/networks.h"
#include "table/quic_servers.h"
#include "table/slots.h"
#include "upgrade/reader.h"
#include "upgrade/stream.h"

struct parts {
	struct stream_service service;
	const struct record *members, *tunnels, *networks, *slots, *before,
		*changed, *ages;
};

static void find_parts(const struct import *import, uint32_t at,
		       struct parts *parts)
{
	*parts = (struct parts){};
	element_of(&import->records[at], 0, &parts->service,
		   sizeof(parts->service));
	while (++at < import->count) {
		const struct record *record = &import->records[at];

		if (is_record(record, RECORD_MEMBERS))
			parts->members = record;
		else if (is_record(record, RECORD_TUNNELS))
			parts->tunnels = record;
		else if (is_record(record, RECORD_NETWORKS))
			parts->networks = record;
		else if (is_record(record, RECORD_SLOTS))
			parts->slots = record;
		else if (is_record(record, RECORD_BEFORE))
			parts->before = record;
		else if (is_record(record, RECORD_CHANGED))
			parts->changed = record;
		else if (is_record(record, RECORD_AGES))
			parts->ages = record;
		else
			return;
	}
}

static int refuse(const struct parts *parts, const char *what, char *error)
{
	const struct stream_service *service = &parts->service;

	return failure(
		error, -EBADMSG, "the state of %s: %s",
		key_text(service->vip, htons(service->port), service->protocol),
		what);
}

static int check_parts(struct oxp_node *node, const struct parts *parts,
		       char *error)
{
	const struct stream_service *service = &parts->service;

	if (service->index >= node->config->services_max ||
	    entry_of(node, service->index)->state != ENTRY_FREE)
		return refuse(parts, "its index is not free", error);
	if (!parts->members || parts->members->head.count > OXP_MEMBERS_MAX)
		return refuse(parts, "no members, or too many", error);
	if (parts->tunnels &&
	    parts->tunnels->head.count != parts->members->head.count)
		return refuse(parts, "members without tunnels", error);
	if (!parts->slots || parts->slots->head.count != service->slots ||
	    parts->slots->head.element != sizeof(uint16_t))
		return refuse(parts, "no slots", error);
	if (parts->before && (!parts->before->head.count ||
			      parts->before->head.count > OXP_SLOTS_LIMIT ||
			      parts->before->head.element != sizeof(uint16_t)))
		return refuse(parts, "slots without owners before", error);
	if (parts->changed &&
	    (parts->changed->head.count != service->slots ||
	     parts->changed->head.element != sizeof(uint8_t) || !parts->before))
		return refuse(parts, "changed slots without owners before",
			      error);
	if (parts->ages && (parts->ages->head.count != service->slots ||
			    parts->ages->head.element != sizeof(uint8_t)))
		return refuse(parts, "slots without ages", error);
	return 0;
}

static void to_settings(const struct stream_service *service,
			struct oxp_service_settings *out)
{
	*out = (struct oxp_service_settings){
		.slots = service->slots,
		.flags = service->flags,
		.connection_limit = service->connection_limit,
		.encapsulation = service->encapsulation,
		.dscp = service->dscp,
		.sid_function = service->sid_function,
		.source_length_v4 = service->source_length_v4,
		.source_length_v6 = service->source_length_v6,
		.idle_timeout_s = service->idle_timeout_s,
		.new_flow_rate = service->new_flow_rate,
		.new_flow_burst = service->new_flow_burst,
		.nat_flows = service->nat_flows,
		.nat_group = service->nat_group,
	};
}

static uint16_t element_at(const struct record *record, uint32_t index)
{
	uint16_t element;

	memcpy(&element, record->data + index * sizeof(element),
	       sizeof(element));
	return element;
}

static void to_tunnel(const struct record *tunnels, uint32_t index,
		      struct oxp_tunnel *out)
{
	struct stream_tunnel one;

	element_of(tunnels, index, &one, sizeof(one));
	*out = (struct oxp_tunnel){.key = one.key,
				   .encapsulation = one.encapsulation,
				   .keeps_port = one.keeps_port,
				   .takes_alternative = one.takes_alternative};
	memcpy(out->address.bytes, one.address, sizeof(out->address.bytes));
}

static void to_members(const struct parts *parts, struct oxp_member *out)
{
	for (uint32_t i = 0; i < parts->members->head.count; i++) {
		struct stream_member one;

		element_of(parts->members, i, &one, sizeof(one));
		out[i] = (struct oxp_member){
			.check = one.check,
			.weight = one.weight,
			.mtu = one.mtu,
			.admin_up = one.admin_up,
			.backup = one.backup,
			.port = one.port,
		};
		memcpy(out[i].address.bytes, one.address, 16);
		if (parts->tunnels)
			to_tunnel(parts->tunnels, i, &out[i].tunnel);
	}
}

/* Put members at the places that slots and flows refer to. */
static int place(struct oxp_node *node, const struct parts *parts,
		 struct service_block *draft, uint64_t *taken, char *error)
{
	struct block_member from[OXP_MEMBERS_MAX];
	uint32_t count = parts->members->head.count;

	memcpy(from, draft->member, count * sizeof(*from));
	memset(draft->member, 0, sizeof(from));
	draft->members = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct block_member *member;
		struct stream_member one;

		element_of(parts->members, i, &one, sizeof(one));
		if (one.index >= OXP_MEMBERS_MAX ||
		    draft->member[one.index].flags)
			return refuse(parts, "two members at one place", error);
		if (one.counter >= node->config->members_max ||
		    taken[one.counter / 64] >> one.counter % 64 & 1)
			return refuse(parts, "two members with one counter",
				      error);
		taken[one.counter / 64] |= 1ULL << one.counter % 64;
		member = &draft->member[one.index];
		*member = from[i];
		member->counter = one.counter;
		if (one.healthy)
			member->flags |= MEMBER_HEALTHY;
		if (one.known)
			member->flags |= MEMBER_KNOWN;
		if (draft->members <= one.index)
			draft->members = one.index + 1;
	}
	draft->enabled = compute_flags(draft->member, draft->members);
	return 0;
}

static bool is_no_owner(uint16_t slot)
{
	return (slot >= OXP_MEMBERS_MAX) & (slot != SLOT_NOBODY);
}

/* Returns whether an element is invalid. Unknown members read as nobody. */
static bool fill_before(struct service_block *block,
			const struct record *before)
{
	bool bad = false;

	for (uint32_t i = 0; i < block->before_slots; i++) {
		uint16_t member = element_at(before, i) & SLOT_MEMBER;

		bad |= is_no_owner(member);
		write_element(block, before_of(block), i, member);
	}
	return bad;
}

/* Mark open slots and those in the record. Returns whether there are any. */
static bool mark_changed(const struct parts *parts, struct service_block *block)
{
	bool any = false;

	if (!(block->flags & OXP_SERVICE_SECOND_CHANCE))
		return false;
	memset(changed_of(block), 0, (block->slots + 7) / 8);
	for (uint32_t i = 0; i < block->slots; i++) {
		if (!slot_is_open(block, i) &&
		    !(parts->changed && parts->changed->data[i]))
			continue;
		mark_slot_changed(block, i);
		any = true;
	}
	return any;
}

static int fill_slots(const struct parts *parts, struct service_block *block,
		      char *error)
{
	bool bad = false, changed;
	uint32_t open = 0;

	memset(bitmap_of(block), 0, (block->slots + 7) / 8);
	for (uint32_t i = 0; i < block->slots; i++) {
		uint16_t slot = element_at(parts->slots, i);

		bad |= is_no_owner(slot & SLOT_MEMBER);
		write_element(block, slots_of(block), i, slot & SLOT_MEMBER);
		if (!(slot & SLOT_OPEN))
			continue;
		mark_slot_open(block, i);
		open++;
	}
	if (open && !parts->before)
		return refuse(parts, "open slots without owners before", error);
	/* counters are imported later, so they cannot tell yet */
	if (open)
		block->flags |= BLOCK_OPEN | BLOCK_USED;
	changed = mark_changed(parts, block);
	if (open || changed)
		bad |= fill_before(block, parts->before);
	if (bad)
		return refuse(parts, "a slot of no member", error);
	block->open = open < 65535 ? open : 65535;
	if (changed)
		block->flags |= BLOCK_CHANGED;
	return 0;
}

static int fill_networks(struct oxp_node *node, struct service_block *block,
			 const struct oxp_network *networks, uint32_t index,
			 char *error)
{
	if (!block->allowed_count)
		return 0;
	block->flags |= BLOCK_ALLOWED;
	return write_networks(node, index, NULL, networks, block, error);
}

static int fill_block(struct oxp_node *node, const struct parts *parts,
		      const struct service_block *draft,
		      const struct oxp_network *networks, char *error)
{
	const struct stream_service *service = &parts->service;
	uint32_t before_slots =
		parts->before ? parts->before->head.count : service->slots;
	struct service_block *block;
	int status;

	status = write_scratch(node, service->index, draft, NULL, before_slots,
			       &block, error);
	if (status)
		return status;
	block->generation = service->generation;
	block->watch = service->watch;
	set_connection_limit(node, service->index, service->connection_limit);
	if (service->is_learning) {
		block->flags |= BLOCK_LEARNING;
		block->learning = service->learning;
	}
	status = fill_slots(parts, block, error);
	if (!status)
		status = fill_networks(node, block, networks, service->index,
				       error);
	if (!status)
		status = write_quic_servers(node, service->index, NULL, block,
					    error);
	if (!status && parts->ages)
		memcpy(ages_of(node, block), parts->ages->data, service->slots);
	return status;
}

static int to_networks(const struct parts *parts, struct oxp_network **out,
		       char *error)
{
	uint32_t count = parts->networks ? parts->networks->head.count : 0;

	*out = calloc(count + 1, sizeof(**out));
	if (!*out)
		return failure(error, -ENOMEM, "cannot copy the networks");
	for (uint32_t i = 0; i < count; i++) {
		struct stream_network one;

		element_of(parts->networks, i, &one, sizeof(one));
		memcpy((*out)[i].address.bytes, one.address, 16);
		(*out)[i].length = one.length;
	}
	return 0;
}

/* Parse like a caller's request, so that the same checks apply. */
static int parse(struct oxp_node *node, const struct parts *parts,
		 struct service_block *draft, struct oxp_network **networks,
		 char *error)
{
	const struct stream_service *service = &parts->service;
	struct oxp_member members[OXP_MEMBERS_MAX];
	struct oxp_service_settings settings;
	struct oxp_network *there;
	struct oxp_wanted_service wanted = {
		.key = {.port = service->port, .protocol = service->protocol},
		.settings = &settings,
		.members = members,
		.count = parts->members->head.count,
	};
	int status = to_networks(parts, &there, error);

	if (status)
		return status;
	memcpy(wanted.key.vip.bytes, service->vip, 16);
	to_settings(service, &settings);
	to_members(parts, members);
	if (parts->networks) {
		settings.allowed = there;
		settings.allowed_count = parts->networks->head.count;
	}
	status = check_key(&wanted.key, error);
	if (!status)
		status = parse_wanted(node, &wanted, draft, error);
	if (!status)
		status = parse_allowed(&settings, networks,
				       &draft->allowed_count, error);
	free(there);
	return status;
}

int fill_service(struct oxp_node *node, const struct import *import,
		 uint32_t at, uint64_t *taken, char *error)
{
	struct oxp_network *networks = NULL;
	union draft draft;
	struct oxp_key key = {};
	struct parts parts;
	int status;

	find_parts(import, at, &parts);
	status = check_parts(node, &parts, error);
	if (!status)
		status = parse(node, &parts, &draft.block, &networks, error);
	if (!status)
		status = place(node, &parts, &draft.block, taken, error);
	if (!status) {
		memcpy(key.vip.bytes, parts.service.vip, 16);
		key.port = parts.service.port;
		key.protocol = parts.service.protocol;
		make_entry(node, parts.service.index, &key);
		status =
			fill_block(node, &parts, &draft.block, networks, error);
	}
	free(networks);
	return status ? status : publish(node, parts.service.index, error);
}

void refresh_ages(struct oxp_node *node, const struct import *import)
{
	struct parts parts;

	for (uint32_t i = 0; i < import->count; i++) {
		const struct service_block *block;
		uint8_t *ages;

		if (!is_record(&import->records[i], RECORD_SERVICE))
			continue;
		find_parts(import, i, &parts);
		if (!parts.ages ||
		    parts.ages->head.count != parts.service.slots ||
		    parts.ages->head.element != sizeof(uint8_t) ||
		    parts.service.index >= node->config->services_max)
			continue;
		block = live_block(node, parts.service.index);
		ages = ages_of(node, block);
		if (block->slots != parts.service.slots || !ages)
			continue;
		for (uint32_t j = 0; j < block->slots; j++)
			if (!parts.ages->data[j])
				__atomic_store_n(&ages[j], 0, __ATOMIC_RELAXED);
	}
}
