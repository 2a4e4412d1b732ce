// SPDX-License-Identifier: Apache-2.0
/* Packets that are forwarded or not for us, byte by byte. */
#include "fixture.h"

TEST(test_packets_of_a_service_are_encapsulated)
{
	static const size_t payloads[] = {0, 1, 100, 1440};
	struct frame frame;

	for (size_t i = 0; i < sizeof(payloads) / sizeof(*payloads); i++) {
		make_frame(&frame, &web, payloads[i], NULL);
		expect_forwarded(&frame);
		make_frame(&frame, &dns, payloads[i], NULL);
		expect_forwarded(&frame);
	}
}

TEST(test_outer_header_has_tos_id_and_df_of_the_packet)
{
	struct frame frame;

	for (int tos = 0; tos < 256; tos++) {
		struct variation with = {
			.tos = tos,
			.id = tos * 257,
			.fragment = tos & 1 ? 0x4000 : 0,
		};

		make_frame(&frame, &web, tos, &with);
		expect_forwarded(&frame);
	}
}

TEST(test_packets_with_ip_options_are_forwarded)
{
	struct frame frame;

	for (int words = 1; words <= 10; words++) {
		struct variation with = {.options = words};

		make_frame(&frame, &web, 10, &with);
		expect_forwarded(&frame);
		make_frame(&frame, &dns, 10, &with);
		expect_forwarded(&frame);
	}
}

TEST(test_ethernet_padding_is_kept)
{
	struct variation with = {.padding = 18};
	struct frame frame;

	make_frame(&frame, &dns, 0, &with);
	expect_forwarded(&frame);
}

TEST(test_packets_of_no_service_pass_unchanged)
{
	static const struct flow others[] = {
		{CLIENT, "192.0.2.2", 40000, 80, IPPROTO_TCP},
		{CLIENT, VIP, 40000, 81, IPPROTO_TCP},
		{CLIENT, VIP, 40000, 80, IPPROTO_UDP},
		{CLIENT, VIP, 40000, 53, IPPROTO_TCP},
		{VIP, CLIENT, 80, 40000, IPPROTO_TCP},
		{CLIENT, VIP, 40000, 80, IPPROTO_ICMP},
		{CLIENT, VIP, 40000, 80, IPPROTO_ESP},
	};
	static const uint16_t types[] = {0x86dd, 0x0806, 0x8100, 0x88a8, 5};
	struct frame frame;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		make_frame(&frame, &others[i], 30, NULL);
		expect_untouched(&frame);
	}
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		make_frame(&frame, &web, 30, NULL);
		frame.data[12] = types[i] >> 8;
		frame.data[13] = types[i];
		expect_untouched(&frame);
	}
	make_frame(&frame, &web, 30, NULL);
	frame.data[14] = 0x65;
	expect_untouched(&frame);
}

TEST(test_later_fragments_follow_the_first_or_are_guessed)
{
	struct variation first = {.fragment = 0x2000, .id = 7};
	struct variation later = {.fragment = 0x0064, .id = 7};
	struct variation unknown = {.fragment = 0x0064, .id = 8};
	struct oxp_outcome_counters guessed = outcome(OXP_FRAGMENT_GUESSED);
	struct frame frame;

	make_frame(&frame, &web, 64, &first);
	expect_forwarded(&frame);
	make_frame(&frame, &web, 64, &later);
	expect_forwarded(&frame);
	assert_int_equal(outcome(OXP_FRAGMENT_GUESSED).packets,
			 guessed.packets);
	make_frame(&frame, &web, 64, &unknown);
	expect_forwarded(&frame);
	expect_one_more(OXP_FRAGMENT_GUESSED, guessed, frame.length);
}

TEST(test_service_and_member_count_what_is_forwarded)
{
	struct oxp_key service = tcp_key(VIP, 80);
	struct variation syn = {.tcp_flags = 2}, both = {.tcp_flags = 0x12};
	struct oxp_member_state member;
	struct oxp_service out;
	struct frame frame;

	make_frame(&frame, &web, 0, &syn);
	expect_forwarded(&frame);
	make_frame(&frame, &web, 0, &both);
	expect_forwarded(&frame);
	make_frame(&frame, &web, 60, NULL);
	expect_forwarded(&frame);
	make_frame(&frame, &dns, 60, NULL);
	expect_forwarded(&frame);
	assert_int_equal(oxp_service_get(node, &service, &out, error), 0);
	assert_int_equal(out.counters.packets, 3);
	assert_int_equal(out.counters.bytes, 40 + 40 + 100);
	assert_int_equal(out.counters.flows, 1);
	assert_int_equal(oxp_members_list(node, &service, &member, 1, error),
			 1);
	assert_int_equal(member.counters.packets, 3);
	assert_int_equal(member.counters.bytes, 180);
}

/* The smallest echo request: all zero but for its type. */
static void make_echo_of_zeroes(struct frame *out, size_t payload)
{
	static const struct flow ping = {CLIENT, VIP, 0, 0, IPPROTO_ICMP};
	struct variation with = {.id = 1};

	make_frame(out, &ping, payload, &with);
	memset(out->data + 34, 0, 8 + payload);
	out->data[34] = 8;
	out->data[36] = 0xf7;
	out->data[37] = 0xff;
}

/* Receivers do not accept zeroes with a checksum of 0: their sum is 0, and must
 * be 0xffff (RFC 1071). */
TEST(test_echo_reply_of_zeroes_has_the_checksum_0xffff)
{
	static const size_t payloads[] = {0, 1, 23, 24, 25, 56, 1400};
	struct oxp_node_settings settings = {.source_v4 = address(NODE),
					     .flags = OXP_NODE_ECHO,
					     .icmp_rate = 1000};
	struct frame frame, out, other;

	assert_int_equal(oxp_node_settings_set(node, &settings, error), 0);
	for (size_t i = 0; i < sizeof(payloads) / sizeof(*payloads); i++) {
		make_echo_of_zeroes(&frame, payloads[i]);
		assert_int_equal(run(program, &frame, &out), XDP_TX);
		assert_int_equal(out.length, frame.length);
		assert_int_equal(out.data[36] << 8 | out.data[37], 0xffff);
		assert_int_equal(checksum(out.data + 34, 8 + payloads[i]), 0);

		/* another message with that sum has the checksum 0 */
		other = frame;
		other.data[38] = other.data[39] = 0xff;
		assert_int_equal(run(program, &other, &out), XDP_TX);
		assert_int_equal(out.data[36] << 8 | out.data[37], 0);
		assert_int_equal(checksum(out.data + 34, 8 + payloads[i]), 0);
	}
}

/* The library tells where packets go; the program must agree. */
TEST(test_library_picks_the_member_that_the_program_picks)
{
	struct oxp_key service = tcp_key(VIP, 80);
	struct oxp_member members[20];
	struct frame frame, out;

	make_members(members, 20, 3, 0);
	set_service(node, &service, members, 20);
	for (int i = 0; i < 2000; i++) {
		struct oxp_address client = address(CLIENT), member;
		struct flow flow = web;

		flow.source_port = 1024 + i;
		make_frame(&frame, &flow, 0, NULL);
		assert_int_equal(oxp_test_pick(node, &service, &client,
					       flow.source_port, &member,
					       error),
				 0);
		assert_int_equal(run(program, &frame, &out), XDP_TX);
		assert_memory_equal(out.data + 14 + 16, member.bytes + 12, 4);
	}
}

RUN_TESTS(enter_namespace, NULL)
