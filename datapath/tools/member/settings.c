// SPDX-License-Identifier: Apache-2.0
/* Turns arguments into consistent settings. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define IPV4_AND_TCP 40
#define IPV6_AND_TCP 60
#define IPV4_OUTER 20
#define IPV6_OUTER 40
#define MSS_LEAST 536

#define DEFINE_ORDER(type)                                                     \
	static int order_##type(const void *one, const void *other)            \
	{                                                                      \
		return memcmp(one, other, sizeof(struct type));                \
	}
DEFINE_ORDER(ip_address)
DEFINE_ORDER(member_network)
DEFINE_ORDER(port_rule)
DEFINE_ORDER(dscp_rule)

/* Sorts and removes duplicates. Returns how many remain; clears the rest. */
static __u32 sort(void *list, __u32 count, size_t size,
		  int (*order)(const void *, const void *))
{
	char *base = list;
	__u32 kept = 0;

	qsort(base, count, size, order);
	for (__u32 i = 0; i < count; i++)
		if (!kept || order(base + (kept - 1) * size, base + i * size)) {
			memmove(base + kept * size, base + i * size, size);
			kept++;
		}
	memset(base + kept * size, 0, (count - kept) * size);
	return kept;
}

bool has_vip(const struct settings *settings, const struct ip_address *address)
{
	for (__u32 i = 0; i < settings->vips; i++)
		if (!memcmp(&settings->vip[i], address, sizeof(*address)))
			return true;
	return false;
}

bool contains(const struct member_network *networks, __u32 count,
	      const struct member_network *network)
{
	for (__u32 i = 0; i < count; i++) {
		const struct member_network *outer = &networks[i];
		__u32 bit = 0;

		if (outer->bits > network->bits)
			continue;
		while (bit < outer->bits &&
		       !((outer->address.bytes[bit / 8] ^
			  network->address.bytes[bit / 8]) &
			 0x80 >> bit % 8))
			bit++;
		if (bit == outer->bits)
			return true;
	}
	return false;
}

static bool takes_vip(const struct settings *settings,
		      const struct ip_address *address)
{
	struct member_network network = {128, *address};

	return has_vip(settings, address) ||
	       contains(settings->vip_network, settings->vip_networks,
			&network);
}

/* Whether it is possible as an address of a load balancer or a host. */
static bool is_unicast(const struct ip_address *address)
{
	static const uint8_t loopback[16] = {[15] = 1}, unspecified[16];
	const uint8_t *byte = address->bytes;

	if (is_v4(address))
		return byte[12] && byte[12] != 127 && byte[12] < 224;
	return byte[0] != 0xff && memcmp(byte, loopback, 16) &&
	       memcmp(byte, unspecified, 16) &&
	       !(byte[0] == 0xfe && (byte[1] & 0xc0) == 0x80);
}

static int check_addresses(const struct settings *settings)
{
	char text[ADDRESS_TEXT];

	for (__u32 i = 0; i < settings->vips; i++)
		if (!is_unicast(&settings->vip[i]))
			return complain("vip %s: can't be a VIP",
					address_text(&settings->vip[i], text));
	for (__u32 i = 0; i < settings->owns; i++) {
		address_text(&settings->own[i], text);
		if (!is_unicast(&settings->own[i]))
			return complain("address %s: can't be of a host", text);
		if (has_vip(settings, &settings->own[i]))
			return complain("%s is a VIP: LB nodes send to another "
					"address of the host",
					text);
	}
	if (!settings->nodes && !(settings->flags & ANY_SOURCE))
		return complain("whose tunnel packets may be accepted? Name "
				"the LB nodes' networks (--node NETWORK), or "
				"use --any-source if the fabric filters");
	if (settings->nodes && settings->flags & ANY_SOURCE)
		return complain("--node and --any-source contradict each "
				"other");
	if (settings->members && settings->flags & ANY_SOURCE)
		return complain("--member and --any-source contradict each "
				"other: it would relay for anybody; name "
				"the LB nodes' networks (--node NETWORK)");
	return 0;
}

static int check_ports(const struct settings *settings)
{
	char one[RULE_TEXT], other[RULE_TEXT];

	for (__u32 i = 0; i < settings->ports; i++) {
		const struct port_rule *rule = &settings->port[i];

		port_text(rule, one);
		if (!takes_vip(settings, &rule->key.vip))
			return complain("port %s: its VIP is none of --vip and "
					"in no --vip-network",
					one);
		if (rule->local == rule->key.port)
			return complain("port %s: both ports are the same, no "
					"rule is needed",
					one);
		for (__u32 j = 0; j < i; j++) {
			const struct port_rule *before = &settings->port[j];

			if (memcmp(&rule->key.vip, &before->key.vip, 16) ||
			    rule->key.protocol != before->key.protocol)
				continue;
			port_text(before, other);
			if (rule->answers_only != before->answers_only)
				return complain("port %s and %s: one as --port "
						"and one as --answer-port, but "
						"a VIP's ports are all "
						"rewritten here or all by LB "
						"nodes",
						other, one);
			if (rule->key.port == before->key.port &&
			    !rule->answers_only)
				return complain("port %s and %s: one listener, "
						"two ports; where LB nodes "
						"rewrite ports, use "
						"--answer-port",
						other, one);
			if (rule->local == before->local)
				return complain("port %s and %s: answers from "
						"one port do not show their "
						"listener; let the server "
						"listen on two",
						other, one);
		}
	}
	return 0;
}

static int check_dscps(const struct settings *settings)
{
	char one[RULE_TEXT], other[RULE_TEXT];

	for (__u32 i = 0; i < settings->dscps; i++) {
		const struct dscp_rule *rule = &settings->dscp[i];

		dscp_text(rule, one);
		if (!takes_vip(settings, &rule->vip))
			return complain("dscp %s: its VIP is none of --vip and "
					"in no --vip-network",
					one);
		for (__u32 j = 0; j < i; j++) {
			const struct dscp_rule *before = &settings->dscp[j];

			if (rule->dscp == before->dscp &&
			    is_v4(&rule->vip) == is_v4(&before->vip))
				return complain("dscp %s and %s: one DSCP, two "
						"VIPs",
						dscp_text(before, other), one);
		}
	}
	return 0;
}

/* Without --address: uses the interface's addresses. */
static int find_own(struct settings *settings,
		    const struct interface *interface)
{
	static struct host_address all[ADDRESSES_MAX];
	int count = list_addresses(all, ADDRESSES_MAX);

	if (count < 0)
		return -1;
	settings->owns = 0;
	memset(settings->own, 0, sizeof(settings->own));
	for (int i = 0; i < count; i++) {
		if (all[i].interface != interface->index || all[i].link_local ||
		    has_vip(settings, &all[i].address))
			continue;
		if (settings->owns == MEMBER_OWN_MAX)
			return complain("%s has more than %d addresses; name "
					"those that LB nodes send to "
					"(--address)",
					interface->name, MEMBER_OWN_MAX);
		settings->own[settings->owns++] = all[i].address;
	}
	if ((settings->vips || settings->vip_networks) && !settings->owns)
		return complain("%s has no address that LB nodes could send "
				"to; give it one or name it (--address)",
				interface->name);
	return 0;
}

unsigned int largest_overhead(const struct settings *settings)
{
	/* packets may name an alternative */
	unsigned int v6 =
		settings->members ? MEMBER_SHIM_NAMED_MAX : MEMBER_SHIM_MAX;
	unsigned int v4 =
		settings->members ? MEMBER_SHIM_NAMED_V4 : MEMBER_SHIM_MAX;

	for (__u32 i = 0; i < settings->owns; i++)
		if (!is_v4(&settings->own[i]))
			return IPV6_OUTER + v6;
	return IPV4_OUTER + v4;
}

static int find_mss(struct arguments *arguments,
		    const struct interface *interface)
{
	struct settings *settings = &arguments->settings;
	unsigned int room = interface->mtu - largest_overhead(settings);

	if (arguments->mss >= 0) {
		settings->mss_v4 = arguments->mss;
		settings->mss_v6 =
			arguments->mss
				? arguments->mss - (IPV6_AND_TCP - IPV4_AND_TCP)
				: 0;
		return 0;
	}
	if (interface->mtu <
	    largest_overhead(settings) + IPV6_AND_TCP + MSS_LEAST)
		return complain("%s: an MTU of %u leaves no room for a tunnel; "
				"raise it or set --mss",
				interface->name, interface->mtu);
	if (room > UINT16_MAX)
		room = UINT16_MAX;
	settings->mss_v4 = room - IPV4_AND_TCP;
	settings->mss_v6 = room - IPV6_AND_TCP;
	return 0;
}

int complete_settings(struct arguments *arguments,
		      const struct interface *interface)
{
	struct settings *settings = &arguments->settings;

	if (!interface->ethernet)
		return complain("%s is no Ethernet interface", interface->name);
	if (!(settings->flags & OWN_GIVEN) && find_own(settings, interface))
		return -1;
	if (find_mss(arguments, interface))
		return -1;
#define SORT(list, count, type)                                                \
	(settings->count = sort(settings->list, settings->count,               \
				sizeof(settings->list[0]), order_##type))
	SORT(vip, vips, ip_address);
	SORT(own, owns, ip_address);
	SORT(node, nodes, member_network);
	SORT(member, members, member_network);
	SORT(vip_network, vip_networks, member_network);
	SORT(port, ports, port_rule);
	SORT(dscp, dscps, dscp_rule);
#undef SORT
	return check_addresses(settings) || check_ports(settings) ||
			       check_dscps(settings)
		       ? -1
		       : 0;
}
