// SPDX-License-Identifier: Apache-2.0
/* Checking settings and members and converting them to a block's format. */
#include "service/validate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "address.h"
#include "error.h"
#include "state.h"
#include "table/maglev.h"
#include "table/members.h"
#include "table/quic_servers.h"
#include "table/slot_count.h"

#define IDLE_TIMEOUT_DEFAULT 350
#define NAT_TCP_DEFAULT 7440 /* RFC 5382, REQ-5 */
#define NAT_UDP_DEFAULT 300  /* RFC 4787, REQ-5 */
#define IDLE_TIMEOUT_MIN 10
#define IDLE_TIMEOUT_MAX 16000    /* limit of the time field in entries */
#define RATE_MAX ((1U << 22) - 1) /* 1024 times this fits into 32 bits */

/* Types of the outer header to IPv4 and IPv6 members, by encapsulation. */
#define OUTER_OF_IPIP {OUTER_IPIP_V4, OUTER_IPIP_V6}
#define OUTER_OF_GUE {OUTER_GUE_V4, OUTER_GUE_V6}
#define OUTER_OF_GRE {OUTER_GRE_V4, OUTER_GRE_V6}
#define OUTER_OF_DSCP {OUTER_NONE, OUTER_NONE}
#define OUTER_OF_SRV6 {OUTER_NONE, OUTER_IPIP_V6} /* refused with IPv4 */
#define OUTER_OF_GENEVE {OUTER_GENEVE_V4, OUTER_GENEVE_V6}

static const uint8_t outer_types[][2] = {
#define OXP_ENCAPSULATION(name, number, shim, option, text)                    \
	[number] = OUTER_OF_##name,
#include "enumerations.h"
};

#define ENCAPSULATIONS (sizeof(outer_types) / sizeof(*outer_types))

int check_key(const struct oxp_key *key, char *error)
{
	const uint8_t *vip = key->vip.bytes;

	if (key->protocol != IPPROTO_TCP && key->protocol != IPPROTO_UDP &&
	    key->protocol != IPPROTO_SCTP)
		return failure(error, -EPROTONOSUPPORT,
			       "protocol %u is not TCP, UDP or SCTP",
			       key->protocol);
	if (!key->port)
		return failure(error, -EINVAL, "a service at port 0");
	if (is_zero(vip) || (is_v4(vip) ? vip[12] >= 224 : vip[0] == 0xff))
		return failure(error, -EINVAL, "%s cannot be a VIP",
			       address_text(vip));
	return 0;
}

static int check_encapsulation(const struct oxp_service_settings *settings,
			       char *error)
{
	if (settings->encapsulation >= ENCAPSULATIONS)
		return failure(error, -EINVAL, "encapsulation %u is unknown",
			       settings->encapsulation);
	if (settings->encapsulation == OXP_DSCP
		    ? !settings->dscp || settings->dscp > 63
		    : settings->dscp)
		return failure(error, -EINVAL,
			       "a DSCP of %u: 1 to 63 with the encapsulation "
			       "by DSCP, 0 with others",
			       settings->dscp);
	if (settings->sid_function && settings->encapsulation != OXP_SRV6)
		return failure(error, -EINVAL,
			       "a SID function without SRv6 encapsulation");
	return 0;
}

/* `encapsulation`: of the service, or of the member's own tunnel. */
static bool can_carry_alternative(uint8_t encapsulation)
{
	return encapsulation == OXP_GUE || encapsulation == OXP_GENEVE ||
	       encapsulation == OXP_SRV6;
}

static int check_second_chance(const struct oxp_service_settings *settings,
			       const struct oxp_key *key, char *error)
{
	if (!(settings->flags & OXP_SERVICE_SECOND_CHANCE))
		return 0;
	if (key->protocol != IPPROTO_TCP)
		return failure(error, -EPROTONOSUPPORT,
			       "a second chance is for TCP, the protocol is %u",
			       key->protocol);
	if (settings->flags & OXP_SERVICE_SOURCE)
		return failure(error, -EINVAL,
			       "a second chance with OXP_SERVICE_SOURCE, where "
			       "it is clients that stay, not flows");
	if (!can_carry_alternative(settings->encapsulation))
		return failure(error, -EOPNOTSUPP,
			       "a second chance with encapsulation %u: GUE, "
			       "Geneve and SRv6 can carry an alternative",
			       settings->encapsulation);
	return 0;
}

static int check_nat(const struct oxp_service_settings *settings,
		     const struct oxp_key *key, char *error)
{
	const uint32_t others = OXP_SERVICE_SOURCE | OXP_SERVICE_QUIC |
				OXP_SERVICE_SECOND_CHANCE;

	if (!(settings->flags & OXP_SERVICE_NAT)) {
		if (settings->nat_flows || settings->nat_group)
			return failure(error, -EINVAL,
				       "a share of NAT's ports without "
				       "OXP_SERVICE_NAT");
		return 0;
	}
	if (key->protocol == IPPROTO_SCTP)
		return failure(error, -EPROTONOSUPPORT,
			       "NAT is for TCP and UDP: the checksum of SCTP "
			       "covers the whole packet");
	if (settings->flags & others)
		return failure(error, -EINVAL,
			       "NAT with flags 0x%x: its flows are remembered "
			       "one by one, they stay with their member",
			       settings->flags & others);
	if (settings->encapsulation != OXP_IPIP)
		return failure(error, -EINVAL,
			       "NAT with encapsulation %u: its packets have "
			       "none, 0 is wanted",
			       settings->encapsulation);
	if (settings->nat_group >= OXP_NAT_GROUPS)
		return failure(error, -EINVAL,
			       "group %u of NAT's ports: the last one is %d",
			       settings->nat_group, OXP_NAT_GROUPS - 1);
	if (settings->nat_flows > OXP_NAT_FLOWS_MAX)
		return failure(error, -EINVAL, "%u NAT flows, the limit is %d",
			       settings->nat_flows, OXP_NAT_FLOWS_MAX);
	return 0;
}

static int check_limit(const struct oxp_service_settings *settings,
		       const struct oxp_key *key, char *error)
{
	if (!settings->connection_limit) {
		if (settings->flags & OXP_SERVICE_RESET)
			return failure(error, -EINVAL,
				       "resets of connections beyond a limit, "
				       "without a limit");
		return 0;
	}
	if (key->protocol != IPPROTO_TCP)
		return failure(error, -EPROTONOSUPPORT,
			       "a limit of connections is for TCP, the "
			       "protocol is %u",
			       key->protocol);
	if (!(settings->flags & OXP_SERVICE_NAT))
		return failure(error, -EINVAL,
			       "a limit of connections without NAT");
	return 0;
}

static int check_settings(const struct oxp_service_settings *settings,
			  const struct oxp_key *key, char *error)
{
	const uint32_t known = OXP_SERVICE_SOURCE | OXP_SERVICE_QUIC |
			       OXP_SERVICE_SECOND_CHANCE | OXP_SERVICE_NAT |
			       OXP_SERVICE_RESET;
	int status;

	if (settings->flags & ~known)
		return failure(error, -EINVAL, "flags 0x%x are unknown",
			       settings->flags & ~known);
	if (settings->flags & OXP_SERVICE_QUIC && key->protocol != IPPROTO_UDP)
		return failure(error, -EINVAL,
			       "QUIC is for UDP, the protocol is %u",
			       key->protocol);
	if (settings->source_length_v4 > 32 || settings->source_length_v6 > 128)
		return failure(
			error, -EINVAL, "source prefixes of %u and %u bits",
			settings->source_length_v4, settings->source_length_v6);
	if ((settings->source_length_v4 || settings->source_length_v6) &&
	    !(settings->flags & OXP_SERVICE_SOURCE))
		return failure(error, -EINVAL,
			       "source prefixes without OXP_SERVICE_SOURCE");
	if (settings->idle_timeout_s &&
	    (settings->idle_timeout_s < IDLE_TIMEOUT_MIN ||
	     settings->idle_timeout_s > IDLE_TIMEOUT_MAX))
		return failure(error, -EINVAL,
			       "an idle timeout of %u s, wanted are %u to %u",
			       settings->idle_timeout_s, IDLE_TIMEOUT_MIN,
			       IDLE_TIMEOUT_MAX);
	if (settings->new_flow_rate > RATE_MAX ||
	    settings->new_flow_burst > RATE_MAX)
		return failure(
			error, -EINVAL,
			"%u new flows a second, burst %u: the limit is %u",
			settings->new_flow_rate, settings->new_flow_burst,
			RATE_MAX);
	if (settings->new_flow_burst && !settings->new_flow_rate)
		return failure(error, -EINVAL,
			       "a burst of new flows without a rate");
	status = check_encapsulation(settings, error);
	if (!status)
		status = check_second_chance(settings, key, error);
	if (!status)
		status = check_limit(settings, key, error);
	return status ? status : check_nat(settings, key, error);
}

static bool is_host(const uint8_t *address)
{
	return !is_zero(address) &&
	       (is_v4(address) ? address[12] < 224 : address[0] != 0xff);
}

static int check_key_of_tunnel(const struct oxp_tunnel *tunnel,
			       const uint8_t *member, char *error)
{
	uint32_t last;

	memcpy(&last, tunnel->address.bytes + 12, sizeof(last));
	switch (tunnel->encapsulation) {
	case OXP_GENEVE:
		if (tunnel->key > OXP_VNI_MAX)
			return failure(error, -ERANGE,
				       "member %s: the key %u of its tunnel, "
				       "the limit of Geneve is %d",
				       address_text(member), tunnel->key,
				       OXP_VNI_MAX);
		return 0;
	case OXP_SRV6:
		if (tunnel->key && last)
			return failure(error, -EINVAL,
				       "member %s: its tunnel has a key, and "
				       "an address whose last 32 bits are not "
				       "0, where SRv6 has it",
				       address_text(member));
		return 0;
	default:
		if (tunnel->key)
			return failure(error, -EINVAL,
				       "member %s: the key %u of its tunnel, "
				       "whose encapsulation carries none",
				       address_text(member), tunnel->key);
		return 0;
	}
}

/* Parse a member's own tunnel: type and destination of the outer header. */
static int parse_tunnel(const struct oxp_tunnel *tunnel,
			struct block_member *out, char *error)
{
	const uint8_t *address = tunnel->address.bytes;
	const uint8_t *member = (const uint8_t *)out->address;
	__be32 key = htonl(tunnel->key);
	int status;

	if (!is_host(address))
		return failure(error, -EINVAL,
			       "member %s: a tunnel to %.45s, which is no "
			       "host's address",
			       address_text(member),
			       is_zero(address) ? "nowhere" : "a group");
	if (tunnel->encapsulation >= ENCAPSULATIONS ||
	    tunnel->encapsulation == OXP_DSCP)
		return failure(error, -EINVAL,
			       "member %s: encapsulation %u of its tunnel is "
			       "none",
			       address_text(member), tunnel->encapsulation);
	if (tunnel->encapsulation == OXP_SRV6 && is_v4(address))
		return failure(error, -EAFNOSUPPORT,
			       "member %s: a tunnel by SRv6 to an IPv4 address",
			       address_text(member));
	if (tunnel->takes_alternative &&
	    !can_carry_alternative(tunnel->encapsulation))
		return failure(error, -EOPNOTSUPP,
			       "member %s: alternatives in a tunnel with "
			       "encapsulation %u: GUE, Geneve and SRv6 can "
			       "carry one",
			       address_text(member), tunnel->encapsulation);
	status = check_key_of_tunnel(tunnel, member, error);
	if (status)
		return status;
	out->outer_type = outer_types[tunnel->encapsulation][!is_v4(address)];
	out->tunnel = tunnel->encapsulation + 1;
	out->key = tunnel->key;
	out->keeps_port = !!tunnel->keeps_port;
	out->takes_alternative = !!tunnel->takes_alternative;
	memcpy(out->outer, address, sizeof(out->outer));
	if (tunnel->encapsulation == OXP_SRV6)
		out->outer[3] |= key;
	return 0;
}

static bool has_tunnel(const struct oxp_tunnel *tunnel)
{
	static const struct oxp_tunnel none;

	return memcmp(tunnel, &none, sizeof(none)) != 0;
}

/* Use the service's encapsulation, to the member's own address. */
static int parse_outer(const struct oxp_service_settings *settings,
		       const struct oxp_key *key, struct block_member *member,
		       char *error)
{
	bool v4 = is_v4(member->address);
	uint8_t encapsulation = settings->encapsulation;

	if (encapsulation == OXP_SRV6 && v4)
		return failure(error, -EAFNOSUPPORT,
			       "member %s: SRv6 needs members with IPv6",
			       address_text(member->address));
	if (encapsulation == OXP_DSCP && v4 != is_v4(key->vip.bytes))
		return failure(error, -EAFNOSUPPORT,
			       "member %s: by DSCP members must be of the "
			       "VIP's family",
			       address_text(member->address));
	member->outer_type = outer_types[encapsulation][!v4];
	memcpy(member->outer, member->address, sizeof(member->outer));
	if (settings->flags & OXP_SERVICE_NAT)
		member->outer_type = OUTER_NONE;
	if (settings->sid_function) {
		__be16 function = htons(settings->sid_function);

		memcpy((char *)member->outer + 14, &function, 2);
	}
	return 0;
}

static int parse_member(const struct oxp_member *wanted,
			const struct oxp_service_settings *settings,
			const struct oxp_key *key, struct block_member *out,
			char *error)
{
	const uint8_t *address = wanted->address.bytes;
	int status;

	if (!is_host(address))
		return failure(error, -EINVAL, "%s cannot be a member",
			       address_text(address));
	if (wanted->weight > OXP_WEIGHT_MAX)
		return failure(error, -EINVAL,
			       "member %s: a weight of %u, the limit is %d",
			       address_text(address), wanted->weight,
			       OXP_WEIGHT_MAX);
	if (wanted->port && key->protocol == IPPROTO_SCTP)
		return failure(
			error, -EPROTONOSUPPORT,
			"member %s: a port of its own, and the protocol "
			"is SCTP, whose checksum covers the whole packet",
			address_text(address));
	if (settings->flags & OXP_SERVICE_NAT && has_tunnel(&wanted->tunnel))
		return failure(error, -EINVAL,
			       "member %s: a tunnel, and the service is NAT",
			       address_text(address));
	*out = (struct block_member){
		.mtu = wanted->mtu,
		.check = wanted->check,
		.weight = wanted->weight,
		.port = htons(wanted->port),
		.flags = MEMBER_PRESENT,
	};
	if (wanted->admin_up)
		out->flags |= MEMBER_ADMIN_UP;
	if (wanted->backup)
		out->flags |= MEMBER_BACKUP;
	memcpy(out->address, address, sizeof(out->address));
	status = has_tunnel(&wanted->tunnel)
			 ? parse_tunnel(&wanted->tunnel, out, error)
			 : parse_outer(settings, key, out, error);
	if (status)
		return status;
	if (wanted->mtu &&
	    wanted->mtu < (is_v4((uint8_t *)out->outer) ? 68 : 1280))
		return failure(error, -EINVAL, "member %s: an MTU of %u",
			       address_text(address), wanted->mtu);
	if (settings->flags & OXP_SERVICE_SECOND_CHANCE &&
	    (!out->tunnel || out->takes_alternative))
		out->alternative = is_v4((uint8_t *)out->outer)
					   ? OXP_ALTERNATIVE_V4
					   : OXP_ALTERNATIVE_V6;
	if (out->port && !out->keeps_port)
		out->outer_type |= OUTER_PORT;
	return 0;
}

int parse_target(const struct oxp_service_settings *settings,
		 const struct oxp_address *vip,
		 const struct oxp_address *address, uint16_t port,
		 const struct oxp_tunnel *tunnel, struct block_member *out,
		 char *error)
{
	const struct oxp_key key = {
		.vip = *vip, .port = 1, .protocol = IPPROTO_TCP};
	const struct oxp_member member = {
		.address = *address, .port = port, .tunnel = *tunnel};
	int status = check_key(&key, error);

	if (!status)
		status = check_encapsulation(settings, error);
	if (!status)
		status = parse_member(&member, settings, &key, out, error);
	return status;
}

static int check_unique(const struct service_block *draft, char *error)
{
	uint16_t sorted[OXP_MEMBERS_MAX];
	uint32_t count = sorted_members(draft, sorted);

	for (uint32_t i = 1; i < count; i++) {
		const struct block_member *one = &draft->member[sorted[i - 1]];

		if (!is_same_member(one, &draft->member[sorted[i]]))
			continue;
		if (!one->port)
			return failure(error, -EINVAL,
				       "two members with the address %s",
				       address_text(one->address));
		return failure(error, -EINVAL,
			       "two members with the address %s and port %u",
			       address_text(one->address), ntohs(one->port));
	}
	return 0;
}

static uint16_t default_timeout(const struct oxp_service_settings *settings,
				const struct oxp_key *key)
{
	if (!(settings->flags & OXP_SERVICE_NAT))
		return IDLE_TIMEOUT_DEFAULT;
	return key->protocol == IPPROTO_TCP ? NAT_TCP_DEFAULT : NAT_UDP_DEFAULT;
}

int parse_wanted(struct oxp_node *node, const struct oxp_wanted_service *wanted,
		 struct service_block *draft, char *error)
{
	static const struct oxp_service_settings usual;
	const struct oxp_service_settings *settings =
		wanted->settings ? wanted->settings : &usual;
	uint32_t slots = settings->slots;
	int status = check_settings(settings, &wanted->key, error);

	if (status)
		return status;
	if (slots && (slots > node->config->slots_max || !is_prime(slots)))
		return failure(
			error, -EINVAL,
			"a table of %u slots, wanted is a prime up to %u",
			slots, node->config->slots_max);
	if (wanted->count > OXP_MEMBERS_MAX)
		return failure(error, -E2BIG, "%u members, the limit is %d",
			       wanted->count, OXP_MEMBERS_MAX);
	memset(draft, 0, offsetof(struct service_block, member));
	draft->slots = slots;
	draft->flags = settings->flags;
	draft->encapsulation = settings->encapsulation;
	draft->dscp = settings->dscp;
	draft->sid_function = htons(settings->sid_function);
	draft->source_length_v4 =
		settings->source_length_v4 ? settings->source_length_v4 : 32;
	draft->source_length_v6 =
		settings->source_length_v6 ? settings->source_length_v6 : 128;
	draft->idle_timeout_s =
		settings->idle_timeout_s
			? settings->idle_timeout_s
			: default_timeout(settings, &wanted->key);
	if (settings->flags & OXP_SERVICE_NAT) {
		draft->nat_group = settings->nat_group;
		draft->nat_flows = (settings->nat_flows + NAT_FLOWS_UNIT - 1) /
				   NAT_FLOWS_UNIT;
	}
	draft->new_flow_rate = settings->new_flow_rate;
	draft->new_flow_burst = settings->new_flow_burst
					? settings->new_flow_burst
					: settings->new_flow_rate;
	draft->members = wanted->count;
	for (uint32_t i = 0; i < wanted->count && !status; i++)
		status = parse_member(&wanted->members[i], settings,
				      &wanted->key, &draft->member[i], error);
	if (!status && !slots)
		draft->slots = slot_count(draft->member, draft->members,
					  node->config->slots_max);
	if (!status)
		status = check_unique(draft, error);
	if (!status && draft->flags & OXP_SERVICE_QUIC)
		status = check_quic_servers(draft, error);
	return status;
}
