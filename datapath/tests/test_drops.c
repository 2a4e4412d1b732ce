// SPDX-License-Identifier: Apache-2.0
/* Packets that are not forwarded, and why. */
#include "fixture.h"

/* Broken or in pieces, but for somebody else: the stack's business. */
static void test_broken_and_not_ours(void **state)
{
	struct flow other = web;
	struct variation with = {.fragment = 0x2000};
	struct frame frame;

	(void)state;
	other.destination = "192.0.2.2";
	make_frame(&frame, &other, 30, &with);
	expect_untouched(&frame);
	make_frame(&frame, &other, 30, NULL);
	frame.data[14] = 0x44;
	expect_untouched(&frame);
	for (size_t length = 14; length < 54; length++) {
		make_frame(&frame, &other, 0, NULL);
		frame.length = length;
		expect_untouched(&frame);
	}
}

static void test_fragments(void **state)
{
	static const uint16_t fragments[] = {0x2000, 0x6000, 0x2001, 0x0001,
					     0x1fff, 0x00b9, 0x20b9};
	struct frame frame;

	(void)state;
	for (size_t i = 0; i < sizeof(fragments) / sizeof(*fragments); i++) {
		struct variation with = {.fragment = fragments[i]};

		make_frame(&frame, &web, 64, &with);
		expect_dropped(&frame, OXP_DROP_FRAGMENT);
	}
}

/* Cut at every length: never forwarded, dropped if the VIP can be read. */
static void cut(const struct flow *flow, uint8_t options)
{
	struct variation with = {.options = options};
	struct frame whole, frame;

	make_frame(&whole, flow, 4, &with);
	for (size_t length = 14; length < whole.length; length++) {
		frame = whole;
		frame.length = length;
		if (length < 34)
			expect_untouched(&frame);
		else
			expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
	/* also if the header's length says that it is complete */
	for (size_t length = 34; length < whole.length - 4; length++) {
		frame = whole;
		frame.length = length;
		frame.data[16] = (length - 14) >> 8;
		frame.data[17] = length - 14;
		fix_checksum(frame.data + 14);
		expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
	/* or if the frame goes on behind a packet that is too short */
	for (size_t length = 0; length < whole.length - 18; length++) {
		frame = whole;
		frame.data[16] = length >> 8;
		frame.data[17] = length;
		fix_checksum(frame.data + 14);
		expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
}

static void test_truncated(void **state)
{
	(void)state;
	cut(&web, 0);
	cut(&web, 10);
	cut(&dns, 0);
	cut(&dns, 3);
}

static void test_impossible_header_length(void **state)
{
	struct frame frame;

	(void)state;
	for (int words = 0; words < 5; words++) {
		make_frame(&frame, &web, 64, NULL);
		frame.data[14] = 0x40 | words;
		expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
}

static void test_no_member(void **state)
{
	struct oxp_key service = tcp_key(VIP, 443);
	struct flow flow = web;
	struct oxp_member member;
	struct frame frame;

	(void)state;
	flow.destination_port = 443;
	make_frame(&frame, &flow, 10, NULL);
	set_service(node, &service, NULL, 0);
	expect_dropped(&frame, OXP_DROP_NO_MEMBER);

	make_members(&member, 1, 0, 0);
	member.weight = 0;
	set_service(node, &service, &member, 1);
	expect_dropped(&frame, OXP_DROP_NO_MEMBER);
	member.weight = 1;
	member.admin_up = 0;
	set_service(node, &service, &member, 1);
	expect_dropped(&frame, OXP_DROP_NO_MEMBER);
	member.admin_up = 1;
	set_service(node, &service, &member, 1);
	expect_forwarded(&frame);
}

static void test_too_big(void **state)
{
	struct variation with = {.padding = 1};
	struct frame frame;

	(void)state;
	make_frame(&frame, &web, 1440, NULL); /* 1480 + 20 */
	expect_forwarded(&frame);
	make_frame(&frame, &web, 1441, NULL);
	expect_dropped(&frame, OXP_DROP_TOO_BIG);
	make_frame(&frame, &web, 1440, &with);
	expect_dropped(&frame, OXP_DROP_TOO_BIG);
}

static void test_no_next_hop(void **state)
{
	static const uint8_t own[6] = {2, 0, 0, 0, 0, 1}, unknown[6];
	static const uint8_t gateway[6] = {2, 0, 0, 0, 0, 2};
	struct oxp_address source = address(NODE);
	struct frame frame;

	(void)state;
	make_frame(&frame, &web, 10, NULL);
	oxp_set_uplink(node, own, unknown, &source, 1500, error);
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
	source = address("0.0.0.0");
	oxp_set_uplink(node, own, gateway, &source, 1500, error);
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
	source = address(NODE);
	oxp_set_uplink(node, own, gateway, &source, 1500, error);
	expect_forwarded(&frame);
}

static void test_deleted_service_is_not_ours(void **state)
{
	struct variation with = {.fragment = 0x2000};
	struct oxp_key keys[] = {tcp_key(VIP, 80), udp_key(VIP, 53)};
	struct frame frame, fragment;

	(void)state;
	make_frame(&frame, &web, 10, NULL);
	make_frame(&fragment, &web, 10, &with);
	expect_forwarded(&frame);
	assert_int_equal(oxp_service_delete(node, keys, 1, error), 1);
	expect_untouched(&frame);
	/* the address is still a VIP */
	expect_dropped(&fragment, OXP_DROP_FRAGMENT);
	assert_int_equal(oxp_service_delete(node, keys, 2, error), 1);
	expect_untouched(&fragment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_broken_and_not_ours),
		TEST(test_fragments),
		TEST(test_truncated),
		TEST(test_impossible_header_length),
		TEST(test_no_member),
		TEST(test_too_big),
		TEST(test_no_next_hop),
		TEST(test_deleted_service_is_not_ours),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
