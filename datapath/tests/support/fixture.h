/* SPDX-License-Identifier: Apache-2.0 */
/* A node with two services of one member, and checks of packets. */
#ifndef OXP_FIXTURE_H
#define OXP_FIXTURE_H

#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include "harness.h"

static const struct flow web = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
static const struct flow dns = {CLIENT, VIP, 40000, 53, IPPROTO_UDP};

static struct oxp_node *node;
static int program;

/* Without the services, for tests that set others. */
static inline void open_empty_node(void)
{
	node = fresh_state();
	program = forward_program(node);
}

static inline int set_up(void **state)
{
	const struct oxp_service_settings settings = {};

	(void)state;
	open_empty_node();
	set_with_one_member(node, key_of(&web), settings);
	set_with_one_member(node, key_of(&dns), settings);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(program);
	oxp_close(node);
	return 0;
}

static inline struct oxp_outcome_counters outcome(enum oxp_outcome which)
{
	struct oxp_outcome_counters all[OXP_OUTCOMES];

	assert_int_equal(oxp_outcomes_list(node, all, OXP_OUTCOMES, error),
			 OXP_OUTCOMES);
	return all[which];
}

/* One more packet than before, of this length. */
static inline void expect_one_more(enum oxp_outcome which,
				   struct oxp_outcome_counters before,
				   uint32_t length)
{
	struct oxp_outcome_counters after = outcome(which);

	assert_int_equal(after.packets, before.packets + 1);
	assert_int_equal(after.bytes, before.bytes + length);
}

static inline void expect_forwarded(const struct frame *frame)
{
	struct frame out;

	assert_int_equal(run(program, frame, &out), XDP_TX);
	expect_encapsulated(frame, &out, "10.1.0.1");
}

static inline void expect_untouched(const struct frame *frame)
{
	struct frame out;

	assert_int_equal(run(program, frame, &out), XDP_PASS);
	assert_int_equal(out.length, frame->length);
	assert_memory_equal(out.data, frame->data, frame->length);
}

static inline void expect_dropped(const struct frame *frame,
				  enum oxp_outcome why)
{
	struct oxp_outcome_counters before = outcome(why);

	assert_int_equal(run(program, frame, NULL), XDP_DROP);
	expect_one_more(why, before, frame->length);
}

#define TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
