// SPDX-License-Identifier: Apache-2.0
/* The member's programs if listeners and servers have different ports: in both
 * directions, and in ICMP errors. */
#include "member_rewrite_fixture.h"

static const struct member_config ports = {.has_ports = 1};

static void check_out(const struct packet *sent, const struct packet *seen)
{
	struct frame in, expected;

	for (unsigned int tags = 0; tags < 3; tags++) {
		make_plain(&in, sent, tags);
		make_plain(&expected, seen, tags);
		expect_out(&bench, &in, &expected);
	}
}

/* Clients send to one port, the server sees the other. */
static void check_port_in(bool v6, uint8_t protocol, uint16_t sent_to,
			  uint16_t seen_at)
{
	struct packet sent = request(v6, protocol, sent_to);
	struct packet seen = request(v6, protocol, seen_at);

	check_in(&sent, &seen);
}

static void check_port_out(bool v6, uint8_t protocol, uint16_t sent_from,
			   uint16_t seen_from)
{
	struct packet sent = answer(v6, protocol, sent_from);
	struct packet seen = answer(v6, protocol, seen_from);

	check_out(&sent, &seen);
}

TEST(test_listeners_port_becomes_the_members)
{
	struct packet sent, seen;

	begin(state, &ports);
	for (int v6 = 0; v6 < 2; v6++) {
		check_port_in(v6, IPPROTO_TCP, LISTENER, LOCAL);
		check_port_in(v6, IPPROTO_TCP, LOCAL, 9090);
		check_port_in(v6, IPPROTO_UDP, LISTENER, LOCAL + 1);
		sent = request(v6, IPPROTO_TCP, LISTENER);
		seen = request(v6, IPPROTO_TCP, LOCAL);
		sent.extensions = seen.extensions = v6;
		check_in(&sent, &seen);
		sent = request(v6, IPPROTO_UDP, LISTENER);
		seen = request(v6, IPPROTO_UDP, LOCAL + 1);
		sent.no_checksum = seen.no_checksum = true;
		check_in(&sent, &seen);
	}
	assert_int_equal(counter(&bench, MEMBER_PORT_IN), 2 * 5 * KINDS);
}

TEST(test_other_ports_and_sctp_are_left)
{
	struct packet sent;

	begin(state, &ports);
	for (int v6 = 0; v6 < 2; v6++) {
		sent = request(v6, IPPROTO_TCP, LISTENER + 1);
		check_in(&sent, &sent);
		sent = request(v6, IPPROTO_UDP, LOCAL);
		check_in(&sent, &sent);
		sent = request(v6, IPPROTO_SCTP, LISTENER);
		check_in(&sent, &sent);
		sent = answer(v6, IPPROTO_TCP, 9999);
		check_out(&sent, &sent);
		sent = answer(v6, IPPROTO_SCTP, LOCAL);
		check_out(&sent, &sent);
		/* not from a VIP */
		sent = answer(v6, IPPROTO_TCP, LOCAL);
		sent.from = v6 ? OWN6 : OWN;
		check_out(&sent, &sent);
	}
	assert_int_equal(counter(&bench, MEMBER_PORT_IN), 0);
	assert_int_equal(counter(&bench, MEMBER_PORT_OUT), 0);
}

TEST(test_answers_have_the_listeners_port)
{
	struct packet sent, seen;

	begin(state, &ports);
	for (int v6 = 0; v6 < 2; v6++) {
		check_port_out(v6, IPPROTO_TCP, LOCAL, LISTENER);
		check_port_out(v6, IPPROTO_TCP, 9090, LOCAL);
		check_port_out(v6, IPPROTO_UDP, LOCAL + 1, LISTENER);
		sent = answer(v6, IPPROTO_UDP, LOCAL + 1);
		seen = answer(v6, IPPROTO_UDP, LISTENER);
		sent.no_checksum = seen.no_checksum = true;
		check_out(&sent, &seen);
	}
	assert_int_equal(counter(&bench, MEMBER_PORT_OUT), 2 * 4 * 3);
}

/* A UDP checksum of 0 is sent as 0xffff, as 0 means none. */
TEST(test_udp_checksum_of_0_is_sent_as_0xffff)
{
	uint8_t payload[2];
	unsigned int found = 0;
	struct packet sent, seen;

	begin(state, &ports);
	for (int v6 = 0; v6 < 2; v6++) {
		for (unsigned int i = 0; i < 0x10000; i++) {
			struct frame frame;

			payload[0] = i >> 8;
			payload[1] = i;
			seen = request(v6, IPPROTO_UDP, LOCAL + 1);
			seen.payload = payload;
			seen.length = sizeof(payload);
			make_plain(&frame, &seen, 0);
			if (frame.data[frame.length - 4] != 0xff ||
			    frame.data[frame.length - 3] != 0xff)
				continue;
			found++;
			sent = seen;
			sent.to_port = LISTENER;
			check_in(&sent, &seen);
			break;
		}
	}
	assert_int_equal(found, 2);
}

TEST(test_first_fragments_alone_have_a_port)
{
	struct packet sent, seen;

	begin(state, &ports);
	for (int v6 = 0; v6 < 2; v6++) {
		sent = request(v6, IPPROTO_UDP, LISTENER);
		seen = request(v6, IPPROTO_UDP, LOCAL + 1);
		sent.length = seen.length = 64;
		sent.fragment = seen.fragment = 0x2000;
		check_in(&sent, &seen);
		sent.fragment = 0x2009;
		check_in(&sent, &sent);
		sent = answer(v6, IPPROTO_UDP, LOCAL + 1);
		seen = answer(v6, IPPROTO_UDP, LISTENER);
		sent.length = seen.length = 64;
		sent.fragment = seen.fragment = 0x2000;
		check_out(&sent, &seen);
		sent.fragment = 9;
		check_out(&sent, &sent);
	}
}

/* Quotes of minimal length, and long ones. */
TEST(test_ports_quoted_by_icmp_errors_are_rewritten)
{
	static const size_t lengths[] = {8, 12, 20, 40};
	uint8_t one[128], other[128];
	struct packet sent, seen, quoted;
	size_t header;

	begin(state, &ports);
	for (int i = 0; i < 2 * 4; i++) {
		bool v6 = i & 1;

		header = (v6 ? 40 : 20) + lengths[i / 2];
		/* the network quotes what the client would have received */
		quoted = answer(v6, IPPROTO_TCP, LISTENER);
		make_error(&sent, one, &quoted, header);
		quoted = answer(v6, IPPROTO_TCP, LOCAL);
		make_error(&seen, other, &quoted, header);
		/* the quoted checksum is not changed */
		if (lengths[i / 2] > 16)
			memcpy(other + header - lengths[i / 2] + 16,
			       one + header - lengths[i / 2] + 16, 2);
		check_in(&sent, &seen);

		/* the member quotes what it received */
		quoted = request(v6, IPPROTO_TCP, LOCAL);
		make_error(&sent, one, &quoted, header);
		quoted = request(v6, IPPROTO_TCP, LISTENER);
		make_error(&seen, other, &quoted, header);
		if (lengths[i / 2] > 16)
			memcpy(other + header - lengths[i / 2] + 16,
			       one + header - lengths[i / 2] + 16, 2);
		sent.from = seen.from = v6 ? VIP6 : VIP;
		sent.to = seen.to = v6 ? CLIENT6 : CLIENT;
		check_out(&sent, &seen);
	}
	assert_int_equal(counter(&bench, MEMBER_ERROR_IN), 2 * 4 * KINDS);
	assert_int_equal(counter(&bench, MEMBER_ERROR_OUT), 2 * 4 * 3);
}

TEST(test_quotes_of_other_ports_are_left)
{
	uint8_t payload[128];
	struct packet error, quoted;

	begin(state, &ports);
	for (int v6 = 0; v6 < 2; v6++) {
		size_t header = v6 ? 40 : 20;

		quoted = answer(v6, IPPROTO_TCP, LISTENER + 1);
		make_error(&error, payload, &quoted, header + 8);
		check_in(&error, &error);
		/* a ping with the same bytes is not an error */
		quoted = answer(v6, IPPROTO_TCP, LISTENER);
		make_error(&error, payload, &quoted, header + 8);
		error.type = v6 ? 128 : 8;
		check_in(&error, &error);
		/* too short to quote a port, or an address */
		make_error(&error, payload, &quoted, header);
		check_in(&error, &error);
		make_error(&error, payload, &quoted, header - 1);
		check_in(&error, &error);
		/* an error in one family about a packet of the other */
		quoted = answer(!v6, IPPROTO_TCP, LISTENER);
		make_error(&error, payload, &quoted, (v6 ? 20 : 40) + 8);
		error.from = v6 ? CLIENT6 : CLIENT;
		error.to = v6 ? VIP6 : VIP;
		error.protocol = v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
		error.type = v6 ? 2 : 3;
		check_in(&error, &error);
		/* a later fragment quotes no ports */
		quoted = answer(v6, IPPROTO_TCP, LISTENER);
		quoted.fragment = 9;
		quoted.length = 64;
		make_error(&error, payload, &quoted, header + (v6 ? 16 : 8));
		check_in(&error, &error);
	}
	assert_int_equal(counter(&bench, MEMBER_ERROR_IN), 0);
}

RUN_TESTS(NULL, NULL)
