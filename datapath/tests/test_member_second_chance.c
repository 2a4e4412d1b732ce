// SPDX-License-Identifier: Apache-2.0
/*
 * Packets that name an alternative: taken where their connection is, otherwise
 * handed on complete, without the alternative. Connections are real, over
 * loopback.
 */
#include "member_second_chance_fixture.h"

static const struct member_config hands_on = {.hands_on = 1};

/* A packet of the connection here, acknowledging `more` bytes beyond it. */
static void name_own(unsigned int n, int64_t more, struct packet *packet,
		     struct outer *outer)
{
	name(n, packet, outer);
	packet->from_port = HERE;
	packet->acknowledged =
		acknowledged_by_client(!is_ipv4(packet->to)) + more;
}

TEST(test_packets_of_connections_elsewhere_are_handed_on)
{
	static const uint8_t flags[] = {ACK, ACK | 1, RST, ACK | SYN};
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++)
		for (int i = 0; i < 4; i++) {
			name(n, &packet, &outer);
			packet.flags = flags[i];
			packet.tos = 0x28;
			expect_second_chance(&packet, &outer);
		}
}

TEST(test_packets_of_connections_here_are_taken)
{
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		name_own(n, 0, &packet, &outer);
		expect_taken_here(&packet, &outer, &packet);
	}
	assert_int_equal(all_counters(&bench), NAMED);
}

/* A socket left here by an earlier connection of the same port. */
#define SENT (4 << 20)
#define UNSURE (1 << 20) /* the program may be this far behind */
TEST(test_packet_acknowledging_unsent_bytes_is_handed_on)
{
	static const int64_t others[] = {UNSURE + 1, 1 << 30, 1LL << 31,
					 -SENT - 2 * UNSURE, -(1 << 30)};
	static const int64_t own[] = {UNSURE, 0, -1, -UNSURE, -SENT};
	static bool sent;
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (int v6 = 0; v6 < 2 && !sent; v6++)
		send_to_client(v6, SENT);
	sent = true;
	for (unsigned int n = 0; n < NAMED; n++) {
		for (int i = 0; i < 5; i++) {
			name_own(n, others[i], &packet, &outer);
			expect_second_chance(&packet, &outer);
			name_own(n, own[i], &packet, &outer);
			expect_taken_here(&packet, &outer, &packet);
		}
		packet.flags = RST; /* acknowledges nothing */
		packet.acknowledged = 0;
		expect_taken_here(&packet, &outer, &packet);
	}
}

TEST(test_packet_that_opens_a_connection_is_taken)
{
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		name(n, &packet, &outer);
		packet.flags = SYN;
		expect_decapsulated(&bench, &packet, &outer, &packet);
	}
}

/* UDP and fragments do not tell which connection they belong to. */
TEST(test_packet_without_connection_is_taken)
{
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		name(n, &packet, &outer);
		packet.protocol = IPPROTO_UDP;
		expect_decapsulated(&bench, &packet, &outer, &packet);
		name(n, &packet, &outer);
		packet.length = 64;
		packet.fragment = 0x2000;
		expect_decapsulated(&bench, &packet, &outer, &packet);
		packet.fragment = 7;
		expect_decapsulated(&bench, &packet, &outer, &packet);
	}
}

TEST(test_errors_follow_the_connection_that_they_quote)
{
	uint8_t payload[200];
	struct packet packet, quoted, error;
	struct outer outer;

	/* the kernel ignores errors about what it has closed */
	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++)
		for (uint16_t port = HERE; port <= CLOSED; port++) {
			name(n, &packet, &outer);
			quoted = (struct packet){.from = packet.to,
						 .to = packet.from,
						 .protocol = IPPROTO_TCP,
						 .from_port = packet.to_port,
						 .to_port = port,
						 .length = 40};
			error = (struct packet){.from = packet.from,
						.to = packet.to};
			make_error(&error, payload, &quoted, 60);
			if (port == HERE)
				expect_taken_here(&error, &outer, &error);
			else
				expect_second_chance(&error, &outer);
		}
}

/* The server's port differs from the listener's. */
TEST(test_ports_are_those_of_the_server)
{
	const struct member_config config = {.hands_on = 1, .has_ports = 1};
	struct packet packet, seen;
	struct outer outer;

	begin(state, &config);
	add_port(&bench, VIP, IPPROTO_TCP, 8080, 80);
	add_port(&bench, VIP6, IPPROTO_TCP, 8080, 80);
	for (unsigned int n = 0; n < NAMED; n++) {
		name_own(n, 0, &packet, &outer);
		packet.to_port = 8080;
		seen = packet;
		seen.to_port = 80;
		expect_taken_here(&packet, &outer, &seen);
		packet.from_port = OTHER;
		expect_second_chance(&packet, &outer);
	}
}

/* A member is no relay: neither to others nor for others. */
TEST(test_nothing_is_handed_on_to_non_members)
{
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		name(n, &packet, &outer);
		outer.alternative =
			is_ipv4(outer.from) ? FOREIGN : "2001:db8:2::1";
		expect_taken_here(&packet, &outer, &packet);
		outer.alternative = outer.to;
		expect_taken_here(&packet, &outer, &packet);
	}
	assert_int_equal(counter(&bench, MEMBER_KEPT), 2 * NAMED);
}

TEST(test_nothing_is_handed_on_for_non_nodes)
{
	struct packet packet;
	struct outer outer;
	struct frame in;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		const char *sources[2];

		name(n, &packet, &outer);
		sources[0] = is_ipv4(outer.from) ? FOREIGN : FOREIGN6;
		sources[1] = is_ipv4(outer.from) ? MEMBER : MEMBER6;
		for (int i = 0; i < 2; i++) {
			outer.from = sources[i];
			make_tunnel(&in, &packet, &outer);
			expect_dropped(&bench, &in, MEMBER_DROP_SOURCE);
		}
	}
}

TEST(test_packet_handed_on_by_a_member_is_taken)
{
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		name(n, &packet, &outer);
		outer.from = outer.alternative;
		outer.alternative = NULL;
		expect_decapsulated(&bench, &packet, &outer, &packet);
	}
	assert_int_equal(counter(&bench, MEMBER_SECOND_CHANCE), NAMED);
	assert_int_equal(all_counters(&bench), 2 * NAMED);
}

TEST(test_without_member_networks_everything_is_taken)
{
	struct packet packet;
	struct outer outer;
	struct frame in;

	begin(state, NULL);
	for (unsigned int n = 0; n < NAMED; n++) {
		name(n, &packet, &outer);
		expect_decapsulated(&bench, &packet, &outer, &packet);
		outer.from = outer.alternative;
		outer.alternative = NULL;
		if (!is_ipv4(outer.from))
			outer.from = FOREIGN6;
		make_tunnel(&in, &packet, &outer);
		expect_dropped(&bench, &in, MEMBER_DROP_SOURCE);
	}
}

/* Only the form of alternatives that LB nodes send is accepted. */
TEST(test_other_forms_are_left_to_the_stack)
{
	struct packet packet;
	struct outer outer;
	struct frame in, good;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++) {
		name(n, &packet, &outer);
		size_t at = 14 + (is_ipv4(outer.to) ? 20 : 40);

		if (outer.kind == IPIP)
			at += 0;
		else if (outer.kind == GUE)
			at += 8;
		else
			at += 16;
		make_tunnel(&good, &packet, &outer);
		for (size_t i = 0; i < 4; i++) {
			/* GUE: flags; SRv6: left, flags; there are two valid
			 * protocols */
			in = good;
			in.data[at + i] ^= 0x80;
			expect_passed(&bench, &in);
		}
	}
	assert_int_equal(all_counters(&bench), 0);
}

RUN_TESTS(open_connections, close_connections)
