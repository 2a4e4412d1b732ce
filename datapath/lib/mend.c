// SPDX-License-Identifier: Apache-2.0
/*
 * Mending what a process left that died while it created or deleted a
 * service. An entry counts as a service if it is used and its key leads to
 * it; everything else goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "internal.h"

static struct key_v4 entry_key(const struct service_entry *entry)
{
	struct key_v4 key = {.port = entry->port, .protocol = entry->protocol};

	memcpy(&key.address, entry->vip + 12, sizeof(key.address));
	return key;
}

static bool leads_to_service(struct oxp_node *node, const struct key_v4 *key)
{
	struct key_v4 expected;
	__u32 index;

	if (bpf_map_lookup_elem(node->map[MAP_SERVICES_V4], key, &index) ||
	    index >= node->config->services_max ||
	    entry_of(node, index)->state != ENTRY_USED)
		return false;
	expected = entry_key(entry_of(node, index));
	return !memcmp(&expected, key, sizeof(expected));
}

/* All keys of a hash in one go: it is changed while walking otherwise. */
static int read_keys(int map, size_t size, char **out)
{
	size_t count = 0, capacity = 0;
	char *keys = NULL, *last = NULL;
	char next[sizeof(struct key_v4)];

	while (!bpf_map_get_next_key(map, last, next)) {
		if (count == capacity) {
			char *more;

			capacity = capacity ? 2 * capacity : 256;
			more = realloc(keys, capacity * size);
			if (!more) {
				free(keys);
				return -ENOMEM;
			}
			keys = more;
		}
		last = keys + count++ * size;
		memcpy(last, next, size);
	}
	*out = keys;
	return count;
}

static int delete_stray_keys(struct oxp_node *node)
{
	int map = node->map[MAP_SERVICES_V4], count, deleted = 0;
	char *keys;

	count = read_keys(map, sizeof(struct key_v4), &keys);
	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		const struct key_v4 *key = (struct key_v4 *)keys + i;

		if (!leads_to_service(node, key) &&
		    !bpf_map_delete_elem(map, key))
			deleted++;
	}
	free(keys);
	return deleted;
}

static void free_lost_entries(struct oxp_node *node)
{
	for (uint32_t i = 0; i < node->config->services_max; i++) {
		struct service_entry *entry = entry_of(node, i);
		struct key_v4 key = entry_key(entry);
		__u32 index;

		if (entry->state != ENTRY_USED)
			continue;
		if (bpf_map_lookup_elem(node->map[MAP_SERVICES_V4], &key,
					&index) ||
		    index != i)
			entry->state = ENTRY_FREE;
	}
}

/* Counts how many services an address has; packets ask only if it is there. */
int count_vip(struct oxp_node *node, __be32 address, int difference)
{
	int map = node->map[MAP_VIPS_V4];
	__u32 services = 0;

	if (bpf_map_lookup_elem(map, &address, &services) && errno != ENOENT)
		return -errno;
	services += difference;
	if (services)
		return bpf_map_update_elem(map, &address, &services, BPF_ANY);
	return bpf_map_delete_elem(map, &address);
}

static int recount_vips(struct oxp_node *node)
{
	int map = node->map[MAP_VIPS_V4], count, status = 0;
	__u32 services = 0;
	char *keys;

	count = read_keys(map, sizeof(__be32), &keys);
	if (count < 0)
		return count;
	for (int i = 0; i < count && !status; i++)
		status = bpf_map_update_elem(map, keys + i * sizeof(__be32),
					     &services, BPF_EXIST);
	for (uint32_t i = 0; i < node->config->services_max && !status; i++)
		if (entry_of(node, i)->state == ENTRY_USED)
			status = count_vip(
				node, entry_key(entry_of(node, i)).address, 1);
	for (int i = 0; i < count && !status; i++)
		if (!bpf_map_lookup_elem(map, keys + i * sizeof(__be32),
					 &services) &&
		    !services)
			status = bpf_map_delete_elem(map,
						     keys + i * sizeof(__be32));
	free(keys);
	return status;
}

int mend(struct oxp_node *node, char *error)
{
	int status;

	begin_change(node, true);
	node->counters_changes = 0; /* the dead one's are unknown to us */
	status = delete_stray_keys(node);
	if (status < 0)
		return failure(error, status, "cannot mend the services");
	/* also for what the dead one deleted */
	status = grace_period(node, error);
	if (status)
		return status;
	free_lost_entries(node);
	status = recount_vips(node);
	if (status)
		return failure(error, status, "cannot mend the VIPs");
	end_change(node);
	return 0;
}
