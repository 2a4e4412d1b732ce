// SPDX-License-Identifier: Apache-2.0
/*
 * allowed_cidrs: sets of networks in two tries. A service has two sets, one
 * of which its live block names; a change of its networks fills the other one
 * before the switch. What a set had before is removed when it is filled again
 * or its service is deleted.
 *
 * The tries cannot be searched by set, so each process keeps a sorted copy of
 * them, good as long as config->allowed_changes stays.
 */
#include "table/networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "address.h"
#include "error.h"
#include "state.h"

static int by_network(const void *left, const void *right)
{
	const struct oxp_network *a = left, *b = right;
	int order = memcmp(a->address.bytes, b->address.bytes, 16);

	return order ? order : a->length - b->length;
}

static int by_set(const void *left, const void *right)
{
	const struct allowed *a = left, *b = right;

	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	return by_network(&a->network, &b->network);
}

static void mask_network(struct oxp_network *network)
{
	uint32_t bits =
		network->length + (is_v4(network->address.bytes) ? 96 : 0);

	for (uint32_t i = 0; i < 16; i++) {
		uint32_t keep = bits > 8 * i ? bits - 8 * i : 0;

		if (keep < 8)
			network->address.bytes[i] &= 0xff00 >> keep;
	}
}

int parse_allowed(const struct oxp_service_settings *settings,
		  struct oxp_network **out, uint32_t *count, char *error)
{
	struct oxp_network *networks;
	uint32_t kept = 0;

	*out = NULL;
	*count = 0;
	if (!settings || (!settings->allowed && !settings->allowed_count))
		return 0;
	if (!settings->allowed || !settings->allowed_count)
		return failure(error, -EINVAL,
			       "a list of %u allowed networks: NULL and 0 "
			       "allow everybody",
			       settings->allowed_count);
	networks = calloc(settings->allowed_count, sizeof(*networks));
	if (!networks)
		return failure(error, -ENOMEM, "cannot copy the networks");
	for (uint32_t i = 0; i < settings->allowed_count; i++) {
		const struct oxp_network *one = &settings->allowed[i];

		if (one->length > (is_v4(one->address.bytes) ? 32 : 128)) {
			free(networks);
			return failure(error, -EINVAL, "allowed network %s/%u",
				       address_text(one->address.bytes),
				       one->length);
		}
		/* no stray bytes of padding */
		networks[i].address = one->address;
		networks[i].length = one->length;
		mask_network(&networks[i]);
	}
	qsort(networks, settings->allowed_count, sizeof(*networks), by_network);
	for (uint32_t i = 0; i < settings->allowed_count; i++)
		if (!i || by_network(&networks[kept - 1], &networks[i]))
			networks[kept++] = networks[i];
	*out = networks;
	*count = kept;
	return 0;
}

/* Keys of both tries */
union key {
	struct allowed_v4 v4;
	struct allowed_v6 v6;
};

static int to_key(struct oxp_node *node, const struct allowed *one,
		  union key *out)
{
	memset(out, 0, sizeof(*out));
	out->v6.length = 32 + one->network.length;
	out->v6.set = htonl(one->set);
	if (is_v4(one->network.address.bytes)) {
		memcpy(&out->v4.address, one->network.address.bytes + 12, 4);
		return node->map[MAP_ALLOWED_V4];
	}
	memcpy(out->v6.address, one->network.address.bytes, 16);
	return node->map[MAP_ALLOWED_V6];
}

static struct allowed from_key(const union key *key, bool v4)
{
	struct allowed one = {
		.set = ntohl(key->v6.set),
		.network.length = key->v6.length - 32,
	};

	if (v4) {
		memcpy(one.network.address.bytes, v4_mapped, 12);
		memcpy(one.network.address.bytes + 12, &key->v4.address, 4);
	} else {
		memcpy(one.network.address.bytes, key->v6.address, 16);
	}
	return one;
}

static int make_room(struct oxp_node *node, uint32_t more)
{
	uint32_t room = node->allowed_room ? node->allowed_room : 64;
	struct allowed *again;

	while (room - node->allowed_count < more)
		room *= 2;
	if (room == node->allowed_room)
		return 0;
	again = realloc(node->allowed, room * sizeof(*again));
	if (!again)
		return -ENOMEM;
	node->allowed = again;
	node->allowed_room = room;
	return 0;
}

static int read_trie(struct oxp_node *node, int map, bool v4)
{
	union key key, next;
	bool more = !bpf_map_get_next_key(map, NULL, &next);

	while (more) {
		if (make_room(node, 1))
			return -ENOMEM;
		node->allowed[node->allowed_count++] = from_key(&next, v4);
		key = next;
		more = !bpf_map_get_next_key(map, &key, &next);
	}
	return 0;
}

static int derive_allowed(struct oxp_node *node, char *error)
{
	if (node->allowed_changes == node->config->allowed_changes)
		return 0;
	node->allowed_count = 0;
	node->allowed_changes = 0;
	if (read_trie(node, node->map[MAP_ALLOWED_V4], true) ||
	    read_trie(node, node->map[MAP_ALLOWED_V6], false))
		return failure(error, -ENOMEM, "cannot read the networks");
	qsort(node->allowed, node->allowed_count, sizeof(*node->allowed),
	      by_set);
	node->allowed_changes = node->config->allowed_changes;
	return 0;
}

/* Others have to read again; so do we, unless our copy follows. */
static void announce(struct oxp_node *node)
{
	uint64_t changes = node->config->allowed_changes + 1;

	node->allowed_changes = 0;
	__atomic_store_n(&node->config->allowed_changes, changes,
			 __ATOMIC_RELEASE);
}

/* First network of this set or a greater one. */
static uint32_t first_of(const struct oxp_node *node, uint32_t set)
{
	uint32_t low = 0, high = node->allowed_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (node->allowed[middle].set < set)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int read_allowed(struct oxp_node *node, uint32_t set,
		 const struct allowed **out, char *error)
{
	int status = derive_allowed(node, error);
	uint32_t first;

	if (status)
		return status;
	first = first_of(node, set);
	*out = node->allowed + first;
	return first_of(node, set + 1) - first;
}

static int erase(struct oxp_node *node, const struct allowed *one)
{
	union key key;
	int map = to_key(node, one, &key);

	return bpf_map_delete_elem(map, &key) && errno != ENOENT ? -errno : 0;
}

int write_allowed(struct oxp_node *node, uint32_t set,
		  const struct oxp_network *networks, uint32_t count,
		  char *error)
{
	int status = derive_allowed(node, error);
	uint32_t first, last;

	if (status)
		return status;
	first = first_of(node, set);
	last = first_of(node, set + 1);
	if (first == last && !count)
		return 0;
	if (make_room(node, count))
		return failure(error, -ENOMEM, "cannot write the networks");
	announce(node);
	for (uint32_t i = first; i < last && !status; i++)
		status = erase(node, &node->allowed[i]);
	memmove(node->allowed + first + count, node->allowed + last,
		(node->allowed_count - last) * sizeof(*node->allowed));
	node->allowed_count += count - (last - first);
	for (uint32_t i = 0; i < count && !status; i++) {
		struct allowed one = {set, networks[i]};
		__u32 value = 1;
		union key key;
		int map = to_key(node, &one, &key);

		node->allowed[first + i] = one;
		if (bpf_map_update_elem(map, &key, &value, BPF_ANY))
			status = -errno;
	}
	if (status)
		return failure(error, status,
			       "cannot write the allowed networks");
	node->allowed_changes = node->config->allowed_changes;
	return 0;
}

int count_allowed(struct oxp_node *node,
		  bool (*one)(struct oxp_node *node, uint32_t set), char *error)
{
	int status, count = 0;

	node->allowed_changes = 0; /* what the kernel has, not our copy */
	status = derive_allowed(node, error);
	if (status)
		return status;
	for (uint32_t i = 0; i < node->allowed_count; i++)
		count += one(node, node->allowed[i].set);
	return count;
}

int repair_allowed(struct oxp_node *node,
		   bool (*keep)(struct oxp_node *node, uint32_t set),
		   char *error)
{
	int status;

	announce(node);
	status = derive_allowed(node, error);
	if (status)
		return status;
	announce(node);
	for (uint32_t i = 0; i < node->allowed_count && !status; i++)
		if (!keep(node, node->allowed[i].set))
			status = erase(node, &node->allowed[i]);
	return status ? failure(error, status, "cannot repair the networks")
		      : 0;
}
