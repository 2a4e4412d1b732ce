/* SPDX-License-Identifier: Apache-2.0 */
/* A service of up to four members whose slots get a history, and owners
 * according to the Maglev paper. */
#ifndef OXP_HISTORY_FIXTURE_H
#define OXP_HISTORY_FIXTURE_H

#include <errno.h>

#include "fixture.h"

#include "maglev_model.h"
#include "state.h"
#include "table/blocks.h"
#include "table/slots.h"

#define MEMBERS 4
#define IDLE_S 400 /* ages grow every 50 s */

static struct oxp_key key;
static struct oxp_member members[MEMBERS];

/* Owners of slots if member i has weights[i]. */
static void owners_of(const uint16_t *weights, uint32_t slots, uint16_t *out)
{
	struct oxp_address addresses[MEMBERS];

	for (uint32_t i = 0; i < MEMBERS; i++)
		addresses[i] = members[i].address;
	build_by_the_book(addresses, weights, MEMBERS, slots, out);
}

/* Owners with the first two members, with three, and with all. */
static uint16_t two[TEST_SLOTS], three[TEST_SLOTS], four[TEST_SLOTS];

static struct oxp_past_weight past(uint32_t member, uint16_t weight,
				   uint32_t age_s)
{
	return (struct oxp_past_weight){.address = members[member].address,
					.weight = weight,
					.age_s = age_s};
}

static int apply(const struct oxp_past_weight *changes, uint32_t count)
{
	int status = oxp_history_apply(node, &key, changes, count, error);

	if (status < 0)
		fail_msg("%s", error);
	return status;
}

static inline void set_members(uint32_t flags, uint32_t count)
{
	struct oxp_service_settings settings = {
		.flags = flags,
		.encapsulation = flags ? OXP_GUE : OXP_IPIP,
		.idle_timeout_s = IDLE_S,
	};

	set_service_as(node, &key, &settings, members, count);
}

static int set_up_members(void **state)
{
	(void)state;
	open_empty_node();
	key = tcp_key(VIP, 80);
	make_members(members, MEMBERS, 0, 0);
	owners_of((uint16_t[]){1, 1, 0, 0}, TEST_SLOTS, two);
	owners_of((uint16_t[]){1, 1, 1, 0}, TEST_SLOTS, three);
	owners_of((uint16_t[]){1, 1, 1, 1}, TEST_SLOTS, four);
	return 0;
}

static int tear_down_and_verify(void **state)
{
	if (oxp_test_verify(node, error))
		fail_msg("%s", error);
	return tear_down(state);
}

static const struct service_block *block(void)
{
	return live_block(node, 0);
}

/* Slots of `earlier` with another owner must be open, with that owner as
 * `before`. */
static inline uint32_t expect_open(const uint16_t *earlier, const uint16_t *now)
{
	uint16_t out[TEST_SLOTS], before[TEST_SLOTS];
	uint32_t slots, open = 0;

	assert_int_equal(oxp_table_get(node, &key, out, before, TEST_SLOTS,
				       &slots, error),
			 TEST_SLOTS);
	assert_int_equal(slots, TEST_SLOTS);
	assert_memory_equal(out, now, sizeof(out));
	assert_memory_equal(before, earlier, sizeof(before));
	for (uint32_t i = 0; i < TEST_SLOTS; i++) {
		assert_int_equal(slot_is_open(block(), i),
				 earlier[i] != now[i]);
		open += earlier[i] != now[i];
	}
	assert_true(open);
	return open;
}

#undef TEST
#define TEST(name) TEST_WITH(name, set_up_members, tear_down_and_verify)

#endif
