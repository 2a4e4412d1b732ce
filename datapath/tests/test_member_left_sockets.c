// SPDX-License-Identifier: Apache-2.0
/*
 * Packets that name an alternative, with the ports of a connection that was
 * closed here or is being opened: taken if they continue it, otherwise handed
 * on, as they belong to another member.
 */
#include "member_second_chance_fixture.h"
#include "tools/member/tool.h"

#undef TEST
#define TEST(name) DEFINE_TEST(name, WITH_XDP(name))

static struct member_config hands_on = {.hands_on = 1};
static bool sockets_known;

/* A client's packet that continues the connection. */
static void name_left(unsigned int n, uint16_t port, uint8_t flags,
		      struct packet *packet, struct outer *outer)
{
	struct position position;

	name(n, packet, outer);
	position = position_of(port, !is_ipv4(packet->to));
	packet->from_port = port;
	packet->to_port = port == OPENING ? OPENING_PORT : 80;
	packet->flags = flags;
	packet->sequence = position.sequence;
	packet->acknowledged = flags & ACK ? position.acknowledged : 0;
}

static const uint16_t left[] = {CLOSED, OPENING};

/* A repeated last FIN, a RST, data. */
TEST(test_continued_connection_is_taken)
{
	static const uint8_t flags[] = {ACK, ACK | FIN, ACK | RST, RST};
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	if (!sockets_known)
		skip(); /* the kernel has no BTF */
	for (unsigned int n = 0; n < NAMED; n++)
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < 2; j++) {
				name_left(n, left[j], flags[i], &packet,
					  &outer);
				/* a repeated FIN has its original number */
				packet.sequence -= flags[i] & FIN;
				expect_taken_here(&packet, &outer, &packet);
			}
}

/* The packet is of a connection with the same ports to another member. */
TEST(test_connection_continued_elsewhere_is_handed_on)
{
	static const uint8_t flags[] = {ACK, ACK | FIN, ACK | RST, ACK | SYN};
	static const int64_t others[] = {-1, 1, 1 << 20, 1LL << 31, -(1 << 30)};
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++)
		for (int i = 0; i < 5; i++)
			for (int j = 0; j < (sockets_known ? 2 : 1); j++) {
				name_left(n, left[j], flags[i % 4], &packet,
					  &outer);
				packet.acknowledged += others[i];
				expect_second_chance(&packet, &outer);
				name_left(n, left[j], RST, &packet, &outer);
				packet.sequence += others[i];
				expect_second_chance(&packet, &outer);
			}
}

/* If the kernel does not tell what sockets have sent. */
TEST(test_without_btf_closed_connections_keep_nothing)
{
	static const uint8_t flags[] = {ACK, ACK | FIN, ACK | RST, RST};
	const struct member_config blind = {.hands_on = 1};
	struct packet packet;
	struct outer outer;

	begin(state, &blind);
	for (unsigned int n = 0; n < NAMED; n++)
		for (int i = 0; i < 4; i++) {
			name_left(n, CLOSED, flags[i], &packet, &outer);
			expect_second_chance(&packet, &outer);
			name_left(n, OPENING, flags[i], &packet, &outer);
			packet.acknowledged++;
			expect_taken_here(&packet, &outer, &packet);
		}
}

/* Also with the ports of a connection that was closed or is being opened. */
TEST(test_packet_that_opens_a_connection_is_taken)
{
	struct packet packet;
	struct outer outer;

	begin(state, &hands_on);
	for (unsigned int n = 0; n < NAMED; n++)
		for (int i = 0; i < 2; i++) {
			name_left(n, left[i], SYN, &packet, &outer);
			expect_decapsulated(&bench, &packet, &outer, &packet);
		}
}

int main(void)
{
	sockets_known = find_sockets(&hands_on);
	return cmocka_run_group_tests(tests, open_connections,
				      close_connections);
}
