// SPDX-License-Identifier: Apache-2.0
#include "changing_members.h"

uint64_t random_state;

uint32_t random_below(uint32_t limit)
{
	random_state =
		random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % limit;
}

void world_configure(struct world *world)
{
	struct oxp_service_settings settings = {.idle_timeout_s = IDLE};
	struct oxp_member members[MEMBERS];
	uint32_t count = 0;

	for (int i = 0; i < MEMBERS; i++)
		if (world->present[i])
			members[count++] = world->member[i];
	assert_ok(oxp_service_set(world->node, &world->key, &settings, members,
				  count, NULL, error));
}

void world_report_health(struct world *world)
{
	struct oxp_health_result results[MEMBERS];

	for (int i = 0; i < MEMBERS; i++)
		results[i] = (struct oxp_health_result){world->member[i].check,
							world->up[i]};
	assert_true(oxp_health_apply(world->node, results, MEMBERS, error) >=
		    0);
}

void world_begin(struct world *world, struct oxp_node *node, struct oxp_key key)
{
	memset(world, 0, sizeof(*world));
	world->node = node;
	world->key = key;
	world->wave = 1;
	make_members(world->member, MEMBERS, 0, 1);
	for (int i = 0; i < MEMBERS; i++)
		world->present[i] = world->up[i] = true;
	world_configure(world);
	world_report_health(world);
}

bool world_keeps(const struct world *world, int member)
{
	return world->present[member] && world->up[member];
}

/* Change one random member; a quarter of the members never changes. */
static void happen(struct world *world)
{
	static const uint16_t weights[] = {0, 1, 1, 2, 5, 256};
	int i = random_below(MEMBERS - MEMBERS / 4);

	switch (random_below(4)) {
	case 0:
		world->up[i] = !world->up[i];
		world_report_health(world);
		break;
	case 1:
		world->present[i] = !world->present[i];
		world_configure(world);
		/* health of absent members was not stored */
		world_report_health(world);
		break;
	default:
		world->member[i].weight = weights[random_below(6)];
		world_configure(world);
	}
}

void world_next_wave(struct world *world, uint32_t events)
{
	world->wave++;
	while (events--) {
		happen(world);
		for (int i = 0; i < MEMBERS; i++)
			if (!world_keeps(world, i))
				world->lost[i] = world->wave;
	}
}
