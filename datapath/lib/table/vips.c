// SPDX-License-Identifier: Apache-2.0
/* The addresses of services: counting services, and keys. */
#include "table/vips.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "state.h"
#include "table/blocks.h"
#include "table/lookup.h"

static __be16 *fragment_port(struct vip_entry *vip, uint8_t protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return &vip->fragment_port_tcp;
	case IPPROTO_UDP:
		return &vip->fragment_port_udp;
	default:
		return &vip->fragment_port_sctp;
	}
}

static void count_in(struct vip_entry *vip, const struct service_entry *entry)
{
	__be16 *port = fragment_port(vip, entry->protocol);

	vip->services++;
	if (!*port || ntohs(entry->port) < ntohs(*port))
		__atomic_store_n(port, entry->port, __ATOMIC_RELEASE);
}

static int64_t free_vip(struct oxp_node *node)
{
	/* there is an entry for each service, and a service has one VIP */
	for (uint32_t i = 0; i < node->config->services_max; i++)
		if (!node->vips[i].services)
			return i;
	return -ENOSPC;
}

int enter_vip(struct oxp_node *node, uint32_t index, char *error)
{
	struct service_entry *entry = entry_of(node, index);
	struct lookup_key key = lookup_key(entry->vip, 0, 0);
	int64_t place = lookup_find(node, &key), at;
	struct vip_entry *vip;

	if (place >= 0) {
		if (*lookup_value(node, key.v6, place) & LOOKUP_POOL)
			return failure(error, -EEXIST,
				       "the VIP is an address of a NAT pool");
		entry->vip_index = *lookup_value(node, key.v6, place);
		count_in(&node->vips[entry->vip_index], entry);
		return 0;
	}
	at = free_vip(node);
	if (at < 0)
		return failure(error, at, "no entry is free for the VIP");
	vip = &node->vips[at];
	memset(vip, 0, sizeof(*vip));
	memcpy(vip->address, entry->vip, sizeof(vip->address));
	entry->vip_index = at;
	count_in(vip, entry);
	place = lookup_insert(node, &key, at);
	if (place < 0)
		return failure(error, place,
			       "the lookup table has no room near the VIP");
	return 0;
}

struct vip_entry *count_vips(struct oxp_node *node, const uint64_t *gone)
{
	uint32_t max = node->config->services_max;
	struct vip_entry *counted = calloc(max, sizeof(*counted));

	for (uint32_t i = 0; counted && i < max; i++) {
		const struct service_entry *entry = entry_of(node, i);

		if (entry->state == ENTRY_USED && entry->vip_index < max &&
		    !(gone && gone[i / 64] >> i % 64 & 1))
			count_in(&counted[entry->vip_index], entry);
	}
	return counted;
}

int refresh_vips(struct oxp_node *node, const uint64_t *gone)
{
	uint32_t max = node->config->services_max;
	struct vip_entry *again = count_vips(node, gone);

	if (!again)
		return -ENOMEM;
	for (uint32_t i = 0; i < max; i++) {
		struct vip_entry *vip = &node->vips[i];
		struct lookup_key key;
		int64_t place;

		if (vip->services && !again[i].services) {
			key = lookup_key(vip->address, 0, 0);
			place = lookup_find(node, &key);
			if (place >= 0 &&
			    *lookup_value(node, key.v6, place) == i)
				lookup_erase(node, &key, place);
		}
		vip->fragment_port_tcp = again[i].fragment_port_tcp;
		vip->fragment_port_udp = again[i].fragment_port_udp;
		vip->fragment_port_sctp = again[i].fragment_port_sctp;
		vip->services = again[i].services;
	}
	free(again);
	return 0;
}
