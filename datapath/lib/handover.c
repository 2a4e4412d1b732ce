// SPDX-License-Identifier: Apache-2.0
/* The side that hands over: what another library calls in this one. */
#include <errno.h>
#include <unistd.h>

#include "internal.h"

const struct packet_map packet_maps[PACKET_MAPS] = {
	{MAP_AGES, "ages", FORMAT_AGES},
	{MAP_FLOWS, "flows", FORMAT_FLOWS},
	{MAP_FRAGMENTS, "fragments", FORMAT_FRAGMENTS},
	{MAP_SOURCES, "sources", FORMAT_SOURCES},
	{MAP_ICMP_BUDGET, "icmp_budget", FORMAT_ICMP_BUDGET},
	{MAP_SERVICE_COUNTERS, "service_counters", FORMAT_COUNTERS},
	{MAP_MEMBER_COUNTERS, "member_counters", FORMAT_COUNTERS},
	{MAP_OUTCOMES, "outcomes", FORMAT_OUTCOMES},
};

int oxp_handover_begin(struct oxp_node *node, int *lock_file, char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	/* from here on whoever comes after a death mends */
	begin_change(node, true);
	node->handing_over = true;
	*lock_file = node->lock_fd;
	return 0;
}

int oxp_handover_end(struct oxp_node *node, uint8_t taken, char *error)
{
	int status = 0;

	if (!node->handing_over)
		return failure(error, -EINVAL, "no handover has begun");
	node->handing_over = false;
	if (taken)
		__atomic_store_n(&node->config->layout, 0, __ATOMIC_RELEASE);
	else
		status = mend(node, error);
	unlock_node(node);
	return status;
}
