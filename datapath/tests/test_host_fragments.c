// SPDX-License-Identifier: Apache-2.0
/*
 * A VM's later fragments leave by the entry of their first one. First fragments
 * of all ports of a hypervisor are remembered in one table: a VM must not cost
 * another one its fragments.
 */
#include "host_harness.h"
#include "older_sets.h"

static const struct oxh_sizes small = {.entries = 4, .ports = 2, .flows = 64};

#define VICTIM FIXED
#define GREEDY "10.7.0.6"
#define GREEDY_KEY (KEY + 1)
#define IP 14
#define MORE 0x2000
#define PLACES (HOST_FRAGMENT_SETS * SHARE_WAYS)
#define FEW 100

/* Two VMs with a flow each. */
static void begin_with_two(void)
{
	const struct segment flows[] = {{.fixed = VICTIM}, {.fixed = GREEDY}};
	struct oxh_entry entry = entry_of(KEY, 1);

	fresh_host(&small);
	set_open_port(1, 8);
	set_open_port(2, 8);
	set_entry(&entry);
	establish_with(KEY, &flows[0]);
	entry = entry_of(GREEDY_KEY, 2);
	entry.fixed = address(GREEDY);
	set_entry(&entry);
	establish_with(GREEDY_KEY, &flows[1]);
}

/* Whether the VM's fragment leaves by its entry. */
static bool fragment_leaves(const char *fixed, uint16_t id, uint16_t fragment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];
	const struct segment segment = {.fixed = fixed, .flags = ACK};
	size_t length = make_out(in, &segment);
	uint16_t sum;

	in[IP + 4] = id >> 8;
	in[IP + 5] = id;
	in[IP + 6] = fragment >> 8;
	in[IP + 7] = fragment;
	in[IP + 10] = in[IP + 11] = 0;
	sum = ~sum_of(in + IP, 20, 0);
	in[IP + 10] = sum >> 8;
	in[IP + 11] = sum;
	return run(OXH_TAP_IN, in, length, out);
}

static void send_first(const char *fixed, uint32_t from, uint32_t count)
{
	while (count--)
		assert_true(fragment_leaves(fixed, from++, MORE));
}

static uint32_t count_followed(const char *fixed, uint32_t from, uint32_t count)
{
	uint32_t left = 0;

	while (count--)
		left += fragment_leaves(fixed, from++, 1);
	return left;
}

HOST_TEST(test_another_port_costs_nothing_that_is_there)
{
	begin_with_two();
	send_first(VICTIM, 0, FEW);
	send_first(GREEDY, 0, 2 * PLACES);
	assert_int_equal(count_followed(VICTIM, 0, FEW), FEW);
}

HOST_TEST(test_another_port_that_filled_it_gives_way)
{
	begin_with_two();
	send_first(GREEDY, 0, 2 * PLACES);
	send_first(VICTIM, 0, FEW);
	send_first(GREEDY, 0, 2 * PLACES);
	assert_int_equal(count_followed(VICTIM, 0, FEW), FEW);
}

/* A port that fills the table itself loses its oldest ones. */
HOST_TEST(test_port_loses_its_oldest_fragments)
{
	uint32_t last = 4 * PLACES - FEW;

	begin_with_two();
	send_first(GREEDY, 0, 4 * PLACES);
	assert_in_range(count_followed(GREEDY, last, FEW), FEW * 9 / 10, FEW);
	assert_in_range(count_followed(GREEDY, 0, FEW), 0, FEW / 10);
}

HOST_TEST(test_only_the_same_datagram_follows)
{
	begin_with_two();
	send_first(VICTIM, 7, 1);
	assert_true(fragment_leaves(VICTIM, 7, 1));
	assert_true(fragment_leaves(VICTIM, 7, MORE | 1));
	assert_false(fragment_leaves(VICTIM, 8, 1));
	assert_false(fragment_leaves(GREEDY, 7, 1));
}

/* RFC 8200, section 4.5: reassembly of a datagram ends after 60 s. */
HOST_TEST(test_what_is_old_is_not_followed)
{
	int map;

	begin_with_two();
	map = host->map[MAP_FRAGMENTS];
	send_first(VICTIM, 0, FEW);
	make_older(map, HOST_FRAGMENT_SETS, 40000);
	assert_int_equal(count_followed(VICTIM, 0, FEW), FEW);
	make_older(map, HOST_FRAGMENT_SETS, 20000);
	assert_int_equal(count_followed(VICTIM, 0, FEW), 0);
}

RUN_TESTS(enter_host_namespace, NULL)
