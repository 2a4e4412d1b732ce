// SPDX-License-Identifier: Apache-2.0
/*
 * How long the owners of unknown UDP flows are sought among the peers. Packets
 * compare this time with the clock, so no process has to end it.
 */
#include <errno.h>

#include "error.h"
#include "nat_table/flows.h"
#include "node/lock.h"
#include "state.h"

int oxp_nat_seek_udp(struct oxp_node *node, uint32_t seconds, char *error)
{
	int status;

	if (seconds > OXP_NAT_SEEK_UDP_MAX)
		return failure(error, -EINVAL,
			       "flows of UDP are to be sought for %u s: wanted "
			       "is %d at most",
			       seconds, OXP_NAT_SEEK_UDP_MAX);
	status = lock_node(node, error);
	if (status)
		return status;
	__atomic_store_n(&node->nat->seek_udp_until,
			 seconds ? nat_now() + seconds : 0, __ATOMIC_RELAXED);
	unlock_node(node);
	return 0;
}

int oxp_nat_seek_udp_left(struct oxp_node *node, uint32_t *seconds, char *error)
{
	int status = lock_node(node, error);
	uint32_t now = nat_now();

	if (status)
		return status;
	*seconds = node->nat->seek_udp_until > now
			   ? node->nat->seek_udp_until - now
			   : 0;
	unlock_node(node);
	return 0;
}
