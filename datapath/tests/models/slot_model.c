// SPDX-License-Identifier: Apache-2.0
#include "slot_model.h"

#include "harness.h"

#define MEMBERS 6
#define FLOWS 40
#define NOBODY SLOT_NOBODY

struct model {
	bool shows_opening; /* packets show when a flow opens: TCP, SCTP */
	bool learning;
	struct slot_state slot;
	bool keeps[STAYS];
	struct {
		bool alive;
		uint16_t member;
		uint16_t remembered; /* NOBODY: not remembered */
	} flow[FLOWS];
	uint64_t checked;
};

static bool is_open(const struct model *model)
{
	return model->slot.slot & SLOT_OPEN;
}

/* Follows the specification in forwarding.rst. */
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

/* Members come, go and are replaced, and the slot may get another owner. */
static void change(struct model *model)
{
	uint16_t eligible[MEMBERS], count = 0, owner = NOBODY;
	bool stays[STAYS] = {};

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
			*remembered = NOBODY; /* a name no longer used */
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

/* Flows silent for the idle timeout have ended; all others were seen. */
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

uint64_t check_flows(bool shows_opening, unsigned int seed)
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
