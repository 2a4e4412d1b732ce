// SPDX-License-Identifier: Apache-2.0
/* Verifying everything that is derived by computing it again. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"
#include "nat_table/addresses.h"
#include "node/lock.h"
#include "service/validate.h"
#include "state.h"
#include "table/blocks.h"
#include "table/heads.h"
#include "table/lookup.h"
#include "table/maglev.h"
#include "table/members.h"
#include "table/networks.h"
#include "table/quic_servers.h"
#include "table/rebuild.h"
#include "table/segments.h"
#include "table/slots.h"
#include "table/vips.h"

static bool keeps_flows(const struct service_block *block, uint16_t member)
{
	return member < block->members &&
	       block->member[member].flags & MEMBER_KEEPS_FLOWS;
}

static bool leads_to_nobody(const struct service_block *block, uint32_t slot)
{
	uint16_t before = before_at(block, slot);

	return is_damaged(block, before_of(block), slot) ||
	       (before != SLOT_NOBODY && !keeps_flows(block, before));
}

static const char *find_fault_in_slots(struct service_block *block,
				       uint16_t *owners)
{
	uint32_t open = 0;

	if (compute_owners(block, owners))
		return "there is no memory to compute its table";
	for (uint32_t i = 0; i < block->slots; i++) {
		if (owner_at(block, i) != owners[i])
			return "its table is not the one of its members";
		if (!slot_is_open(block, i))
			continue;
		if (block->flags & OXP_SERVICE_SECOND_CHANCE &&
		    !slot_is_changed(block, i))
			return "an open slot is not a changed one";
		open++;
		if (block->before_slots == block->slots &&
		    leads_to_nobody(block, i))
			return "an open slot leads to nobody";
	}
	for (uint32_t i = 0; open && block->before_slots != block->slots &&
			     i < block->before_slots;
	     i++)
		if (leads_to_nobody(block, i))
			return "an open slot leads to nobody";
	/* an interrupted tick leaves a number that is too high */
	if (open > block->open && block->open != 65535)
		return "it has more open slots than it says";
	return NULL;
}

/* Derived values, and bits of what was seen already. */
struct check {
	uint16_t *owners;   /* by slot, of the current service */
	uint64_t *counters; /* of members, seen so far */
	uint32_t quic;      /* number of servers seen */
	uint64_t *lines;    /* of segments, seen so far */
	uint64_t lines_count;
};

/* Packets follow `outer` and outer_type, not the address from which tables are
 * computed. */
static bool outer_is_right(const struct service_block *block,
			   const uint8_t *vip,
			   const struct block_member *member)
{
	bool nat = block->flags & OXP_SERVICE_NAT;
	const struct oxp_service_settings settings = {
		.encapsulation = block->encapsulation,
		.flags = block->flags & OXP_SERVICE_NAT,
		.dscp = nat ? 0 : block->dscp,
		.sid_function = nat ? 0 : ntohs(block->sid_function),
	};
	struct oxp_address to, address;
	struct oxp_tunnel tunnel;
	struct block_member again;

	memcpy(to.bytes, vip, sizeof(to.bytes));
	memcpy(address.bytes, member->address, sizeof(address.bytes));
	tunnel_of(member, &tunnel);
	return !parse_target(&settings, &to, &address, ntohs(member->port),
			     &tunnel, &again, NULL) &&
	       again.outer_type == member->outer_type &&
	       again.key == member->key &&
	       !memcmp(again.outer, member->outer, sizeof(again.outer));
}

/* Members with the same counter would count each other's packets. */
static bool counter_is_right(struct oxp_node *node, uint32_t counter,
			     uint64_t *met)
{
	uint64_t bit = 1ULL << counter % 64;

	if (counter >= node->config->members_max || met[counter / 64] & bit)
		return false;
	met[counter / 64] |= bit;
	return true;
}

static const char *find_fault_in_ways(struct oxp_node *node,
				      const struct service_block *block,
				      const uint8_t *vip, uint64_t *counters)
{
	for (uint32_t i = 0; i < block->members; i++) {
		const struct block_member *member = &block->member[i];

		if (!(member->flags & MEMBER_PRESENT))
			continue;
		if (!outer_is_right(block, vip, member))
			return "its packets do not go to its members";
		if (!counter_is_right(node, member->counter, counters))
			return "a counter of its members is another one's, "
			       "too";
	}
	for (uint32_t i = 0; i < block->members; i++)
		if (!head_is_right(block, i))
			return "packets read something else than its members";
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

/* The number of networks must be as set, and packets must find them. Which
 * networks were set is stored nowhere else. */
static const char *find_fault_in_networks(struct oxp_node *node,
					  const struct service_block *block)
{
	return networks_are_right(node, block)
		       ? NULL
		       : "its allowed networks are not those it was given";
}

static bool are_taken(struct check *check, uint32_t first, uint32_t count)
{
	for (uint64_t i = first; i < (uint64_t)first + count; i++) {
		uint64_t bit = 1ULL << i % 64;

		if (i >= check->lines_count || check->lines[i / 64] & bit)
			return true;
		check->lines[i / 64] |= bit;
	}
	return false;
}

static bool find_fault_in_lines(const struct service_entry *entry,
				uint32_t live, struct check *check)
{
	bool taken = !live;

	for (int i = 0; i < 2; i++) {
		if (entry->block[i])
			taken |= are_taken(check, entry->block[i],
					   entry->block_lines[i]);
		if (entry->ages[i])
			taken |= are_taken(check, entry->ages[i],
					   entry->ages_lines[i]);
		if (entry->networks[i])
			taken |= are_taken(check, entry->networks[i],
					   entry->networks_lines[i]);
	}
	return taken;
}

/* Whether the block's contents fit into its lines. */
static bool fits(struct oxp_node *node, uint32_t index,
		 const struct service_block *block)
{
	const struct service_entry *entry = entry_of(node, index);
	int which = live_line(node, index) != entry->block[0];
	uint32_t before = block->flags & (BLOCK_OPEN | BLOCK_CHANGED)
				  ? block->before_slots
				  : 0;

	return block->service == index &&
	       block->slot_line == LINES_BEFORE_SLOTS(block->members) &&
	       block->slot_width == (block->members > NARROW_PLACES ? 2 : 1) &&
	       before <= OXP_SLOTS_LIMIT &&
	       lines_of_block(block->slots, block->members, before,
			      block->flags & BLOCK_CHANGED) <=
		       entry->block_lines[which] &&
	       (block->ages == entry->ages[0] ||
		block->ages == entry->ages[1]) &&
	       at_line(node, block->ages);
}

/* Returns what is wrong with a service, or NULL. */
static const char *find_fault(struct oxp_node *node, uint32_t index,
			      struct check *check)
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
	if (place < 0 ||
	    *lookup_value(node, vip.v6, place) != entry->vip_index ||
	    entry->vip_index >= node->config->services_max ||
	    memcmp(node->vips[entry->vip_index].address, entry->vip,
		   sizeof(entry->vip)))
		return "its VIP is not known";
	if (find_fault_in_lines(entry, live_line(node, index), check))
		return "its tables' memory is another one's, too";
	block = live_block(node, index);
	if (block->slots > node->config->slots_max || !is_prime(block->slots) ||
	    !fits(node, index, block))
		return "its table has an impossible size";
	fault = find_fault_in_members(block);
	if (!fault)
		fault = find_fault_in_ways(node, block, entry->vip,
					   check->counters);
	if (!fault)
		fault = find_fault_in_slots(block, check->owners);
	if (!fault && !quic_servers_right(node, index, &check->quic))
		fault = "its QUIC servers are not those of its members";
	if (!fault)
		fault = find_fault_in_networks(node, block);
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
	struct vip_entry *wanted = count_vips(node, NULL);
	const char *fault = NULL;

	if (!wanted)
		return "no memory to count the VIPs";
	for (uint32_t i = 0; i < max; i++) {
		const struct vip_entry *vip = &node->vips[i];

		*vips += !!wanted[i].services;
		if (vip->services != wanted[i].services)
			fault = "a VIP has another number of services";
		else if (vip->fragment_port_tcp !=
				 wanted[i].fragment_port_tcp ||
			 vip->fragment_port_udp !=
				 wanted[i].fragment_port_udp ||
			 vip->fragment_port_sctp !=
				 wanted[i].fragment_port_sctp)
			fault = "fragments to a VIP go to another port than "
				"its lowest";
	}
	free(wanted);
	return fault;
}

/* Find faults that concern no single service. */
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
	if (keys != services + vips + count_pool_addresses(node))
		return "the lookup tables have keys of nobody";
	return count_keys(node->map[MAP_QUIC_SERVERS]) != quic
		       ? "there are QUIC servers of nobody"
		       : NULL;
}

struct faults {
	struct oxp_fault *out;
	uint32_t capacity;
	uint32_t count;
};

/* `entry`: the service concerned, or NULL. */
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

static void verify(struct oxp_node *node, struct check *check,
		   struct faults *faults)
{
	uint32_t services = 0;
	const char *fault;

	FOR_EACH_SERVICE(node, i) {
		services++;
		fault = find_fault(node, i, check);
		if (fault)
			add_fault(faults, entry_of(node, i), fault);
	}
	/* a common fault may only be a consequence of the others */
	fault = faults->count ? NULL
			      : find_common_fault(node, services, check->quic);
	if (fault)
		add_fault(faults, NULL, fault);
}

int oxp_faults_list(struct oxp_node *node, struct oxp_fault *out,
		    uint32_t capacity, char *error)
{
	struct check check = {
		.owners =
			calloc(node->config->slots_max, sizeof(*check.owners)),
		.counters = calloc(node->config->members_max / 64 + 1,
				   sizeof(*check.counters)),
		.lines_count = (uint64_t)SEGMENTS_MAX * SEGMENT_LINES,
		.lines = calloc((uint64_t)SEGMENTS_MAX * SEGMENT_LINES / 64,
				sizeof(*check.lines)),
	};
	struct faults faults = {out, capacity, 0};
	int status = -ENOMEM;

	if (check.owners && check.counters && check.lines)
		status = lock_node(node, error);
	else
		failure(error, status, "cannot verify");
	if (!status) {
		verify(node, &check, &faults);
		unlock_node(node);
	}
	free(check.lines);
	free(check.counters);
	free(check.owners);
	return status ? status : (int)faults.count;
}
