// SPDX-License-Identifier: Apache-2.0
/*
 * Slots from table to table, against a model of flows: whatever happens to
 * members and owners, a flow whose member keeps flows all the time goes to
 * this member with every packet.
 */
#include "harness.h"

#define MEMBERS 6
#define FLOWS 40
#define NOBODY SLOT_NOBODY

struct model {
	bool shows_opening; /* packets show when a flow opens: TCP, SCTP */
	bool learning;
	struct slot_state slot;
	bool keeps[512];
	struct {
		bool alive;
		uint16_t member;
		uint16_t remembered; /* NOBODY: not */
	} flow[FLOWS];
	uint64_t checked;
};

static bool is_open(const struct model *model)
{
	return model->slot.slot & SLOT_OPEN;
}

/* As forwarding.rst says. */
static uint16_t send_packet(struct model *model, int which, bool opens)
{
	uint16_t now = model->slot.slot & SLOT_MEMBER, target;
	uint16_t *remembered = &model->flow[which].remembered;
	uint16_t before = model->slot.before;

	if (!is_open(model))
		return now;
	if (*remembered != NOBODY && model->keeps[*remembered])
		return *remembered;
	if (model->shows_opening && opens) {
		*remembered = before != now ? now : NOBODY;
		return now;
	}
	target = model->keeps[SLOT_STAYS(before)] ? before : now;
	if (model->shows_opening)
		return target;
	if (!model->learning)
		return now;
	if (target != now)
		*remembered = target;
	return target;
}

static void check_packet(struct model *model, int which)
{
	uint16_t to = send_packet(model, which, false);

	if (to != model->flow[which].member)
		fail_msg("a flow of member %u went to %u",
			 model->flow[which].member, to);
	model->checked++;
}

static void open_flow(struct model *model)
{
	for (int i = 0; i < FLOWS; i++) {
		uint16_t to;

		if (model->flow[i].alive)
			continue;
		model->flow[i].remembered = NOBODY;
		to = send_packet(model, i, true);
		if (to == NOBODY)
			return;
		model->flow[i].member = to;
		model->flow[i].alive = true;
		check_packet(model, i);
		return;
	}
}

/* Members come, go, are replaced, and another one may get the slot. */
static void change(struct model *model)
{
	uint16_t eligible[MEMBERS], count = 0, owner = NOBODY;
	bool stays[512] = {};

	for (int i = 0; i < MEMBERS; i++) {
		bool kept = model->keeps[i];
		bool replaced = random() % 16 == 0;

		if (random() % 3 == 0)
			model->keeps[i] = random() & 1;
		stays[i] = kept && model->keeps[i] && !replaced;
		if (model->keeps[i] && random() % 4)
			eligible[count++] = i;
	}
	if (count)
		owner = eligible[random() % count];
	if (random() & 1 && stays[SLOT_STAYS(model->slot.slot)])
		owner = model->slot.slot & SLOT_MEMBER;
	for (int i = 0; i < FLOWS; i++) {
		uint16_t *remembered = &model->flow[i].remembered;

		if (model->flow[i].alive && !stays[model->flow[i].member])
			model->flow[i].alive = false;
		if (*remembered != NOBODY && !stays[*remembered] &&
		    model->keeps[*remembered])
			*remembered = NOBODY; /* a name that nobody uses */
	}
	{
		uint16_t now = model->slot.slot & SLOT_MEMBER;

		model->slot = slot_transition(model->slot, owner, stays,
					      model->shows_opening ||
						      model->learning);
		if (!is_open(model))
			model->learning = false;
		else if (!model->shows_opening && owner != now)
			model->learning = true;
	}
	assert_int_equal(model->slot.slot & SLOT_MEMBER, owner);
	if (is_open(model) && model->slot.before != NOBODY)
		assert_true(model->keeps[model->slot.before]);
}

/* Who was silent for the idle timeout is gone; the others were seen. */
static void time_passes(struct model *model)
{
	for (int i = 0; i < FLOWS; i++)
		if (model->flow[i].alive)
			check_packet(model, i);
	model->learning = false;
}

static void close_slot(struct model *model)
{
	uint16_t now = model->slot.slot & SLOT_MEMBER;

	if (model->learning)
		time_passes(model);
	for (int i = 0; i < FLOWS; i++)
		if (model->flow[i].member != now)
			model->flow[i].alive = false;
	model->slot.slot = now;
}

static uint64_t run_model(bool shows_opening, unsigned int seed)
{
	struct model model = {.shows_opening = shows_opening,
			      .slot = {NOBODY, NOBODY}};

	srandom(seed);
	for (int i = 0; i < FLOWS; i++)
		model.flow[i].remembered = NOBODY;
	for (int step = 0; step < 2000; step++) {
		int which = random() % FLOWS;

		switch (random() % 12) {
		case 0:
		case 1:
			change(&model);
			break;
		case 2:
			close_slot(&model);
			break;
		case 3:
			time_passes(&model);
			break;
		case 4:
			model.flow[which].alive = false;
			break;
		case 5:
		case 6:
		case 7:
			open_flow(&model);
			break;
		default:
			if (model.flow[which].alive)
				check_packet(&model, which);
		}
	}
	return model.checked;
}

static void test_flows_keep_their_member_through_transitions(void **state)
{
	(void)state;
	for (int shows_opening = 0; shows_opening < 2; shows_opening++) {
		uint64_t checked = 0;

		for (unsigned int seed = 0; seed < 2000; seed++)
			checked += run_model(shows_opening, seed);
		print_message("%llu packets of flows that stayed (%s)\n",
			      (unsigned long long)checked,
			      shows_opening ? "TCP" : "UDP");
		assert_true(checked > 1000000);
	}
}

#define O SLOT_OPEN

/* The table in transition.c, row by row. Members 1 and 2 stay, 3 does not. */
static void test_transitions_are_those_of_the_documented_table(void **state)
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
		/* open: `before` keeps, whoever owns the slot now or then */
		{2 | O, 1, 2, true, 2 | O, 1},
		{2 | O, 1, 1, true, 1 | O, 1},
		{2 | O, 1, 3, true, 3 | O, 1},
		{3 | O, 1, 2, true, 2 | O, 1},
		/* `before` is lost, the owner is not */
		{2 | O, 3, 2, true, 2 | O, 2},
		{2 | O, 3, 1, true, 1 | O, 2},
		/* both are lost: third members may have flows */
		{3 | O, 3, 1, true, 1 | O, 1},
		{NOBODY | O, 3, 1, true, 1 | O, 1},
		/* after learning the unknown are with the owner */
		{2 | O, 1, 2, false, 2 | O, 2},
		{2 | O, 1, 1, false, 1 | O, 2},
		{3 | O, 1, 2, false, 2 | O, 2},
	};
	bool stays[512] = {[1] = true, [2] = true};

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_transitions_are_those_of_the_documented_table),
		cmocka_unit_test(
			test_flows_keep_their_member_through_transitions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
