// SPDX-License-Identifier: Apache-2.0
/* Packets that are not forwarded, and the reasons. */
#include "fixture.h"

/* Broken or fragmented packets to other addresses are left to the stack. */
TEST(test_broken_packets_to_other_addresses_pass)
{
	struct flow other = web;
	struct variation with = {.fragment = 0x2000};
	struct frame frame;

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

TEST(test_fragments_of_no_service_are_dropped)
{
	struct variation later = {.fragment = 0x0064};
	struct flow flow = web;
	struct frame frame;

	flow.protocol = IPPROTO_SCTP;
	make_frame(&frame, &flow, 64, &later);
	expect_dropped(&frame, OXP_DROP_FRAGMENT);
}

TEST(test_tunnels_to_a_vip_are_dropped)
{
	static const uint8_t protocols[] = {IPPROTO_IPIP, IPPROTO_IPV6,
					    IPPROTO_GRE};
	struct flow flow = web;
	struct frame frame;

	for (size_t i = 0; i < sizeof(protocols); i++) {
		flow.protocol = protocols[i];
		make_frame(&frame, &flow, 64, NULL);
		expect_dropped(&frame, OXP_DROP_TUNNEL);
	}
	flow.protocol = IPPROTO_UDP;
	flow.destination_port = OXP_GUE_PORT;
	make_frame(&frame, &flow, 64, NULL);
	expect_dropped(&frame, OXP_DROP_TUNNEL);
}

TEST(test_martian_sources_are_dropped)
{
	static const char *const sources[] = {
		"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", VIP};
	struct flow flow = web;
	struct frame frame;

	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		flow.source = sources[i];
		make_frame(&frame, &flow, 64, NULL);
		expect_dropped(&frame, OXP_DROP_MARTIAN);
	}
}

/* Cut at each length: never forwarded, and dropped once the VIP can be read. */
static void expect_cut_dropped(const struct flow *flow, uint8_t options)
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
	/* also if the header's length matches the cut */
	for (size_t length = 34; length < whole.length - 4; length++) {
		frame = whole;
		frame.length = length;
		frame.data[16] = (length - 14) >> 8;
		frame.data[17] = length - 14;
		fix_checksum(frame.data + 14);
		expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
	/* or if the frame continues after a packet that is too short */
	for (size_t length = 0; length < whole.length - 18; length++) {
		frame = whole;
		frame.data[16] = length >> 8;
		frame.data[17] = length;
		fix_checksum(frame.data + 14);
		expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
}

TEST(test_truncated_packets_are_malformed_at_any_length)
{
	expect_cut_dropped(&web, 0);
	expect_cut_dropped(&web, 10);
	expect_cut_dropped(&dns, 0);
	expect_cut_dropped(&dns, 3);
}

TEST(test_impossible_header_lengths_are_malformed)
{
	struct frame frame;

	for (int words = 0; words < 5; words++) {
		make_frame(&frame, &web, 64, NULL);
		frame.data[14] = 0x40 | words;
		expect_dropped(&frame, OXP_DROP_MALFORMED);
	}
}

TEST(test_services_without_member_up_drop_packets)
{
	struct oxp_key service = tcp_key(VIP, 443);
	struct flow flow = web;
	struct oxp_member member;
	struct frame frame;

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

TEST(test_frames_beyond_the_mtu_are_dropped_with_padding)
{
	struct variation with = {.padding = 1};
	struct frame frame;

	make_frame(&frame, &web, 1440, NULL); /* 1480 + 20 */
	expect_forwarded(&frame);
	make_frame(&frame, &web, 1441, NULL);
	expect_dropped(&frame, OXP_DROP_TOO_BIG);
	make_frame(&frame, &web, 1440, &with);
	expect_dropped(&frame, OXP_DROP_TOO_BIG);
}

TEST(test_no_uplink_or_source_is_no_next_hop)
{
	struct oxp_node_settings settings = {.source_v4 = address(NODE)};
	struct oxp_uplink uplink = {
		.ifindex = 1,
		.mtu = 1500,
		.own_mac = {2, 0, 0, 0, 0, 1},
		.next_hop_mac_v6 = {2, 0, 0, 0, 0, 2},
	};
	struct frame frame;

	make_frame(&frame, &web, 10, NULL);
	assert_int_equal(oxp_uplinks_set(node, &uplink, 1, error), 0);
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
	memcpy(uplink.next_hop_mac_v4, uplink.next_hop_mac_v6, 6);
	assert_int_equal(oxp_uplinks_set(node, &uplink, 1, error), 0);
	expect_forwarded(&frame);
	assert_int_equal(oxp_uplinks_set(node, NULL, 0, error), 0);
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
	assert_int_equal(oxp_uplinks_set(node, &uplink, 1, error), 0);
	memset(&settings.source_v4, 0, sizeof(settings.source_v4));
	assert_int_equal(oxp_node_settings_set(node, &settings, error), 0);
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
}

/* A device in the uplinks that `devices` lacks is detected before the frame is
 * changed. */
TEST(test_unknown_device_drops_the_frame_unchanged)
{
	uint32_t *device = &node->uplinks[node->config->active_uplinks & 1]
				    .uplink[0]
				    .ifindex;
	struct frame frame, out;

	make_frame(&frame, &web, 10, NULL);
	expect_forwarded(&frame);
	*device += 1000;
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
	assert_int_equal(run(program, &frame, &out), XDP_DROP);
	assert_int_equal(out.length, frame.length);
	*device -= 1000;
	expect_forwarded(&frame);
}

/* The kernel forwards nothing from the loopback device to `devices`; tests in
 * network namespaces cover forwarding. */
TEST(test_missing_route_is_no_next_hop)
{
	struct oxp_node_settings settings = {.source_v4 = address(NODE)};
	struct frame frame;

	make_frame(&frame, &web, 10, NULL);
	settings.flags = OXP_NODE_FIB;
	assert_int_equal(oxp_node_settings_set(node, &settings, error), 0);
	close(program);
	program = forward_program(node);
	expect_dropped(&frame, OXP_DROP_NO_NEXT_HOP);
	settings.flags = 0;
	assert_int_equal(oxp_node_settings_set(node, &settings, error), 0);
	expect_forwarded(&frame);
	close(program);
	program = forward_program(node);
	expect_forwarded(&frame);
}

TEST(test_deleted_service_is_left_alone)
{
	struct variation with = {.fragment = 0x0064};
	struct oxp_key keys[] = {tcp_key(VIP, 80), udp_key(VIP, 53)};
	struct frame frame, fragment;

	make_frame(&frame, &web, 10, NULL);
	make_frame(&fragment, &web, 10, &with);
	expect_forwarded(&frame);
	assert_int_equal(oxp_services_delete(node, keys, 1, error), 1);
	expect_untouched(&frame);
	/* the address is still a VIP */
	expect_dropped(&fragment, OXP_DROP_FRAGMENT);
	assert_int_equal(oxp_services_delete(node, keys, 2, error), 1);
	expect_untouched(&fragment);
}

RUN_TESTS(enter_namespace, NULL)
