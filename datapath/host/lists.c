// SPDX-License-Identifier: Apache-2.0
/* Lists what was set, to compare it with what is wanted. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"
#include "state.h"

/* `bits` is the prefix length, of 128. */
static struct oxh_network network_of(const void *address, uint32_t bits)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct oxh_network out = {.length = bits};

	memcpy(&out.address, address, sizeof(out.address));
	if (bits >= 96 && !memcmp(&out.address, mapped, sizeof(mapped)))
		out.length = bits - 96;
	return out;
}

static uint32_t bits_in(const uint64_t mask[2])
{
	return __builtin_popcountll(mask[0]) + __builtin_popcountll(mask[1]);
}

int oxh_settings_get(struct oxh_host *host, struct oxh_settings *out,
		     char *error)
{
	const struct host_settings *own = settings_of(host);

	(void)error;
	*out = (struct oxh_settings){
		.reply_ifindex = own->reply_ifindex,
		.tcp_idle = own->tcp_idle,
		.udp_idle = own->udp_idle,
		.closing_idle = own->closing_idle,
		.half_open_idle = own->half_open_idle,
	};
	if (own->local_v4) {
		memset(out->local_v4.bytes + 10, 0xff, 2);
		memcpy(out->local_v4.bytes + 12, &own->local_v4, 4);
	}
	memcpy(out->local_v6.bytes, own->local_v6, 16);
	memcpy(out->sid.bytes, own->sid, 12);
	return 0;
}

int oxh_rules_list(struct oxh_host *host, const uint8_t id[16],
		   struct oxh_rule *out, uint32_t capacity, char *error)
{
	int status = lock_host(host, error), place;
	const struct host_rules *rules;
	uint32_t count = 0;

	if (status)
		return status;
	place = find_port(host, id);
	if (place < 0) {
		unlock_host(host);
		return failure(error, place, "there is no such port");
	}
	rules = &rules_of(host)[2 * place + (ports_of(host)[place].which & 1)];
	for (; count < rules->count && count < HOST_RULES_MAX; count++) {
		const struct host_rule *rule = &rules->rule[count];

		if (count >= capacity)
			continue;
		out[count] = (struct oxh_rule){
			.remote = network_of(
				rule->address,
				bits_in((const uint64_t *)rule->mask)),
			.set = rule->set,
			.port_min = rule->port_min,
			.port_max = rule->port_max,
			.protocol = rule->protocol,
			.family = rule->family,
		};
	}
	unlock_host(host);
	return count;
}

static int list_networks(struct oxh_host *host, int map,
			 struct oxh_network *out, uint32_t capacity,
			 char *error)
{
	struct host_network key, *last = NULL;
	int status = lock_host(host, error);
	uint32_t count = 0;

	if (status)
		return status;
	while (!bpf_map_get_next_key(map, last, &key)) {
		last = &key;
		if (count++ < capacity)
			out[count - 1] = network_of(&key.address, key.bits);
	}
	unlock_host(host);
	return count;
}

int oxh_networks_list(struct oxh_host *host, struct oxh_network *out,
		      uint32_t capacity, char *error)
{
	return list_networks(host, host->map[MAP_NETWORKS], out, capacity,
			     error);
}

int oxh_proxies_list(struct oxh_host *host, struct oxh_network *out,
		     uint32_t capacity, char *error)
{
	return list_networks(host, host->map[MAP_PROXIES], out, capacity,
			     error);
}

int oxh_peers_list(struct oxh_host *host, struct oxh_network *out,
		   uint32_t capacity, char *error)
{
	return list_networks(host, host->map[MAP_PEERS], out, capacity, error);
}

int oxh_sets_list(struct oxh_host *host, struct oxh_set_network *out,
		  uint32_t capacity, char *error)
{
	struct host_set_network key, *last = NULL;
	int status = lock_host(host, error);
	uint32_t count = 0;

	if (status)
		return status;
	while (!bpf_map_get_next_key(host->map[MAP_SETS], last, &key)) {
		last = &key;
		if (count++ >= capacity)
			continue;
		out[count - 1] = (struct oxh_set_network){
			.set = ntohl(key.set),
			.network = network_of(&key.address, key.bits - 32),
		};
	}
	unlock_host(host);
	return count;
}
