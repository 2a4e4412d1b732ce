// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes that pass NAT packets on to each other. Packets read one of two
 * lists. The library writes the other one once no packet can still read it, and
 * then switches to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "error.h"
#include "nat_table/addresses.h"
#include "nat_table/peers.h"
#include "node/lock.h"
#include "state.h"

static int check_peer(const struct oxp_node *node,
		      const struct oxp_address *peers, uint32_t place,
		      uint32_t *own, char *error)
{
	const uint8_t *bytes = peers[place].bytes;
	bool v4 = is_v4(bytes);

	if (is_zero(bytes) ||
	    (v4 ? bytes[12] >= 224 || bytes[12] == 127 : bytes[0] == 0xff))
		return failure(error, -EINVAL, "%s cannot be a peer's address",
			       address_text(bytes));
	if (v4 != is_v4(peers[0].bytes))
		return failure(error, -EAFNOSUPPORT,
			       "peer %s is not of the first one's family",
			       address_text(bytes));
	for (uint32_t i = 0; i < place; i++)
		if (!memcmp(bytes, peers[i].bytes, sizeof(peers[i].bytes)))
			return failure(error, -EEXIST, "peer %s is there twice",
				       address_text(bytes));
	if (find_pool_address(node, bytes) >= 0 && (*own)++)
		return failure(error, -EINVAL,
			       "peer %s is the second one of this node's own "
			       "pools: wanted is one address of each node",
			       address_text(bytes));
	return 0;
}

static int check_peers(const struct oxp_node *node,
		       const struct oxp_address *peers, uint32_t count,
		       char *error)
{
	uint32_t own = 0;
	int status = 0;

	if (count > OXP_NAT_PEERS_MAX)
		return failure(
			error, -ENOSPC,
			"%u peers are more than the %d that there may be",
			count, OXP_NAT_PEERS_MAX);
	for (uint32_t i = 0; i < count && !status; i++)
		status = check_peer(node, peers, i, &own, error);
	if (!status && count && !own)
		status = failure(error, -ENOENT,
				 "none of the peers is an address of this "
				 "node's pools, by which the others know it");
	return status;
}

static int replace_list(struct oxp_node *node, const struct oxp_address *peers,
			uint32_t count, char *error)
{
	uint32_t live = node->nat->live_peers & 1;
	struct nat_peer_list *list = &node->nat->peer_list[!live];
	__u64 switched;
	int status;

	mark_switched(node, &switched);
	status = grace_period(node, error);
	if (status)
		return status;
	memset(list, 0, sizeof(*list));
	for (uint32_t i = 0; i < count; i++)
		memcpy(list->address[i], peers[i].bytes,
		       sizeof(list->address[i]));
	list->count = count;
	list->own = own_place(node, list);
	__atomic_store_n(&node->nat->live_peers, !live, __ATOMIC_RELEASE);
	return 0;
}

static bool is_as_wanted(struct oxp_node *node, const struct oxp_address *peers,
			 uint32_t count)
{
	const struct nat_peer_list *list = live_peers(node);

	return list->count == count &&
	       (!count ||
		!memcmp(list->address, peers, count * sizeof(*peers)));
}

int oxp_nat_peers_set(struct oxp_node *node, const struct oxp_address *peers,
		      uint32_t count, char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	status = check_peers(node, peers, count, error);
	if (!status && !is_as_wanted(node, peers, count))
		status = replace_list(node, peers, count, error);
	unlock_node(node);
	return status;
}

int oxp_nat_peers_list(struct oxp_node *node, struct oxp_address *out,
		       uint32_t capacity, char *error)
{
	const struct nat_peer_list *list;
	int status = lock_node(node, error);

	if (status)
		return status;
	list = live_peers(node);
	for (uint32_t i = 0; i < list->count && i < capacity; i++)
		memcpy(out[i].bytes, list->address[i], sizeof(out[i].bytes));
	status = list->count;
	unlock_node(node);
	return status;
}
