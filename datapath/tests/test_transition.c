// SPDX-License-Identifier: Apache-2.0
/*
 * Slots from table to table, with a model of flows: whatever happens to members
 * and owners, each packet of a flow goes to its member if that keeps flows
 * throughout.
 */
#include "harness.h"
#include "slot_model.h"

#define NOBODY SLOT_NOBODY

PLAIN_TEST(test_flows_keep_their_member_through_transitions)
{
	for (int shows_opening = 0; shows_opening < 2; shows_opening++) {
		uint64_t checked = 0;

		for (unsigned int seed = 0; seed < 2000; seed++)
			checked += check_flows(shows_opening, seed);
		print_message("%llu packets of flows that stayed (%s)\n",
			      (unsigned long long)checked,
			      shows_opening ? "TCP" : "UDP");
		assert_true(checked > 1000000);
	}
}

#define O SLOT_OPEN

/* The table in slot_transition.c, row by row. Members 1 and 2 stay, 3 does
 * not. */
PLAIN_TEST(test_transitions_are_those_of_the_documented_table)
{
	static const struct {
		uint16_t slot, before, owner;
		bool at_before;
		uint16_t next_slot, next_before;
	} rows[] = {
		/* closed: same owner; owner keeps; owner lost; nobody */
		{1, 0, 1, true, 1, 1},
		{1, 0, 2, true, 2 | O, 1},
		{1, 0, 2, false, 2 | O, 1},
		{3, 0, 2, true, 2, 2},
		{NOBODY, 0, 2, true, 2, 2},
		{1, 0, NOBODY, true, NOBODY | O, 1},
		{3, 0, NOBODY, true, NOBODY, NOBODY},
		/* another member with the same index */
		{3, 0, 3, true, 3, 3},
		/* open: `before` keeps flows, whoever was and is owner */
		{2 | O, 1, 2, true, 2 | O, 1},
		{2 | O, 1, 1, true, 1 | O, 1},
		{2 | O, 1, 3, true, 3 | O, 1},
		{3 | O, 1, 2, true, 2 | O, 1},
		/* `before` is lost, but not the owner */
		{2 | O, 3, 2, true, 2 | O, 2},
		{2 | O, 3, 1, true, 1 | O, 2},
		/* both are lost: third members may have flows */
		{3 | O, 3, 1, true, 1 | O, 1},
		{NOBODY | O, 3, 1, true, 1 | O, 1},
		/* after learning, unknown flows are with the owner */
		{2 | O, 1, 2, false, 2 | O, 2},
		{2 | O, 1, 1, false, 1 | O, 2},
		{3 | O, 1, 2, false, 2 | O, 2},
	};
	bool stays[STAYS] = {[1] = true, [2] = true};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct slot_state next = slot_transition(
			(struct slot_state){rows[i].slot, rows[i].before},
			rows[i].owner, stays, rows[i].at_before);

		if (next.slot != rows[i].next_slot ||
		    (next.slot & O && next.before != rows[i].next_before))
			fail_msg("row %zu: %x before %x", i, next.slot,
				 next.before);
	}
}

RUN_TESTS(NULL, NULL)
