// SPDX-License-Identifier: Apache-2.0
/*
 * Ports and their rules. A list of rules is written where packets do not read
 * it, then the port switches to it. Packets may continue with the old list, so
 * the next change waits until these are done.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"
#include "state.h"
#include "synchronize.h"

#define FLOWS_MAX 500000

static int free_port(struct oxh_host *host)
{
	for (uint32_t i = 0; i < host->count[MAP_PORTS]; i++)
		if (!(ports_of(host)[i].flags & HOST_PORT_USED))
			return i;
	return -ENOSPC;
}

static int parse_rule(const struct oxh_rule *rule, struct host_rule *out,
		      char *error)
{
	int bits = bits_of(&rule->remote);
	uint8_t mask[16], address[16];

	if (rule->family != 4 && rule->family != 6)
		return failure(error, -EINVAL, "a rule's family is %u",
			       rule->family);
	if (rule->set)
		bits = rule->family == 4 ? 96 : 0;
	if (bits < 0 || rule->port_min > rule->port_max)
		return failure(error, -EINVAL,
			       "a rule has prefix length %u and ports %u to %u",
			       rule->remote.length, rule->port_min,
			       rule->port_max);
	memcpy(address, rule->remote.address.bytes, sizeof(address));
	if (rule->set)
		memcpy(address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	mask_address(address, bits);
	memset(mask, 0xff, sizeof(mask));
	mask_address(mask, bits);
	*out = (struct host_rule){
		.set = rule->set,
		.port_min = rule->port_min,
		.port_max = rule->port_max,
		.protocol = rule->protocol,
		.family = rule->family,
	};
	memcpy(out->mask, mask, sizeof(mask));
	memcpy(out->address, address, sizeof(address));
	return 0;
}

static int parse_rules(const struct oxh_rule *rules, uint32_t count,
		       struct host_rules *out, char *error)
{
	int status = 0;

	if (count > HOST_RULES_MAX)
		return failure(error, -E2BIG, "%u rules, the limit is %d",
			       count, HOST_RULES_MAX);
	memset(out, 0, sizeof(*out));
	out->count = count;
	for (uint32_t i = 0; i < count && !status; i++)
		status = parse_rule(&rules[i], &out->rule[i], error);
	return status;
}

/* Waits for packets that use the old list. */
static int write_rules(struct oxh_host *host, uint32_t place,
		       const struct host_rules *rules, char *error)
{
	struct host_port *port = &ports_of(host)[place];
	struct host_rules *pair = &rules_of(host)[2 * place];
	uint16_t which = port->which & 1;
	int status;

	if (!memcmp(&pair[which], rules, sizeof(*rules)))
		return 0;
	status = synchronize(error);
	if (status)
		return status;
	memcpy(&pair[!which], rules, sizeof(*rules));
	__atomic_store_n(&port->which, !which, __ATOMIC_RELEASE);
	return 1;
}

static void recheck_flows(struct host_port *port)
{
	__atomic_store_n(&port->generation,
			 (port->generation + 1) & HOST_GENERATION_MASK,
			 __ATOMIC_RELEASE);
}

static int set_locked(struct oxh_host *host, const struct oxh_port *wanted,
		      const struct host_rules *rules, char *error)
{
	uint32_t flags = HOST_PORT_USED | (wanted->open ? HOST_PORT_OPEN : 0);
	int place = find_port(host, wanted->id), status;
	bool changed = false, known = place >= 0;
	struct host_port *port;

	if (!known)
		place = free_port(host);
	if (place < 0)
		return failure(error, place, "there is room for %u ports",
			       host->count[MAP_PORTS]);
	port = &ports_of(host)[place];
	status = write_rules(host, place, rules, error);
	if (status < 0)
		return status;
	changed = status || port->flags != flags;
	memcpy(port->id, wanted->id, sizeof(port->id));
	port->flows_max = wanted->flows_max ? wanted->flows_max : FLOWS_MAX;
	__atomic_store_n(&port->flags, flags, __ATOMIC_RELEASE);
	if (port->ifindex != wanted->ifindex) {
		/* before the tap's packets find listeners */
		if (known && !port->ifindex)
			__atomic_store_n(&port->arrives_until, HOST_AWAITED,
					 __ATOMIC_RELEASE);
		status = move_listeners(host, place, port->ifindex,
					wanted->ifindex, error);
		if (status < 0)
			return status;
		__atomic_store_n(&port->ifindex, wanted->ifindex,
				 __ATOMIC_RELEASE);
	}
	if (changed)
		recheck_flows(port);
	return 0;
}

int oxh_port_set(struct oxh_host *host, const struct oxh_port *port,
		 const struct oxh_rule *rules, uint32_t count, char *error)
{
	struct host_rules parsed;
	int status = parse_rules(rules, count, &parsed, error);

	if (!status)
		status = lock_host(host, error);
	if (status)
		return status;
	status = set_locked(host, port, &parsed, error);
	unlock_host(host);
	return status;
}

static void forget_drops(struct oxh_host *host, uint32_t place)
{
	for (uint32_t i = 0; i < HOST_OUTCOMES; i++) {
		struct host_drop_key key = {.host_port = place, .outcome = i};

		bpf_map_delete_elem(host->map[MAP_DROPS], &key);
	}
}

static int delete_locked(struct oxh_host *host, const uint8_t id[16],
			 char *error)
{
	int place = find_port(host, id), status;
	struct host_port *port;

	if (place < 0)
		return 1;
	port = &ports_of(host)[place];
	for (uint32_t i = 0; i < host->count[MAP_ENTRIES]; i++) {
		struct host_entry *entry = &entries_of(host)[i];

		if (!entry->used || entry->host_port != (uint32_t)place)
			continue;
		status = delete_entry(host, i, error);
		if (status < 0)
			return status;
	}
	port->ifindex = 0;
	__atomic_store_n(&port->flags, 0, __ATOMIC_RELEASE);
	status = synchronize(error);
	if (status)
		return status;
	forget_drops(host, place);
	memset(&rules_of(host)[2 * place], 0, 2 * sizeof(struct host_rules));
	memset(port, 0, sizeof(*port));
	return 0;
}

int oxh_port_delete(struct oxh_host *host, const uint8_t id[16], char *error)
{
	int status = lock_host(host, error);

	if (status)
		return status;
	status = delete_locked(host, id, error);
	unlock_host(host);
	return status;
}

int oxh_ports_list(struct oxh_host *host, struct oxh_port *out,
		   uint32_t capacity, char *error)
{
	uint32_t count = 0;

	(void)error;
	for (uint32_t i = 0; i < host->count[MAP_PORTS]; i++) {
		const struct host_port *port = &ports_of(host)[i];

		if (!(port->flags & HOST_PORT_USED) || count++ >= capacity)
			continue;
		out[count - 1] = (struct oxh_port){
			.ifindex = port->ifindex,
			.flows_max = port->flows_max,
			.open = !!(port->flags & HOST_PORT_OPEN),
			.flows = port->flows,
			.rules =
				rules_of(host)[2 * i + (port->which & 1)].count,
			.generation = port->generation,
		};
		memcpy(out[count - 1].id, port->id, sizeof(port->id));
	}
	return count;
}
