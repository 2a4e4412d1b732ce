// SPDX-License-Identifier: Apache-2.0
/* To which service dropped packets are counted. */
#include "fixture.h"

static uint64_t drops_of(const struct flow *flow)
{
	struct oxp_key key = key_of(flow);
	struct oxp_service service;

	assert_ok(oxp_service_get(node, &key, &service, error));
	return service.drops;
}

/* A frame of a flow to `web` or `dns`. The other service is not affected, and
 * the packet has no other outcome. */
static void expect_counted(const struct frame *frame, enum oxp_outcome why,
			   const struct flow *whose)
{
	const struct flow *other = whose == &web ? &dns : &web;
	uint64_t before = drops_of(whose), others = drops_of(other);
	struct oxp_key key = key_of(whose);
	struct oxp_service service, after;

	assert_ok(oxp_service_get(node, &key, &service, error));
	expect_dropped(frame, why);
	assert_int_equal(drops_of(whose), before + 1);
	assert_int_equal(drops_of(other), others);
	assert_ok(oxp_service_get(node, &key, &after, error));
	assert_memory_equal(&after.counters, &service.counters,
			    sizeof(after.counters));
}

static void set_flags(uint32_t flags)
{
	struct oxp_node_settings settings = {.source_v4 = address(NODE),
					     .flags = flags};

	assert_ok(oxp_node_settings_set(node, &settings, error));
	close(program);
	program = forward_program(node);
}

static void make(struct frame *frame, const struct flow *flow)
{
	make_frame(frame, flow, 10, NULL);
}

/* The fast path looks the service up again, after any link header. */
static void add_tags(struct frame *frame, int tags)
{
	static const uint8_t tag[4] = {0x81, 0, 0, 7};

	for (int i = 0; i < tags; i++) {
		memmove(frame->data + 16, frame->data + 12, frame->length - 12);
		memcpy(frame->data + 12, tag, 4);
		frame->length += 4;
	}
}

TEST(test_martian_counts_for_its_service)
{
	struct variation with = {.options = 1};
	struct flow flow[2] = {web, dns};
	const struct flow *whose[2] = {&web, &dns};
	struct frame frame;

	for (int i = 0; i < 2; i++) {
		flow[i].source = "127.0.0.1";
		for (int tags = 0; tags < 3; tags++) {
			make(&frame, &flow[i]);
			add_tags(&frame, tags);
			expect_counted(&frame, OXP_DROP_MARTIAN, whose[i]);
		}
		/* on the slow path */
		make_frame(&frame, &flow[i], 10, &with);
		expect_counted(&frame, OXP_DROP_MARTIAN, whose[i]);
	}
}

TEST(test_packets_without_a_member_count)
{
	struct oxp_key key = tcp_key(VIP, 80);
	struct variation with = {.options = 1}, later = {.fragment = 0x0064};
	struct frame frame;

	set_service(node, &key, NULL, 0);
	make(&frame, &web);
	expect_counted(&frame, OXP_DROP_NO_MEMBER, &web);
	make_frame(&frame, &web, 10, &with);
	expect_counted(&frame, OXP_DROP_NO_MEMBER, &web);
	/* of the only TCP service, which is a guess */
	make_frame(&frame, &web, 10, &later);
	expect_counted(&frame, OXP_DROP_NO_MEMBER, &web);
}

TEST(test_clients_outside_of_allowed_networks_count)
{
	struct oxp_network networks[] = {{address("203.0.113.0"), 24}};
	struct oxp_service_settings settings = {
		.slots = TEST_SLOTS, .allowed = networks, .allowed_count = 1};
	struct variation later = {.fragment = 0x0064};
	struct frame frame;

	set_with_one_member(node, key_of(&dns), settings);
	make(&frame, &dns);
	expect_counted(&frame, OXP_DROP_NOT_ALLOWED, &dns);
	make_frame(&frame, &dns, 10, &later);
	expect_counted(&frame, OXP_DROP_NOT_ALLOWED, &dns);
}

TEST(test_sources_that_open_too_fast_count)
{
	const struct oxp_service_settings settings = {.new_flow_rate = 1,
						      .new_flow_burst = 1};
	struct frame frame;

	set_with_one_member(node, key_of(&dns), settings);
	make(&frame, &dns);
	expect_forwarded(&frame);
	expect_counted(&frame, OXP_DROP_RATE, &dns);
}

TEST(test_packets_too_big_count_unless_they_are_answered)
{
	struct variation options = {.options = 1}, whole = {.fragment = 0x4000};
	struct frame frame;
	uint64_t before;

	make_frame(&frame, &web, 1441, NULL);
	expect_counted(&frame, OXP_DROP_TOO_BIG, &web);
	make_frame(&frame, &web, 1441, &options);
	expect_counted(&frame, OXP_DROP_TOO_BIG, &web);
	/* first without a budget for answers */
	node->config->icmp_rate = 0;
	make_frame(&frame, &web, 1441, &whole);
	expect_counted(&frame, OXP_DROP_TOO_BIG, &web);
	node->config->icmp_rate = 1000;
	before = drops_of(&web);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
	assert_int_equal(drops_of(&web), before);
	set_flags(OXP_NODE_PASS_TOO_BIG);
	make_frame(&frame, &web, 1441, NULL);
	assert_int_equal(run(program, &frame, NULL), XDP_PASS);
	assert_int_equal(drops_of(&web), before);
}

TEST(test_packets_without_next_hop_count)
{
	uint32_t *device = &node->uplinks[node->config->active_uplinks & 1]
				    .uplink[0]
				    .ifindex;
	struct frame frame, out;

	make(&frame, &web);
	*device += 1000;
	expect_counted(&frame, OXP_DROP_NO_NEXT_HOP, &web);
	/* before the frame is changed */
	assert_int_equal(run(program, &frame, &out), XDP_DROP);
	assert_int_equal(out.length, frame.length);
	*device -= 1000;
	/* the kernel forwards nothing from the loopback device to `devices` */
	set_flags(OXP_NODE_FIB);
	expect_counted(&frame, OXP_DROP_NO_NEXT_HOP, &web);
	set_flags(0);
	expect_forwarded(&frame);
	assert_ok(oxp_uplinks_set(node, NULL, 0, error));
	expect_counted(&frame, OXP_DROP_NO_NEXT_HOP, &web);
	make(&frame, &dns);
	expect_counted(&frame, OXP_DROP_NO_NEXT_HOP, &dns);
}

TEST(test_packets_of_no_known_service_count_for_none)
{
	struct variation later = {.fragment = 0x0064};
	struct flow sctp = web, tunnel = web;
	struct frame frame;

	sctp.protocol = IPPROTO_SCTP;
	make_frame(&frame, &sctp, 64, &later);
	expect_dropped(&frame, OXP_DROP_FRAGMENT);
	tunnel.protocol = IPPROTO_GRE;
	make_frame(&frame, &tunnel, 64, NULL);
	expect_dropped(&frame, OXP_DROP_TUNNEL);
	make(&frame, &web);
	frame.length = 50;
	expect_dropped(&frame, OXP_DROP_MALFORMED);
	assert_int_equal(drops_of(&web), 0);
	assert_int_equal(drops_of(&dns), 0);
}

TEST(test_recreated_service_starts_at_zero)
{
	struct oxp_key key = tcp_key(VIP, 80);
	struct oxp_service list[2];
	struct frame frame;

	set_service(node, &key, NULL, 0);
	make(&frame, &web);
	expect_counted(&frame, OXP_DROP_NO_MEMBER, &web);
	assert_int_equal(oxp_services_list(node, list, 2, error), 2);
	assert_int_equal(list[0].drops + list[1].drops, 1);
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
	set_service(node, &key, NULL, 0);
	assert_int_equal(drops_of(&web), 0);
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
