// SPDX-License-Identifier: Apache-2.0
/* Packets without a mark to addresses that stand for members. */
#include <errno.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>

#include "probe_fixture.h"

#define TOKEN "100.64.0.9"
#define OTHER_TOKEN "100.64.7.7"
#define TOKEN_V6 "fd00:64::9"

static void set_networks(void)
{
	const struct oxp_network networks[] = {{address("100.64.0.0"), 10},
					       {address("fd00:64::"), 64}};

	assert_ok(oxp_token_networks_set(node, networks, 2, error));
}

static struct oxp_probe token(const char *text, uint32_t key)
{
	struct oxp_probe probe = target(text, MEMBER, OXP_IPIP);

	probe.mark += key;
	probe.is_token = 1;
	probe.tunnel = (struct oxp_tunnel){.address = address("10.9.0.1"),
					   .encapsulation = OXP_GENEVE,
					   .key = key};
	return probe;
}

static void make_to(struct frame *out, const char *destination)
{
	const struct variation with = {.tos = 0xb8, .fragment = 0x4000};
	const struct flow flow = {CLIENT, TOKEN, 40000, 80, IPPROTO_TCP};

	make_frame(out, &flow, 100, &with);
	if (strchr(destination, ':'))
		to_v6(out, "2001:db8:c::7", destination);
	else
		memcpy(out->data + 14 + 16, address(destination).bytes + 12, 4);
}

static void expect_sent(const char *destination, uint32_t key)
{
	struct frame in, out;
	uint32_t mark = 0;
	bool v6 = strchr(destination, ':');

	make_to(&in, destination);
	assert_int_equal(run_marked(&in, &out, &mark),
			 v6 ? TC_ACT_REDIRECT : TC_ACT_OK);
	assert_int_equal(out.length, in.length + 20 + 8 + 8);
	assert_memory_equal(out.data + 14 + 16, address("10.9.0.1").bytes + 12,
			    4);
	/* RFC 8926: the VNI in the upper 24 bits of the second word */
	assert_int_equal(out.data[14 + 20 + 8 + 6], key);
	/* the packet itself is the proxy's */
	assert_memory_equal(out.data + 14 + 36, in.data + 14, in.length - 14);
}

static void expect_untouched(const char *destination)
{
	struct frame in, out;
	uint32_t mark = 0;

	make_to(&in, destination);
	assert_int_equal(run_marked(&in, &out, &mark), TC_ACT_UNSPEC);
	assert_int_equal(out.length, in.length);
	assert_memory_equal(out.data, in.data, in.length);
}

static void expect_dropped(const char *destination,
			   enum oxp_probe_outcome which)
{
	struct frame in;

	make_to(&in, destination);
	expect(&in, 0, TC_ACT_SHOT, which);
}

TEST(test_packets_to_tokens_take_their_members_tunnel)
{
	const struct oxp_probe wanted[] = {
		token(TOKEN, 1), token(OTHER_TOKEN, 2), token(TOKEN_V6, 3)};
	struct oxp_probe shown[3];

	set_networks();
	set_probes(wanted, 3);
	expect_sent(TOKEN, 1);
	expect_sent(OTHER_TOKEN, 2);
	expect_sent(TOKEN_V6, 3);
	assert_int_equal(oxp_probes_list(node, shown, 3, error), 3);
	assert_memory_equal(shown, wanted, sizeof(wanted));
}

TEST(test_packets_to_no_token_do_not_leave)
{
	const struct oxp_probe wanted = token(TOKEN, 1);

	set_networks();
	set_probes(&wanted, 1);
	expect_dropped(OTHER_TOKEN, OXP_PROBE_DROP_UNKNOWN);
	set_probes(NULL, 0);
	expect_dropped(TOKEN, OXP_PROBE_DROP_UNKNOWN);
	expect_dropped(TOKEN_V6, OXP_PROBE_DROP_UNKNOWN);
}

TEST(test_other_destinations_are_untouched)
{
	const struct oxp_probe wanted[] = {token(TOKEN, 1),
					   token("203.0.113.9", 2)};

	set_networks();
	set_probes(wanted, 2);
	expect_untouched(CLIENT);
	expect_untouched("2001:db8::1");
	/* outside of the networks of tokens */
	expect_untouched("203.0.113.9");
	assert_ok(oxp_token_networks_set(node, NULL, 0, error));
	expect_untouched(TOKEN);
}

TEST(test_vip_of_a_mark_is_no_token)
{
	struct oxp_probe wanted = token(TOKEN, 1);

	wanted.is_token = 0;
	set_networks();
	set_probes(&wanted, 1);
	expect_dropped(TOKEN, OXP_PROBE_DROP_UNKNOWN);
}

/* The table as a change leaves it for a moment: a mark is another member's. */
TEST(test_packet_does_not_reach_the_member_of_another_token)
{
	const struct oxp_probe wanted = token(TOKEN, 1);
	struct oxp_probe other = token(OTHER_TOKEN, 1);
	struct probe_maps maps;
	uint32_t mark = MARK + 1;

	set_networks();
	set_probes(&other, 1);
	assert_ok(open_probe_maps(node, &maps));
	assert_ok(bpf_map_update_elem(maps.tokens, wanted.vip.bytes, &mark,
				      BPF_ANY));
	close_probe_maps(&maps);
	expect_dropped(TOKEN, OXP_PROBE_DROP_DESTINATION);
	/* the next change removes what nobody wants */
	set_probes(&other, 1);
	expect_dropped(TOKEN, OXP_PROBE_DROP_UNKNOWN);
	expect_sent(OTHER_TOKEN, 1);
}

TEST(test_marks_of_tokens_may_be_exchanged)
{
	struct oxp_probe wanted[] = {token(TOKEN, 1), token(OTHER_TOKEN, 2)};
	uint32_t mark = wanted[0].mark;

	set_networks();
	set_probes(wanted, 2);
	wanted[0].mark = wanted[1].mark;
	wanted[1].mark = mark;
	set_probes(wanted, 2);
	expect_sent(TOKEN, 1);
	expect_sent(OTHER_TOKEN, 2);
}

TEST(test_refused_tokens_leave_the_others)
{
	const struct oxp_probe present = token(TOKEN, 1);
	struct oxp_probe twice[] = {token(OTHER_TOKEN, 1),
				    token(OTHER_TOKEN, 2)};
	struct oxp_network wrong = {address("100.64.0.1"), 10};

	set_networks();
	set_probes(&present, 1);
	assert_int_equal(oxp_probes_set(node, twice, 2, error), -EEXIST);
	assert_string_equal(error,
			    "token 100.64.7.7 is there twice: File exists");
	assert_int_equal(oxp_token_networks_set(node, &wrong, 1, error),
			 -EINVAL);
	assert_string_equal(
		error, "network of tokens 100.64.0.1/10: Invalid argument");
	expect_sent(TOKEN, 1);
}

RUN_TESTS(enter_namespace, NULL)
