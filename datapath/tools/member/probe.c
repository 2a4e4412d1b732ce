// SPDX-License-Identifier: Apache-2.0
/*
 * Sends packets like those of LB nodes through BPF_PROG_TEST_RUN, to a copy of
 * the attached program with the same maps and settings but counters of its own:
 * the attached program's only count traffic.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "tool.h"

#define FRAME_MAX 256
#define LINK 14
#define DISCARD 9

struct frame {
	uint8_t data[FRAME_MAX];
	size_t length;
};

static void put16(uint8_t *at, unsigned int value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static uint16_t sum16(uint32_t sum, const uint8_t *data, size_t length)
{
	for (size_t i = 0; i + 1 < length; i += 2)
		sum += data[i] << 8 | data[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static size_t put_ip(uint8_t *at, uint8_t protocol, size_t payload,
		     const struct ip_address *from, const struct ip_address *to,
		     uint8_t tos)
{
	if (is_v4(to)) {
		memset(at, 0, 20);
		at[0] = 0x45;
		at[1] = tos;
		put16(at + 2, 20 + payload);
		at[8] = 64;
		at[9] = protocol;
		memcpy(at + 12, from->bytes + 12, 4);
		memcpy(at + 16, to->bytes + 12, 4);
		put16(at + 10, (uint16_t)~sum16(0, at, 20));
		return 20;
	}
	memset(at, 0, 8);
	at[0] = 0x60 | tos >> 4;
	at[1] = tos << 4;
	put16(at + 4, payload);
	at[6] = protocol;
	at[7] = 64;
	memcpy(at + 8, from->bytes, 16);
	memcpy(at + 24, to->bytes, 16);
	return 40;
}

/* In UDP 0 means no checksum (RFC 768), so 0 is sent as 0xffff. */
static void put_checksum(uint8_t *l4, uint8_t protocol, uint16_t sum)
{
	if (protocol == IPPROTO_TCP)
		put16(l4 + 16, sum);
	else
		put16(l4 + 6, sum ? sum : 0xffff);
}

/* A packet from a client to a VIP, without payload; the transport's checksum
 * uses `pseudo` instead of `to`. */
static size_t put_client(uint8_t *at, uint8_t protocol,
			 const struct ip_address *to, uint8_t tos,
			 unsigned int port, const struct ip_address *pseudo)
{
	size_t length = protocol == IPPROTO_TCP ? 20 : 8;
	struct ip_address from = {};
	size_t header;
	uint8_t *l4;
	uint32_t sum;

	parse_address(is_v4(to) ? "192.0.2.1" : "2001:db8::1", &from);
	header = put_ip(at, protocol, length, &from, to, tos);
	l4 = at + header;
	memset(l4, 0, length);
	put16(l4, 40000);
	put16(l4 + 2, port);
	if (protocol == IPPROTO_TCP) {
		l4[12] = 0x50;
		l4[13] = 2; /* SYN */
	} else {
		put16(l4 + 4, length);
	}
	/* the 0xffff of a mapped address adds zero */
	sum = sum16(protocol + length, from.bytes, 16);
	sum = sum16(sum, pseudo->bytes, 16);
	put_checksum(l4, protocol, ~sum16(sum, l4, length));
	return header + length;
}

static void begin_frame(struct frame *frame, bool v4)
{
	memset(frame, 0, sizeof(*frame));
	frame->data[0] = frame->data[6] = 2;
	put16(frame->data + 12, v4 ? 0x0800 : 0x86dd);
	frame->length = LINK;
}

struct attempt {
	const struct settings *settings;
	int program;
	char *text;
	size_t length;
	int tried;
};

static int run_frame(struct attempt *attempt, const struct frame *in,
		     const struct frame *expected, const char *what)
{
	struct frame out = {};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in->data,
		    .data_size_in = in->length, .data_out = out.data,
		    .data_size_out = FRAME_MAX);
	__u32 pass = attempt->settings->mode == MODE_TC ? (__u32)-1 : 2;

	attempt->tried++;
	if (bpf_prog_test_run_opts(attempt->program, &options)) {
		snprintf(attempt->text, attempt->length,
			 "%s could not be tried", what);
		return -1;
	}
	if (options.retval == pass &&
	    options.data_size_out == expected->length &&
	    !memcmp(out.data, expected->data, expected->length))
		return 0;
	snprintf(attempt->text, attempt->length,
		 "%s was not rewritten as expected: run setup again", what);
	return -1;
}

static int probe_tunnel(struct attempt *attempt, const struct ip_address *node,
			const struct ip_address *own,
			const struct ip_address *vip, uint8_t protocol,
			unsigned int port, unsigned int local)
{
	char what[256], one[ADDRESS_TEXT], other[ADDRESS_TEXT];
	struct frame in, expected;
	uint8_t inner[64];
	size_t length = put_client(inner, protocol, vip, 0, port, vip);

	begin_frame(&in, is_v4(own));
	in.length +=
		put_ip(in.data + LINK, is_v4(vip) ? IPPROTO_IPIP : IPPROTO_IPV6,
		       length, node, own, 0);
	memcpy(in.data + in.length, inner, length);
	in.length += length;
	begin_frame(&expected, is_v4(vip));
	expected.length +=
		put_client(expected.data + LINK, protocol, vip, 0, local, vip);
	snprintf(what, sizeof(what), "a tunnel packet to %s for %s, port %u",
		 address_text(own, one), address_text(vip, other), port);
	return run_frame(attempt, &in, &expected, what);
}

/* A possible source of LB nodes of that family; NULL: none. */
static const struct ip_address *find_node(const struct settings *settings,
					  bool v4)
{
	static struct ip_address any;

	for (__u32 i = 0; i < settings->nodes; i++)
		if (is_v4(&settings->node[i].address) == v4)
			return &settings->node[i].address;
	if (!(settings->flags & ANY_SOURCE))
		return NULL;
	parse_address(v4 ? "198.51.100.1" : "2001:db8::2", &any);
	return &any;
}

/* The member's port for packets to the VIP's `port`. */
static unsigned int local_port(const struct settings *settings,
			       const struct ip_address *vip, uint8_t protocol,
			       unsigned int port)
{
	for (__u32 i = 0; i < settings->ports; i++)
		if (!memcmp(&settings->port[i].key.vip, vip, sizeof(*vip)) &&
		    settings->port[i].key.protocol == protocol &&
		    !settings->port[i].answers_only &&
		    ntohs(settings->port[i].key.port) == port)
			return ntohs(settings->port[i].local);
	return port;
}

static int probe_own(struct attempt *attempt, const struct ip_address *own)
{
	const struct settings *settings = attempt->settings;
	const struct ip_address *node = find_node(settings, is_v4(own));

	for (__u32 i = 0; node && i < settings->vips; i++)
		if (probe_tunnel(attempt, node, own, &settings->vip[i],
				 IPPROTO_UDP, DISCARD,
				 local_port(settings, &settings->vip[i],
					    IPPROTO_UDP, DISCARD)))
			return -1;
	for (__u32 i = 0; node && i < settings->vip_networks; i++) {
		struct ip_address vip = settings->vip_network[i].address;

		/* no load balancer's, and no own address either as a rule */
		if (settings->vip_network[i].bits < 128)
			vip.bytes[15] |= 1;
		if (probe_tunnel(
			    attempt, node, own, &vip, IPPROTO_UDP, DISCARD,
			    local_port(settings, &vip, IPPROTO_UDP, DISCARD)))
			return -1;
	}
	for (__u32 i = 0; node && i < settings->ports; i++) {
		const struct port_rule *rule = &settings->port[i];
		__be16 port = rule->answers_only ? rule->local : rule->key.port;

		if (probe_tunnel(attempt, node, own, &rule->key.vip,
				 rule->key.protocol, ntohs(port),
				 ntohs(rule->local)))
			return -1;
	}
	for (__u32 i = 0; i < settings->dscps; i++) {
		const struct dscp_rule *rule = &settings->dscp[i];
		struct frame in, expected;
		char what[128], text[RULE_TEXT];

		if (is_v4(&rule->vip) != is_v4(own))
			continue;
		begin_frame(&in, is_v4(own));
		in.length += put_client(in.data + LINK, IPPROTO_UDP, own,
					rule->dscp << 2, DISCARD, own);
		begin_frame(&expected, is_v4(own));
		expected.length += put_client(
			expected.data + LINK, IPPROTO_UDP, &rule->vip,
			rule->dscp << 2,
			local_port(settings, &rule->vip, IPPROTO_UDP, DISCARD),
			&rule->vip);
		snprintf(what, sizeof(what), "a packet for DSCP %s",
			 dscp_text(rule, text));
		if (run_frame(attempt, &in, &expected, what))
			return -1;
	}
	return 0;
}

int probe(const struct settings *settings, int attached, char *text,
	  size_t length)
{
	struct member *object = load_copy(settings, attached, text, length);
	struct attempt attempt = {
		.settings = settings, .text = text, .length = length};
	int status = 0;

	if (!object)
		return -1;
	attempt.program = bpf_program__fd(
		settings->mode == MODE_TC ? object->progs.oxp_member_in
					  : object->progs.oxp_member_xdp);
	if (!same_code(attempt.program, attached)) {
		snprintf(text, length,
			 "the attached program is another version's: run setup "
			 "again");
		status = -1;
	}
	for (__u32 i = 0; i < settings->owns && !status; i++)
		status = probe_own(&attempt, &settings->own[i]);
	member__destroy(object);
	return status ? -1 : attempt.tried;
}
