// SPDX-License-Identifier: Apache-2.0
/* The member's programs: what they decapsulate, and the result. */
#include "member_tunnel_fixture.h"

TEST(test_every_tunnel_is_decapsulated)
{
	struct packet packet;
	struct outer outer;
	uint64_t taken = 0;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		for (size_t length = 0; length < 1400; length += 67) {
			packet.length = length;
			packet.protocol =
				length & 1 ? IPPROTO_UDP : IPPROTO_TCP;
			packet.tos = length & 0xfc;
			expect_decapsulated(&bench, &packet, &outer, &packet);
			taken++;
		}
	}
	assert_int_equal(counter(&bench, MEMBER_TAKEN_IPIP), taken / KINDS);
	assert_int_equal(counter(&bench, MEMBER_TAKEN_GUE), taken / KINDS);
	assert_int_equal(counter(&bench, MEMBER_TAKEN_GRE), taken / KINDS);
	assert_int_equal(counter(&bench, MEMBER_TAKEN_GENEVE), taken / KINDS);
	assert_int_equal(all_counters(&bench), taken);
}

TEST(test_geneve_is_decapsulated_with_any_vni)
{
	static const uint32_t vnis[] = {0, 1, 0xabcdef, 0xffffff};
	struct packet packet;
	struct outer outer;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		if (outer.kind != GENEVE)
			continue;
		for (int i = 0; i < 4; i++) {
			outer.vni = vnis[i];
			expect_decapsulated(&bench, &packet, &outer, &packet);
		}
	}
}

/* Bytes of the frame behind the packet stay. */
TEST(test_padding_behind_the_packet_stays)
{
	struct frame in, expected;
	struct packet packet;
	struct outer outer;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		make_tunnel(&in, &packet, &outer);
		make_plain(&expected, &packet, outer.tags);
		in.length += 9;
		expected.length += 9;
		expect_taken(&bench, &in, &expected);
	}
}

TEST(test_inner_fragments_are_decapsulated_whole)
{
	static const uint16_t fragments[] = {0x2000, 0x2007, 0x0007};
	struct packet packet;
	struct outer outer;

	begin(state, NULL);
	for (unsigned int n = 0; n < COMBINATIONS; n++) {
		for (int i = 0; i < 3; i++) {
			if (!combine(n, &packet, &outer))
				continue;
			packet.fragment = fragments[i];
			packet.length = 64;
			expect_decapsulated(&bench, &packet, &outer, &packet);
		}
	}
}

/* tc cannot cut behind two tags in the data. */
TEST(test_two_tags_are_left_to_the_stack_at_tc)
{
	struct frame in;
	struct outer outer = usual;

	begin(state, NULL);
	if (bench.program == XDP)
		return;
	outer.tags = 2;
	make_tunnel(&in, &web, &outer);
	expect_passed(&bench, &in);
	assert_int_equal(all_counters(&bench), 0);
}

TEST(test_any_source_takes_tunnels_from_everywhere)
{
	const struct member_config config = {.any_source = 1};
	struct packet packet;
	struct outer outer;

	begin(state, &config);
	FOR_EACH_TUNNEL(n, packet, outer) {
		outer.from = is_ipv4(outer.from) ? FOREIGN : FOREIGN6;
		expect_decapsulated(&bench, &packet, &outer, &packet);
	}
}

/* RFC 6040, figure 4. Columns: outer Not-ECT, ECT(0), ECT(1), CE. */
TEST(test_ecn_is_combined_as_rfc_6040_says)
{
	enum {
		NOT_ECT = 0,
		ECT_1 = 1,
		ECT_0 = 2,
		CE = 3,
		DROP = 4
	};
	static const int outers[] = {NOT_ECT, ECT_0, ECT_1, CE};
	static const int inners[] = {NOT_ECT, ECT_0, ECT_1, CE};
	static const int results[4][4] = {
		{NOT_ECT, NOT_ECT, NOT_ECT, DROP},
		{ECT_0, ECT_0, ECT_1, CE},
		{ECT_1, ECT_1, ECT_1, CE},
		{CE, CE, CE, CE},
	};
	struct packet packet, seen;
	struct outer outer;
	struct frame in;

	begin(state, NULL);
	for (unsigned int n = 0; n < COMBINATIONS * 16; n++) {
		int result = results[n % 4][n / 4 % 4];

		if (!combine(n / 16, &packet, &outer))
			continue;
		packet.tos = 0xb8 | inners[n % 4];
		outer.tos = 0x28 | outers[n / 4 % 4];
		if (result == DROP) {
			make_tunnel(&in, &packet, &outer);
			expect_dropped(&bench, &in, MEMBER_DROP_ECN);
			continue;
		}
		seen = packet;
		seen.tos = 0xb8 | result;
		expect_decapsulated(&bench, &packet, &outer, &seen);
	}
}

RUN_TESTS(NULL, NULL)
