// SPDX-License-Identifier: Apache-2.0
/* The member's program, alone and behind the forwarding program. */
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "harness.h"
#include "member.h"
#include "member.skel.h"

static const struct flow web = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
static const struct flow dns = {CLIENT, VIP, 40000, 53, IPPROTO_UDP};

static struct oxp_node *node;
static struct member *object;
static int forward, decapsulate;

static int set_up(void **state)
{
	struct oxp_key http = tcp_key(VIP, 80), name = udp_key(VIP, 53);
	struct oxp_member member;
	__u32 own = inet_addr("10.1.0.1");
	__u8 one = 1;

	(void)state;
	node = fresh_state();
	forward = forward_program(node);
	make_members(&member, 1, 0, 0);
	set_service(node, &http, &member, 1);
	set_service(node, &name, &member, 1);
	object = member__open_and_load();
	if (!object)
		return -1;
	decapsulate = bpf_program__fd(object->progs.oxp_member);
	return bpf_map_update_elem(bpf_map__fd(object->maps.addresses), &own,
				   &one, BPF_ANY);
}

static int tear_down(void **state)
{
	(void)state;
	member__destroy(object);
	close(forward);
	oxp_close(node);
	return 0;
}

static uint64_t counter(__u32 which)
{
	uint64_t values[256] = {}, sum = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(object->maps.counters),
					     &which, values),
			 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		sum += values[i];
	return sum;
}

static void encapsulated(struct frame *out, const struct flow *flow,
			 size_t payload, const struct variation *with)
{
	struct frame frame;

	make_frame(&frame, flow, payload, with);
	assert_int_equal(run(forward, &frame, out), XDP_TX);
}

static void expect_untouched(const struct frame *frame)
{
	struct frame out;

	assert_int_equal(run(decapsulate, frame, &out), XDP_PASS);
	assert_int_equal(out.length, frame->length);
	assert_memory_equal(out.data, frame->data, frame->length);
}

/* In through one program, out through the other: the client's packet. */
static void test_round_trip(void **state)
{
	struct frame before, tunnel, after;

	(void)state;
	for (int i = 0; i < 1400; i++) {
		struct variation with = {
			.options = i % 11,
			.tos = i,
			.id = i,
			.fragment = i & 1 ? 0x4000 : 0,
			.padding = i % 7,
		};
		const struct flow *flow = i & 2 ? &web : &dns;

		make_frame(&before, flow, i, &with);
		encapsulated(&tunnel, flow, i, &with);
		assert_int_equal(run(decapsulate, &tunnel, &after), XDP_PASS);
		assert_int_equal(after.length, before.length);
		/* the frame is from the node to the gateway by now */
		assert_memory_equal(after.data, tunnel.data, 14);
		assert_memory_equal(after.data + 14, before.data + 14,
				    before.length - 14);
	}
	assert_int_equal(counter(MEMBER_DECAPSULATED), 1400);
	assert_int_equal(counter(MEMBER_MALFORMED), 0);
}

static void test_not_ours(void **state)
{
	struct frame frame, tunnel;

	(void)state;
	make_frame(&frame, &web, 10, NULL);
	expect_untouched(&frame);

	encapsulated(&tunnel, &web, 10, NULL);
	frame = tunnel;
	frame.data[14 + 19] = 2; /* to 10.1.0.2 */
	expect_untouched(&frame);
	frame = tunnel;
	frame.data[13] = 0xdd;
	expect_untouched(&frame);
	frame = tunnel;
	frame.data[14 + 9] = IPPROTO_GRE;
	expect_untouched(&frame);
	frame = tunnel;
	frame.data[14] = 0x46;
	expect_untouched(&frame);
	frame = tunnel;
	frame.data[14 + 6] = 0x20; /* more fragments */
	expect_untouched(&frame);
	for (tunnel.length = 14; tunnel.length < 34; tunnel.length++)
		expect_untouched(&tunnel);
}

static void test_malformed(void **state)
{
	uint64_t dropped = 0;
	struct frame frame, tunnel;

	(void)state;
	encapsulated(&tunnel, &web, 4, NULL);
	for (size_t length = 34; length < tunnel.length; length++) {
		frame = tunnel;
		frame.length = length;
		assert_int_equal(run(decapsulate, &frame, NULL), XDP_DROP);
		assert_int_equal(counter(MEMBER_MALFORMED), ++dropped);
	}
	frame = tunnel;
	frame.data[34] = 0x60;
	assert_int_equal(run(decapsulate, &frame, NULL), XDP_DROP);
	frame = tunnel;
	frame.data[34] = 0x44;
	assert_int_equal(run(decapsulate, &frame, NULL), XDP_DROP);
	frame = tunnel;
	frame.data[37]++; /* inner length */
	assert_int_equal(run(decapsulate, &frame, NULL), XDP_DROP);
	assert_int_equal(counter(MEMBER_MALFORMED), dropped + 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_round_trip),
		TEST(test_not_ours),
		TEST(test_malformed),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
