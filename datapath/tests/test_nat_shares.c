// SPDX-License-Identifier: Apache-2.0
/*
 * Ports kept for a group whatever others take; and a free port is found however
 * few there are.
 */
#include "nat_fixture.h"

#define OTHERS 3
#define POOLS 8
#define POOL_V6 "2001:db8:7::"
#define MEMBER_V6 "fd00::1"

static const struct flow others = {CLIENT, VIP, 40000, 82, IPPROTO_TCP};

static int set_up_three(void **state)
{
	set_up_nat(state);
	set_nat(&others, OTHERS, 0, 8082);
	share_nat_ports(node);
	return 0;
}

/* Returns how many of the clients get a connection. */
static uint32_t begin(uint32_t clients, const struct flow *to)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < clients; i++)
		count += from_client(i, to, SYN) == XDP_TX;
	return count;
}

/* Open connections until no more are possible. Returns how many there are. */
static uint32_t take_all(const struct flow *to, uint16_t group)
{
	for (uint32_t i = 0; from_client(i, to, SYN) == XDP_TX; i++)
		establish(i, to);
	return flows_of(group);
}

/* All flows that packets may have but one. The flows are all alike. */
static void take_half(const struct flow *to)
{
	fill_ports_like(establish(0, to),
			OXP_NAT_PORT_MIN + POOL_PORTS / 2 - 1);
}

#define SHARES_TEST(name) TEST_WITH(name, set_up_three, tear_down)

SHARES_TEST(test_two_groups_leave_a_third_its_part)
{
	uint32_t taken;

	take_half(&ours);
	taken = take_all(&theirs, THEIRS);
	print_message("two have %u and %u\n", flows_of(OURS), taken);
	/* one half is kept: a quarter of it for each of three groups and for
	 * one more */
	assert_true(taken >= POOL_PORTS / 8);
	assert_true(flows_of(OURS) + taken >= POOL_PORTS * 3 / 4);
	assert_int_equal(begin(1000, &others), 1000);
	for (uint32_t i = 0; i < POOL_PORTS / 8; i++)
		establish(i, &others);
	expect_full(POOL_PORTS / 8, &others);
}

SHARES_TEST(test_new_group_gets_its_share)
{
	take_half(&ours);
	take_all(&theirs, THEIRS);
	take_all(&others, OTHERS);
	set_nat(&ours_udp, OTHERS + 1, 0, 8083);
	assert_int_equal(begin(1000, &ours_udp), 1000);
	age();
	assert_int_equal(begin(1000, &ours_udp), 1000);
}

SHARES_TEST(test_ports_given_back_can_be_taken)
{
	uint32_t before;

	take_half(&ours);
	before = take_all(&theirs, THEIRS);
	end_nat_flows_of_address(node, 0);
	assert_int_equal(flows_of(OURS) + flows_of(THEIRS), 0);
	age();
	assert_true(take_all(&theirs, THEIRS) > before);
	assert_int_equal(flows_of(THEIRS), POOL_PORTS / 2);
}

/* Leave one port in `step` free. Returns how many are free. */
static uint32_t free_every(uint32_t step)
{
	struct nat_flow *table = pool_table(), *like = establish(0, &ours);
	const struct nat_flow copy = *like;
	uint32_t count = 0;

	for (uint32_t port = OXP_NAT_PORT_MIN; port < 65536; port++) {
		table[port] = copy;
		if (port % step == step - 1) {
			table[port].state = NAT_FREE;
			count++;
		}
	}
	nat_groups(node)[OURS].flows = POOL_PORTS - count;
	return count;
}

SHARES_TEST(test_the_last_free_ports_are_found)
{
	uint32_t left = free_every(3000);

	note_flows(0);
	assert_in_range(left, 20, 30);
	for (uint32_t i = 0; i < left; i++)
		establish(i, &theirs);
	expect_full(left, &theirs);
	/* ended flows free their ports, whoever ends them */
	assert_int_equal(from_client(0, &theirs, RST), XDP_TX);
	silent_for(find_flow(0, &theirs), NAT_TIME_WAIT_TIME + 1);
	age();
	establish(left, &theirs);
	expect_full(left + 1, &theirs);
}

/* One in twenty is free, but not recorded. */
SHARES_TEST(test_free_ports_are_found_without_useful_bits)
{
	free_every(20);
	share_nat_ports(node);
	assert_in_range(begin(1000, &theirs), 700, 1000);
	age();
	for (uint32_t i = 0; i < 1000; i++)
		establish(i, &theirs);
}

SHARES_TEST(test_ageing_finds_free_ports_that_bits_hide)
{
	struct nat_ports *ports = (struct nat_ports *)nat_table(node, 0);
	uint32_t left = free_every(3000);

	memset(ports, 0xff, sizeof(*ports));
	nat_groups(node)[0].full_addresses = ~0ULL;
	age();
	assert_int_equal(begin(left, &theirs), left);
}

/* Even if only one of several addresses has any. */
SHARES_TEST(test_address_with_free_ports_is_found)
{
	const struct oxp_network pools = {address("203.0.113.0"), 29};
	const struct nat_flow flow = *establish(0, &ours);

	assert_ok(oxp_nat_pools_set(node, &pools, 1, error));
	for (uint32_t i = 0; i < POOLS - 1; i++) {
		struct nat_flow *table = nat_table(node, i);

		for (uint32_t port = OXP_NAT_PORT_MIN; port < 65536; port++)
			table[port] = flow;
		note_flows(i);
	}
	for (uint32_t i = 1; i <= 200; i++)
		assert_int_equal(from_client(i, &theirs, SYN), XDP_TX);
}

static void set_member(const struct flow *to, uint16_t group,
		       const char *member)
{
	const struct oxp_service_settings settings = {
		.slots = TEST_SLOTS,
		.flags = OXP_SERVICE_NAT,
		.nat_group = group,
		.nat_flows = ALL_PORTS,
	};
	const struct oxp_member one = {.address = address(member),
				       .port = 8080,
				       .weight = 1,
				       .admin_up = 1};
	struct oxp_key key = tcp_key(VIP, to->destination_port);

	set_service_as(node, &key, &settings, &one, 1);
}

/* A family cannot use the other's ports. */
SHARES_TEST(test_families_have_shares_of_their_own)
{
	const struct oxp_network pools[] = {{address(POOL), 32},
					    {address(POOL_V6), 128}};

	assert_ok(oxp_nat_pools_set(node, pools, 2, error));
	set_member(&theirs, OURS, MEMBER_V6);
	set_member(&others, OTHERS, MEMBER_V6);
	set_nat(&ours, OURS, ALL_PORTS, 8080);
	fill_pool_like(establish(0, &ours));
	expect_full(1, &ours);
	assert_int_equal(begin(100, &theirs), 100);
	assert_int_equal(begin(100, &others), 100);
	assert_int_equal(nat_groups(node)[OURS].flows_v6, 100);
	assert_int_equal(flows_of(OURS), POOL_PORTS + 100);
	assert_int_equal(nat_groups(node)[OTHERS].flows_v6, 100);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(from_client(i, &theirs, RST), XDP_TX);
	end_nat_flows_of_address(node, OXP_NAT_ADDRESSES_MAX);
	assert_int_equal(nat_groups(node)[OURS].flows_v6, 0);
	assert_int_equal(flows_of(OURS), POOL_PORTS);
	assert_int_equal(flows_of(OTHERS), 0);
}

RUN_TESTS(enter_namespace, NULL)
