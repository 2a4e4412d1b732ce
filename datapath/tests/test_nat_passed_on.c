// SPDX-License-Identifier: Apache-2.0
/* How much of what peers seek is passed on, whoever claims to be a peer. */
#include "nat_fixture.h"

#define NEXT "192.0.2.1"
#define FIRST "192.0.2.9"
#define LAST "192.0.2.17"
/* Its index in the list of peers. */
#define OF_FIRST 2
/* The outer headers, and the GRE key of a search. */
#define OUTER 28
#define A_SECOND 40000
#define SEEK_KEY 0x4f580101

static void put(uint8_t *at, uint32_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = value >> 8 * (bytes - 1 - i);
}

static void put_address(uint8_t *at, const char *text)
{
	struct oxp_address one = address(text);

	memcpy(at, one.bytes + 12, 4);
}

/* A packet of an unknown connection, from this peer. */
static void make_sought(struct frame *frame, const char *origin)
{
	const struct variation with = {.tcp_flags = ACK};
	uint8_t *outer = frame->data + 14;

	make_frame(frame, &ours, 0, &with);
	memmove(outer + OUTER, outer, frame->length - 14);
	frame->length += OUTER;
	memset(outer, 0, OUTER);
	put(outer, 0x45, 1);
	put(outer + 2, frame->length - 14, 2);
	put(outer + 6, 0x4000, 2);
	put(outer + 8, 64, 1);
	put(outer + 9, IPPROTO_GRE, 1);
	put_address(outer + 12, origin);
	put_address(outer + 16, POOL);
	put(outer + 20, 0x2000, 2);
	put(outer + 22, 0x0800, 2);
	put(outer + 24, SEEK_KEY, 4);
}

/* If the second ends before the packet arrives, try again in the next one. */
static void expect_outcome(const char *origin, uint16_t passed, uint32_t which)
{
	struct frame frame;
	uint64_t before;
	uint32_t begin;

	do {
		make_sought(&frame, origin);
		begin = set_scratch(
			(struct nat_scratch){.passed[OF_FIRST] = passed});
		before = outcome(which).packets;
		run(program, &frame, NULL);
	} while (nat_now() != begin);
	assert_int_equal(outcome(which).packets, before + 1);
}

NAT_TEST(test_each_peer_has_its_own_budget)
{
	const struct oxp_address peers[] = {address(POOL), address(NEXT),
					    address(FIRST), address(LAST)};

	assert_ok(oxp_nat_peers_set(node, peers, 4, error));
	expect_outcome(FIRST, 0, OXP_NAT_HANDED_ON);
	expect_outcome(FIRST, A_SECOND - 1, OXP_NAT_HANDED_ON);
	expect_outcome(FIRST, A_SECOND, OXP_DROP_NAT_PEER);
	expect_outcome(LAST, A_SECOND, OXP_NAT_HANDED_ON);
	assert_int_equal(service_of(&ours).drops, 0);
}

RUN_TESTS(enter_namespace, NULL)
