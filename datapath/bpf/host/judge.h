/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a port's security groups allow a client: checked when a flow begins,
 * and again after rules have changed. */
#ifndef OXP_HOST_JUDGE_H
#define OXP_HOST_JUDGE_H

#include "host/maps.h"

/* Mapped IPv4. */
static __always_inline bool is_mapped(const struct ip_address *address)
{
	const __u32 *word = (const __u32 *)address;

	return !(word[0] | word[1] | (word[2] ^ bpf_htonl(0xffff)));
}

static __always_inline bool in_remote_set(__u32 set, __u32 family,
					  const struct ip_address *client)
{
	__u8 *found;
	struct host_set_network key = {
		.bits = 32 + 128,
		.set = bpf_htonl(set),
		.address = *client,
	};

	found = bpf_map_lookup_elem(&sets, &key);
	return found && (family == 6 || *found != HOST_SET_IPV6);
}

static __always_inline bool rule_admits(const struct host_rule *rule,
					__u32 protocol, __u32 port,
					__u32 family,
					const struct ip_address *client)
{
	const __u64 *word = (const __u64 *)client;

	if (rule->family != family ||
	    (rule->protocol && rule->protocol != protocol) ||
	    port < rule->port_min || port > rule->port_max)
		return false;
	if (((word[0] & rule->mask[0]) ^ rule->address[0]) |
	    ((word[1] & rule->mask[1]) ^ rule->address[1]))
		return false;
	return !rule->set || in_remote_set(rule->set, family, client);
}

/* `port` is the member's, in host byte order. */
__noinline int judge(__u32 host_port, __u32 protocol, __u32 port,
		     const struct ip_address *client)
{
	const struct host_port *own = ports_at(host_port);
	const struct host_rules *list;
	__u32 family;

	if (!own || !client)
		return false;
	if (own->flags & HOST_PORT_OPEN)
		return true;
	list = rules_at(2 * host_port + (own->which & 1));
	if (!list)
		return false;
	family = is_mapped(client) ? 4 : 6;
	for (__u32 i = 0; i < HOST_RULES_MAX; i++) {
		if (i >= list->count)
			break;
		if (rule_admits(&list->rule[i], protocol, port, family, client))
			return true;
	}
	/* probes of LB nodes */
	return is_in_networks(client);
}

#endif
