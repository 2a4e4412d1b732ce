// SPDX-License-Identifier: Apache-2.0
/* Parses and formats addresses, networks and rules. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool is_v4(const struct ip_address *address)
{
	return !memcmp(address->bytes, v4_prefix, sizeof(v4_prefix));
}

int parse_address(const char *text, struct ip_address *out)
{
	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, out->bytes + 12) == 1) {
		memcpy(out->bytes, v4_prefix, sizeof(v4_prefix));
		return 0;
	}
	if (inet_pton(AF_INET6, text, out->bytes) != 1 || is_v4(out))
		return -1;
	return 0;
}

int parse_number(const char *text, long low, long high, long *out)
{
	char *end;

	/* strtol() would accept spaces and a sign. */
	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*out = strtol(text, &end, 10);
	return errno || *end || *out < low || *out > high ? -1 : 0;
}

int parse_network(const char *text, struct member_network *out)
{
	char copy[ADDRESS_TEXT];
	char *slash;
	long bits;

	memset(out, 0, sizeof(*out));
	if (strlen(text) >= sizeof(copy))
		return -1;
	strcpy(copy, text);
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	if (parse_address(copy, &out->address))
		return -1;
	bits = is_v4(&out->address) ? 32 : 128;
	if (slash && parse_number(slash, 0, bits, &bits))
		return -1;
	out->bits = bits + (is_v4(&out->address) ? 96 : 0);
	/* no bits after the prefix */
	for (unsigned int bit = out->bits; bit < 128; bit++)
		if (out->address.bytes[bit / 8] & 0x80 >> bit % 8)
			return -1;
	return 0;
}

/* Splits "ADDRESS:PORT" or "[ADDRESS]:PORT" in place. */
static int split_port(char *text, struct ip_address *address, long *port)
{
	char *colon = strrchr(text, ':');
	size_t length;

	if (!colon)
		return -1;
	*colon++ = '\0';
	length = strlen(text);
	if (*text == '[' && text[length - 1] == ']') {
		text[length - 1] = '\0';
		text++;
	} else if (strchr(text, ':')) {
		return -1;
	}
	return parse_address(text, address) ||
	       parse_number(colon, 1, 65535, port);
}

const char *parse_port_rule(const char *text, struct port_rule *out)
{
	char copy[RULE_TEXT], *protocol, *local;
	long number;

	memset(out, 0, sizeof(*out));
	if (strlen(text) >= sizeof(copy))
		return "too long";
	strcpy(copy, text);
	local = strchr(copy, '=');
	protocol = strchr(copy, '/');
	if (!local || !protocol || protocol > local)
		return "must be VIP:PORT/PROTOCOL=LOCAL, with an IPv6 VIP in "
		       "brackets";
	*local++ = '\0';
	*protocol++ = '\0';
	if (!strcasecmp(protocol, "tcp"))
		out->key.protocol = IPPROTO_TCP;
	else if (!strcasecmp(protocol, "udp"))
		out->key.protocol = IPPROTO_UDP;
	else if (!strcasecmp(protocol, "sctp"))
		return "SCTP's ports can't be rewritten, its CRC covers the "
		       "whole packet; let the server listen on the listener's "
		       "port";
	else
		return "the protocol must be tcp or udp";
	if (parse_number(local, 1, 65535, &number))
		return "LOCAL must be a port, 1 to 65535";
	out->local = htons(number);
	if (split_port(copy, &out->key.vip, &number))
		return "VIP:PORT must be an address and a port, 1 to 65535, "
		       "with an IPv6 address in brackets";
	out->key.port = htons(number);
	return NULL;
}

const char *parse_dscp_rule(const char *text, struct dscp_rule *out)
{
	char copy[RULE_TEXT], *vip;
	long number;

	memset(out, 0, sizeof(*out));
	if (strlen(text) >= sizeof(copy))
		return "too long";
	strcpy(copy, text);
	vip = strchr(copy, '=');
	if (!vip)
		return "must be DSCP=VIP";
	*vip++ = '\0';
	if (parse_number(copy, 1, MEMBER_DSCPS - 1, &number))
		return "the DSCP must be 1 to 63";
	if (parse_address(vip, &out->vip))
		return "the VIP must be an IPv4 or IPv6 address";
	out->dscp = number;
	return NULL;
}

bool is_known(const struct record *record)
{
	return record->version == RECORD_VERSION;
}

const char *address_text(const struct ip_address *address, char *out)
{
	if (is_v4(address))
		return inet_ntop(AF_INET, address->bytes + 12, out,
				 ADDRESS_TEXT);
	return inet_ntop(AF_INET6, address->bytes, out, ADDRESS_TEXT);
}

const char *network_text(const struct member_network *network, char *out)
{
	size_t length;

	address_text(&network->address, out);
	length = strlen(out);
	snprintf(out + length, ADDRESS_TEXT - length, "/%u",
		 network->bits - (is_v4(&network->address) ? 96 : 0));
	return out;
}

const char *port_text(const struct port_rule *rule, char *out)
{
	char vip[ADDRESS_TEXT];
	bool v4 = is_v4(&rule->key.vip);

	address_text(&rule->key.vip, vip);
	snprintf(out, RULE_TEXT, "%s%s%s:%u/%s=%u", v4 ? "" : "[", vip,
		 v4 ? "" : "]", ntohs(rule->key.port),
		 rule->key.protocol == IPPROTO_TCP ? "tcp" : "udp",
		 ntohs(rule->local));
	return out;
}

const char *dscp_text(const struct dscp_rule *rule, char *out)
{
	char vip[ADDRESS_TEXT];

	snprintf(out, RULE_TEXT, "%u=%s", rule->dscp,
		 address_text(&rule->vip, vip));
	return out;
}

const char *mode_text(unsigned int mode)
{
	static const char *const names[] = {
		[MODE_XDP] = "xdp",
		[MODE_GENERIC] = "generic",
		[MODE_TC] = "tc",
	};

	return names[mode];
}
