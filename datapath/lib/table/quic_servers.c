// SPDX-License-Identifier: Apache-2.0
/*
 * Server IDs of QUIC services' members. The map follows the live block; a
 * change marks the node dirty, so that it is restored after a process has died.
 * Entries that are outdated for a moment are harmless: packets check the
 * member's flags.
 */
#include "table/quic_servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "address.h"
#include "error.h"
#include "state.h"
#include "table/blocks.h"
#include "table/members.h"

static uint32_t crc_with(uint32_t crc, uint8_t byte)
{
	crc ^= byte;
	for (int bit = 0; bit < 8; bit++)
		crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	return crc;
}

uint32_t quic_server_id(const struct oxp_address *member, uint16_t port)
{
	uint32_t crc = UINT32_MAX;

	for (int i = 0; i < 16; i++)
		crc = crc_with(crc, member->bytes[i]);
	if (port)
		crc = crc_with(crc_with(crc, port >> 8), port);
	return ~crc;
}

static uint32_t id_of(const struct block_member *member, uint16_t port)
{
	struct oxp_address address;

	memcpy(address.bytes, member->address, sizeof(address.bytes));
	return quic_server_id(&address, port);
}

struct server {
	uint32_t id;
	uint16_t member;
};

static int by_id(const void *left, const void *right)
{
	const struct server *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

/* Sorted by ID. Returns 0 if the service has none. */
static uint32_t servers_of(const struct service_block *block,
			   struct server *out)
{
	uint16_t sorted[OXP_MEMBERS_MAX];
	uint32_t count;

	if (!block || !(block->flags & OXP_SERVICE_QUIC))
		return 0;
	count = sorted_members(block, sorted);
	for (uint32_t i = 0; i < count; i++)
		out[i] = (struct server){id_of(&block->member[sorted[i]],
					       name_port(block, sorted, i)),
					 sorted[i]};
	qsort(out, count, sizeof(*out), by_id);
	return count;
}

int check_quic_servers(const struct service_block *draft, char *error)
{
	struct server server[OXP_MEMBERS_MAX];
	uint32_t count = servers_of(draft, server);

	for (uint32_t i = 1; i < count; i++) {
		char first[64];

		if (server[i - 1].id != server[i].id)
			continue;
		strncpy(first,
			address_text(
				draft->member[server[i - 1].member].address),
			sizeof(first) - 1);
		first[sizeof(first) - 1] = '\0';
		return failure(
			error, -EEXIST,
			"members %s and %s have the same QUIC server ID "
			"%08x: one of them needs another address",
			first,
			address_text(draft->member[server[i].member].address),
			server[i].id);
	}
	return 0;
}

bool quic_servers_differ(const struct service_block *old,
			 const struct service_block *next)
{
	struct server a[OXP_MEMBERS_MAX], b[OXP_MEMBERS_MAX];
	uint32_t count = servers_of(old, a);

	if (count != servers_of(next, b))
		return true;
	for (uint32_t i = 0; i < count; i++)
		if (a[i].id != b[i].id || a[i].member != b[i].member)
			return true;
	return false;
}

static bool has_id(const struct server *server, uint32_t count, uint32_t id)
{
	struct server key = {.id = id};

	return bsearch(&key, server, count, sizeof(*server), by_id);
}

/* Removes old IDs first: the map has room only for members_max. */
int write_quic_servers(struct oxp_node *node, uint32_t index,
		       const struct service_block *old,
		       const struct service_block *next, char *error)
{
	struct server a[OXP_MEMBERS_MAX], b[OXP_MEMBERS_MAX];
	uint32_t gone = servers_of(old, a), count = servers_of(next, b);
	int map = node->map[MAP_QUIC_SERVERS];

	for (uint32_t i = 0; i < gone; i++) {
		struct quic_key key = {index, htonl(a[i].id)};

		if (!has_id(b, count, a[i].id) &&
		    bpf_map_delete_elem(map, &key) && errno != ENOENT)
			return failure(error, -errno,
				       "cannot remove a QUIC server");
	}
	for (uint32_t i = 0; i < count; i++) {
		struct quic_key key = {index, htonl(b[i].id)};
		__u32 member = b[i].member;

		if (bpf_map_update_elem(map, &key, &member, BPF_ANY))
			return failure(error, -errno,
				       "cannot enter a QUIC server");
	}
	return 0;
}

bool quic_servers_right(struct oxp_node *node, uint32_t index, uint32_t *count)
{
	struct server server[OXP_MEMBERS_MAX];
	uint32_t wanted = servers_of(live_block(node, index), server);

	*count += wanted;
	for (uint32_t i = 0; i < wanted; i++) {
		struct quic_key key = {index, htonl(server[i].id)};
		__u32 member;

		if (bpf_map_lookup_elem(node->map[MAP_QUIC_SERVERS], &key,
					&member) ||
		    member != server[i].member)
			return false;
	}
	return true;
}

static bool is_wanted(struct oxp_node *node, const struct quic_key *key)
{
	struct server server[OXP_MEMBERS_MAX];

	return key->service < node->config->services_max &&
	       entry_of(node, key->service)->state == ENTRY_USED &&
	       has_id(server,
		      servers_of(live_block(node, key->service), server),
		      ntohl(key->server_id));
}

/* Entries and lookup tables must have been repaired. */
int repair_quic_servers(struct oxp_node *node, char *error)
{
	int map = node->map[MAP_QUIC_SERVERS], status = 0;
	struct quic_key key, next;
	bool more = !bpf_map_get_next_key(map, NULL, &next);

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(map, &key, &next);
		if (!is_wanted(node, &key))
			bpf_map_delete_elem(map, &key);
	}
	for (uint32_t i = 0; i < node->config->services_max && !status; i++)
		if (entry_of(node, i)->state == ENTRY_USED)
			status = write_quic_servers(node, i, NULL,
						    live_block(node, i), error);
	return status;
}
