// SPDX-License-Identifier: Apache-2.0
/* Settings, networks and sets of addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"
#include "state.h"
#include "synchronize.h"

/* Converts seconds to units, which are a little longer. */
static uint32_t to_units(uint32_t seconds, uint32_t fallback)
{
	uint32_t value = seconds ? seconds : fallback;

	return value < HOST_FLOW_AGE_MAX ? value : HOST_FLOW_AGE_MAX;
}

int oxh_settings_set(struct oxh_host *host, const struct oxh_settings *wanted,
		     char *error)
{
	struct host_settings *own = settings_of(host);
	int status = lock_host(host, error);

	if (status)
		return status;
	own->reply_ifindex = wanted->reply_ifindex;
	write_reply_mtu(host, read_mtu(wanted->reply_ifindex));
	memcpy(&own->local_v4, wanted->local_v4.bytes + 12, 4);
	memcpy(own->local_v6, wanted->local_v6.bytes, 16);
	memcpy(own->sid, wanted->sid.bytes, 12);
	own->tcp_idle = to_units(wanted->tcp_idle, 7440);
	own->udp_idle = to_units(wanted->udp_idle, 180);
	own->closing_idle = to_units(wanted->closing_idle, 120);
	own->half_open_idle = to_units(wanted->half_open_idle, 60);
	unlock_host(host);
	return 0;
}

/* Elements of a trie, wanted or old: a key, maybe with a value. */
struct list {
	uint8_t *bytes;
	size_t size, count, room;
};

static int append(struct list *list, const void *element)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 64;
		uint8_t *bytes = realloc(list->bytes, room * list->size);

		if (!bytes)
			return -ENOMEM;
		list->bytes = bytes;
		list->room = room;
	}
	memcpy(list->bytes + list->count++ * list->size, element, list->size);
	return 0;
}

static bool contains(const struct list *list, const void *key, size_t length)
{
	for (size_t i = 0; i < list->count; i++)
		if (!memcmp(list->bytes + i * list->size, key, length))
			return true;
	return false;
}

/* Adds and changes first, so that a network that stays is never missing. */
static int write_networks(int map, struct list *wanted, struct list *old,
			  char *error)
{
	struct host_network key, *last = NULL;

	for (size_t i = 0; i < wanted->count; i++) {
		uint8_t *element = wanted->bytes + i * wanted->size;
		uint32_t value;

		memcpy(&value, element + sizeof(key), sizeof(value));
		if (bpf_map_update_elem(map, element, &value, BPF_ANY))
			return failure(error, -errno, "cannot set a network");
	}
	while (!bpf_map_get_next_key(map, last, &key)) {
		last = &key;
		if (!contains(wanted, &key, sizeof(key)) && append(old, &key))
			return failure(error, -ENOMEM, "cannot set networks");
	}
	for (size_t i = 0; i < old->count; i++)
		bpf_map_delete_elem(map, old->bytes + i * old->size);
	return 0;
}

struct element {
	struct host_network key;
	uint32_t is;
};

static uint32_t choose_nodes(const struct list *wanted, struct host_nodes *out)
{
	const struct element *elements = (const struct element *)wanted->bytes;
	uint32_t count = 0;

	for (; count < wanted->count && count < HOST_NODES_MAX; count++) {
		memcpy(out[count].address, &elements[count].key.address, 16);
		memset(out[count].mask, 0xff, 16);
		mask_address((uint8_t *)out[count].mask,
			     elements[count].key.bits);
	}
	return count;
}

/* While `nodes` is written, packets find it empty and use the map. */
static int write_all(struct oxh_host *host, struct list *wanted,
		     struct list *old, char *error)
{
	struct host_settings *own = settings_of(host);
	struct host_nodes nodes[HOST_NODES_MAX] = {};
	uint32_t count = choose_nodes(wanted, nodes);
	bool same = own->nodes_count == count &&
		    !memcmp(own->nodes, nodes, sizeof(nodes));
	int status = 0;

	if (!same) {
		__atomic_store_n(&own->nodes_count, 0, __ATOMIC_RELEASE);
		status = synchronize(error);
	}
	if (!status)
		status = write_networks(host->map[MAP_NETWORKS], wanted, old,
					error);
	if (!status && !same) {
		memcpy(own->nodes, nodes, sizeof(nodes));
		__atomic_store_n(&own->nodes_count, count, __ATOMIC_RELEASE);
	}
	return status;
}

static int add_network(struct list *wanted, const struct oxh_network *network,
		       char *error)
{
	struct element added = {.is = 1};
	int bits = bits_of(network);

	if (bits < 0)
		return failure(error, bits, "prefix length %u",
			       network->length);
	added.key.bits = bits;
	memcpy(&added.key.address, &network->address, 16);
	mask_address(added.key.address.bytes, bits);
	return append(wanted, &added);
}

static int write_proxies(struct oxh_host *host, struct list *wanted,
			 struct list *old, char *error)
{
	return write_networks(host->map[MAP_PROXIES], wanted, old, error);
}

static int write_peers(struct oxh_host *host, struct list *wanted,
		       struct list *old, char *error)
{
	return write_networks(host->map[MAP_PEERS], wanted, old, error);
}

static int set_networks(struct oxh_host *host,
			const struct oxh_network *networks, uint32_t count,
			int (*write)(struct oxh_host *, struct list *,
				     struct list *, char *),
			char *error)
{
	struct list wanted = {.size = sizeof(struct element)};
	struct list old = {.size = sizeof(struct host_network)};
	int status = 0;

	if (count > OXH_NETWORKS_MAX)
		return failure(error, -E2BIG, "%u networks, the limit is %d",
			       count, OXH_NETWORKS_MAX);
	for (uint32_t i = 0; i < count && !status; i++)
		status = add_network(&wanted, &networks[i], error);
	if (!status)
		status = lock_host(host, error);
	if (!status) {
		status = write(host, &wanted, &old, error);
		unlock_host(host);
	}
	free(wanted.bytes);
	free(old.bytes);
	return status;
}

int oxh_networks_set(struct oxh_host *host, const struct oxh_network *networks,
		     uint32_t count, char *error)
{
	return set_networks(host, networks, count, write_all, error);
}

int oxh_proxies_set(struct oxh_host *host, const struct oxh_network *networks,
		    uint32_t count, char *error)
{
	return set_networks(host, networks, count, write_proxies, error);
}

int oxh_peers_set(struct oxh_host *host, const struct oxh_network *networks,
		  uint32_t count, char *error)
{
	return set_networks(host, networks, count, write_peers, error);
}

static int write_set(int map, uint32_t set, struct list *wanted,
		     struct list *old, char *error)
{
	struct host_set_network key, *last = NULL;

	for (size_t i = 0; i < wanted->count; i++) {
		const void *network = wanted->bytes + i * wanted->size;
		uint8_t value;

		memcpy(&key, network, sizeof(key));
		value = key.bits < 32 + 96 ? HOST_SET_IPV6 : HOST_SET_ANY;
		if (bpf_map_update_elem(map, network, &value, BPF_ANY))
			return failure(error, -errno,
				       "cannot set an address of set %u", set);
	}
	while (!bpf_map_get_next_key(map, last, &key)) {
		last = &key;
		if (key.set == htonl(set) &&
		    !contains(wanted, &key, sizeof(key)) && append(old, &key))
			return failure(error, -ENOMEM, "cannot set set %u",
				       set);
	}
	for (size_t i = 0; i < old->count; i++)
		bpf_map_delete_elem(map, old->bytes + i * old->size);
	return 0;
}

/* Makes all ports check their flows again: finding the ports that use a set
 * would need reading all rules, and checking is cheap. */
static void recheck_all_flows(struct oxh_host *host)
{
	for (uint32_t i = 0; i < host->count[MAP_PORTS]; i++) {
		struct host_port *port = &ports_of(host)[i];

		if (port->flags & HOST_PORT_USED)
			__atomic_store_n(&port->generation,
					 (port->generation + 1) &
						 HOST_GENERATION_MASK,
					 __ATOMIC_RELEASE);
	}
}

int oxh_set_set(struct oxh_host *host, uint32_t set,
		const struct oxh_network *networks, uint32_t count, char *error)
{
	struct list wanted = {.size = sizeof(struct host_set_network)};
	struct list old = {.size = sizeof(struct host_set_network)};
	int status = set ? 0 : failure(error, -EINVAL, "set 0 is reserved");

	for (uint32_t i = 0; i < count && !status; i++) {
		int bits = bits_of(&networks[i]);
		struct host_set_network key = {.bits = 32 + bits,
					       .set = htonl(set)};

		memcpy(&key.address, &networks[i].address, 16);
		mask_address(key.address.bytes, bits);
		status = bits < 0 ? failure(error, bits, "prefix length %u",
					    networks[i].length)
				  : append(&wanted, &key);
	}
	if (!status)
		status = lock_host(host, error);
	if (!status) {
		status = write_set(host->map[MAP_SETS], set, &wanted, &old,
				   error);
		if (old.count)
			recheck_all_flows(host);
		unlock_host(host);
	}
	free(wanted.bytes);
	free(old.bytes);
	return status;
}
