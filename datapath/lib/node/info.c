// SPDX-License-Identifier: Apache-2.0
/* Sizes of the state, and how much of it is in use. */
#include "node/info.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/lock.h"
#include "state.h"
#include "table/blocks.h"

uint64_t bytes_of_map(int map)
{
	char path[40], line[128];
	uint64_t bytes = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", map);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "memlock:", 8))
			bytes = strtoull(line + 8, NULL, 10);
	if (file)
		fclose(file);
	return bytes;
}

int oxp_info_get(struct oxp_node *node, struct oxp_info *info, char *error)
{
	const struct node_config *config = node->config;
	int status = lock_node(node, error);

	if (status)
		return status;
	*info = (struct oxp_info){
		.layout = config->layout,
		.services_max = config->services_max,
		.members_max = config->members_max,
		.slots_max = config->slots_max,
		.flows_max = config->flows_max,
	};
	for (int i = 0; i < MAPS; i++)
		info->map_bytes += bytes_of_map(node->map[i]);
	info->map_bytes += (uint64_t)config->segments * SEGMENT_SIZE;
	FOR_EACH_SERVICE(node, i) {
		const struct service_block *block = live_block(node, i);

		info->services++;
		for (uint32_t j = 0; j < places_of(block); j++)
			info->members +=
				!!(block->member[j].flags & MEMBER_PRESENT);
	}
	unlock_node(node);
	return 0;
}
