// SPDX-License-Identifier: Apache-2.0
/* The lookup tables compared with a list. */
#include <arpa/inet.h>
#include <errno.h>

#include "harness.h"

#define KEYS 400

static struct oxp_node *node;

struct known {
	struct lookup_key key;
	int64_t place; /* -1: not in the table */
	uint32_t value;
};

static struct lookup_key random_key(bool v6, int which)
{
	struct oxp_address vip = address(v6 ? "2001:db8::" : "192.0.2.0");

	/* some differ in only one part */
	vip.bytes[15] = which % 20;
	return lookup_key(vip.bytes, htons(which / 40),
			  which % 40 < 20 ? 6 : 17);
}

static uint32_t check_all(const struct known *known)
{
	uint32_t there = 0, keys;

	for (int i = 0; i < KEYS; i++) {
		int64_t place = lookup_find(node, &known[i].key);

		assert_int_equal(place,
				 known[i].place < 0 ? -ENOENT : known[i].place);
		if (place < 0)
			continue;
		there++;
		assert_int_equal(*lookup_value(node, known[i].key.v6, place),
				 known[i].value);
	}
	assert_int_equal(lookup_check(node, &keys), 0);
	assert_int_equal(keys, there);
	return there;
}

/* Insert the key if it is absent, otherwise remove it. */
static void change(struct known *one, uint64_t *refused)
{
	if (one->place >= 0) {
		lookup_erase(node, &one->key, one->place);
		one->place = -1;
		return;
	}
	one->value = random();
	one->place = lookup_insert(node, &one->key, one->value);
	if (one->place >= 0)
		return;
	assert_int_equal(one->place, -ENOSPC);
	++*refused;
	one->place = -1;
}

static void check_family(bool v6)
{
	struct known known[KEYS];
	uint64_t refused = 0;
	uint32_t most = 0, there;

	for (int i = 0; i < KEYS; i++)
		known[i] = (struct known){random_key(v6, i), -1, 0};
	/* 160 places: alternately nearly empty and more than full */
	for (int step = 0; step < 20000; step++) {
		struct known *one = &known[random() % KEYS];

		if (one->place >= 0 && step / 1000 % 2 && random() % 4)
			continue;
		change(one, &refused);
		if (step % 50)
			continue;
		there = check_all(known);
		if (there > most)
			most = there;
	}
	print_message("at most %u keys in 160 places, %llu refused\n", most,
		      (unsigned long long)refused);
	assert_true(refused > 0 && most > 140);
	for (int i = 0; i < KEYS; i++)
		if (known[i].place >= 0)
			change(&known[i], &refused);
	assert_int_equal(check_all(known), 0);
	for (uint32_t i = 0; i <= node->config->lookup_mask; i++)
		assert_int_equal(v6 ? node->lookup_v6[i].overflow
				    : node->lookup_v4[i].overflow,
				 0);
}

PLAIN_TEST(test_table_agrees_with_a_list)
{
	node = fresh_state();
	assert_int_equal(lookup_places(node), 160);
	check_family(false);
	check_family(true);
	oxp_close(node);
}

/* Half of the keys, at random, are not kept, and counts are damaged. */
PLAIN_TEST(test_repair_keeps_marked_keys_and_restores_counts)
{
	uint64_t bits[2][3] = {};
	const uint64_t *keep[2] = {bits[0], bits[1]};
	struct known known[KEYS];

	node = fresh_state();
	for (int i = 0; i < KEYS; i++) {
		struct known *one = &known[i];

		*one = (struct known){random_key(i & 1, i), -1, i};
		if (i < 240)
			one->place = lookup_insert(node, &one->key, i);
		if (one->place < 0)
			one->place = -1;
		else if (i % 3)
			bits[i & 1][one->place / 64] |= 1ULL << one->place % 64;
		else
			one->place = -1;
	}
	node->lookup_v4[3].overflow += 2;
	node->lookup_v6[5].overflow += 1;
	assert_int_equal(lookup_repair(node, keep), 0);
	check_all(known);
	oxp_close(node);
}

/* At sizes that a node may have all keys find room, whatever the seed. */
PLAIN_TEST(test_every_key_has_a_place_whatever_the_seed)
{
	node = open_sized("room", (struct oxp_options){.services_max = 4096,
						       .slots_max = 2,
						       .flows_max = 8});
	for (int round = 0; round < 20; round++) {
		uint64_t none[4096] = {};
		const uint64_t *keep[2] = {none, none};

		node->config->seed = (uint64_t)random() << 33 ^ random();
		assert_true(lookup_places(node) / 64 <= 4096);
		/* each service with its own VIP: two keys */
		for (uint32_t i = 0; i < 4096; i++) {
			struct oxp_address vip = address("10.0.0.0");
			struct lookup_key key;

			vip.bytes[14] = i >> 8;
			vip.bytes[15] = i;
			key = lookup_key(vip.bytes, 0, 0);
			assert_true(lookup_insert(node, &key, i) >= 0);
			key = lookup_key(vip.bytes, htons(80), 6);
			assert_true(lookup_insert(node, &key, i) >= 0);
		}
		assert_int_equal(lookup_repair(node, keep), 0);
	}
	remove_state(node);
}

RUN_TESTS(enter_namespace, NULL)
