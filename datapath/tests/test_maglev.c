// SPDX-License-Identifier: Apache-2.0
/* Balance and disruption of tables. A model in Python checks them against the
 * paper's algorithm. */
#include <errno.h>

#include "harness.h"
#include "maglev_model.h"

static uint16_t table[65537], other[65537];

static void many(struct oxp_address *out, uint16_t *weights, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		out[i] = address("10.2.0.0");
		out[i].bytes[14] = i >> 8;
		out[i].bytes[15] = i;
		weights[i] = 1;
	}
}

static void build(const struct oxp_address *addresses, const uint16_t *weights,
		  uint32_t count, uint32_t slots, uint16_t *out)
{
	assert_int_equal(oxp_test_maglev(addresses, weights, count, slots, out),
			 0);
}

PLAIN_TEST(test_equal_weights_differ_by_at_most_one_slot)
{
	static const uint32_t counts[] = {1, 2, 3, 10, 100, 256};
	struct oxp_address addresses[256];
	uint16_t weights[256];

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		uint32_t count = counts[i], shares[256] = {};

		many(addresses, weights, count);
		build(addresses, weights, count, 13313, table);
		for (int slot = 0; slot < 13313; slot++)
			shares[table[slot]]++;
		/* turns come in rounds: no member is ahead by more than 1 */
		for (uint32_t j = 0; j < count; j++)
			assert_in_range(shares[j], 13313 / count,
					13313 / count + 1);
	}
}

PLAIN_TEST(test_shares_are_proportional_to_weights)
{
	struct oxp_address addresses[256];
	uint32_t shares[256] = {}, total = 0;
	uint16_t weights[256];

	many(addresses, weights, 100);
	for (int i = 0; i < 100; i++)
		total += weights[i] = i;
	build(addresses, weights, 100, 65537, table);
	for (int slot = 0; slot < 65537; slot++)
		shares[table[slot]]++;
	assert_int_equal(shares[0], 0);
	for (int i = 1; i < 100; i++) {
		double expected = 65537.0 * i / total;

		assert_true(shares[i] > expected - 2 &&
			    shares[i] < expected + 2);
	}
}

PLAIN_TEST(test_table_equals_the_algorithm_of_the_paper)
{
	static const uint32_t sizes[] = {2,   3,    5,     251,  509,
					 521, 1009, 13313, 65537};
	struct oxp_address addresses[256];
	uint16_t weights[256];

	srandom(1);
	for (int round = 0; round < 300; round++) {
		uint32_t slots = sizes[random() % 9];
		uint32_t count = 1 + random() % (round % 10 ? 12 : 256);

		many(addresses, weights, count);
		for (uint32_t i = 0; i < count; i++) {
			addresses[i].bytes[13] = round;
			weights[i] = round % 3 ? random() % 257 : 1;
		}
		build(addresses, weights, count, slots, table);
		build_by_the_book(addresses, weights, count, slots, other);
		assert_memory_equal(table, other, slots * sizeof(*table));
	}
}

/* Members not concerned keep nearly all slots. The paper's figure 12 shows few
 * needless changes for tables of 100 slots per member and more. */
PLAIN_TEST(test_few_slots_move_when_a_member_goes)
{
	struct oxp_address addresses[256];
	uint16_t weights[256];

	for (uint32_t count = 10; count <= 100; count *= 10) {
		uint32_t needless = 0;

		many(addresses, weights, count);
		build(addresses, weights, count, 65537, table);
		weights[count / 2] = 0;
		build(addresses, weights, count, 65537, other);
		for (int slot = 0; slot < 65537; slot++)
			if (table[slot] != count / 2)
				needless += table[slot] != other[slot];
		print_message("%u members, 65537 slots, one down: %.2f %% of "
			      "the others' slots move\n",
			      count, 100.0 * needless / 65537);
		assert_true(needless < 65537 / 50);
	}
}

PLAIN_TEST(test_sizes_that_make_no_table_are_refused)
{
	struct oxp_address addresses[2];
	uint16_t weights[2];

	many(addresses, weights, 2);
	assert_int_equal(oxp_test_maglev(addresses, weights, 2, 0, table),
			 -EINVAL);
	assert_int_equal(oxp_test_maglev(addresses, weights, 2, 1, table),
			 -EINVAL);
	assert_int_equal(oxp_test_maglev(addresses, weights, 2, 1000, table),
			 -EINVAL);
	assert_int_equal(
		oxp_test_maglev(addresses, weights, 2, 4294967291u, table),
		-EINVAL);
}

/* Flows must spread over slots as if at random. */
PLAIN_TEST(test_flow_hash_spreads_flows_as_chance_would)
{
	uint32_t shares[1009] = {};
	double chi = 0;

	/* one client subnet, consecutive ports: a poor hash clusters */
	for (uint32_t host = 0; host < 64; host++)
		for (uint32_t port = 0; port < 16384; port++)
			shares[flow_slot(
				flow_hash_v4(0x076433c6 + (host << 24),
					     0x010200c0,
					     (uint32_t)__builtin_bswap16(port)
							     << 16 |
						     __builtin_bswap16(80),
					     6),
				1009)]++;
	for (int i = 0; i < 1009; i++) {
		double expected = 64.0 * 16384 / 1009;

		chi += (shares[i] - expected) * (shares[i] - expected) /
		       expected;
	}
	/* 1008 degrees of freedom: 1008 +- 45, five sigma */
	print_message("chi square of flow_hash: %.0f\n", chi);
	assert_true(chi < 1233);
}

RUN_TESTS(NULL, NULL)
