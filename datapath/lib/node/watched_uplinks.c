// SPDX-License-Identifier: Apache-2.0
/*
 * Choices of uplinks whose flows are watched. Such a choice refers to a copy of
 * its uplink that has `watched` set, so packets of other choices check nothing
 * more. Copies are at the end of the array, that of uplink i at
 * OXP_UPLINKS_MAX - 1 - i. With more than four uplinks some have no copy, and
 * their flows are not watched.
 */
#include "node/watched_uplinks.h"

#include <string.h>

static uint32_t copy_of(uint32_t which)
{
	return OXP_UPLINKS_MAX - 1 - which;
}

static bool is_watched(const struct uplink_set *set, uint8_t which)
{
	return which < OXP_UPLINKS_MAX && set->uplink[which].watched;
}

void unwatch(struct uplink_set *set)
{
	for (int family = 0; family < 2; family++)
		for (int i = 0; i < OXP_CHOICES; i++)
			if (is_watched(set, set->choice[family][i]))
				set->choice[family][i] =
					copy_of(set->choice[family][i]);
	for (int i = 0; i < OXP_UPLINKS_MAX; i++)
		if (set->uplink[i].watched)
			memset(&set->uplink[i], 0, sizeof(set->uplink[i]));
}

void watch_choices(struct uplink_set *set, uint64_t choices)
{
	struct uplink_set was = *set;

	for (int family = 0; family < 2; family++)
		for (int i = 0; i < OXP_CHOICES; i++) {
			uint8_t which = was.choice[family][i];

			if (!(choices >> i & 1) || which >= OXP_UPLINKS_MAX ||
			    was.uplink[copy_of(which)].ifindex)
				continue;
			set->uplink[copy_of(which)] = was.uplink[which];
			set->uplink[copy_of(which)].watched = 1;
			set->choice[family][i] = copy_of(which);
		}
}

uint64_t choices_watched(const struct uplink_set *set)
{
	uint64_t watched = 0;

	for (int i = 0; i < OXP_CHOICES; i++) {
		bool all = true;

		for (int family = 0; family < 2; family++) {
			uint8_t which = set->choice[family][i];

			all &= which >= OXP_UPLINKS_MAX ||
			       set->uplink[which].watched;
		}
		watched |= (uint64_t)all << i;
	}
	return watched;
}
