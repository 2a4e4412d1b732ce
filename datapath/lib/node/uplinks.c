// SPDX-License-Identifier: Apache-2.0
/*
 * Uplinks of the node. 64 choices for each family assign flows to uplinks. A
 * choice keeps its uplink while that is usable and does not exceed its share,
 * so few flows move when uplinks come and go. Choices are local to this node
 * and need not agree with those of other nodes.
 */
#include "node/uplinks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "epoch.h"
#include "error.h"
#include "node/lock.h"
#include "node/watched_uplinks.h"
#include "node/xdp_features.h"
#include "state.h"

#define CHOICES OXP_CHOICES

static bool is_no_mac(const uint8_t *mac)
{
	static const uint8_t zeroes[6];

	return !memcmp(mac, zeroes, sizeof(zeroes));
}

static int check_uplink(const struct oxp_uplink *uplink, char *error)
{
	if (!uplink->ifindex)
		return failure(error, -EINVAL, "an uplink without interface");
	if (uplink->mtu < 68)
		return failure(error, -EINVAL,
			       "uplink of interface %u: an MTU of %u",
			       uplink->ifindex, uplink->mtu);
	if (is_no_mac(uplink->own_mac) || uplink->own_mac[0] & 1 ||
	    uplink->next_hop_mac_v4[0] & 1 || uplink->next_hop_mac_v6[0] & 1)
		return failure(error, -EINVAL,
			       "uplink of interface %u: a MAC address that "
			       "cannot be a host's",
			       uplink->ifindex);
	if (uplink->vlans > 2)
		return failure(error, -EINVAL,
			       "uplink of interface %u: %u VLAN tags, at most "
			       "2",
			       uplink->ifindex, uplink->vlans);
	return 0;
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void write_link(const struct oxp_uplink *uplink, bool v6, uint8_t *out)
{
	const uint8_t *gateway =
		v6 ? uplink->next_hop_mac_v6 : uplink->next_hop_mac_v4;
	uint32_t at = 12;

	memcpy(out, gateway, 6);
	memcpy(out + 6, uplink->own_mac, 6);
	for (uint32_t i = 0; i < uplink->vlans; i++, at += 4) {
		put16(out + at,
		      i + 1 < uplink->vlans ? ETH_P_8021AD : ETH_P_8021Q);
		put16(out + at + 2, uplink->vlan[i]);
	}
	put16(out + at, v6 ? ETH_P_IPV6 : ETH_P_IP);
}

static void write_uplink(const struct oxp_uplink *uplink, struct uplink *out)
{
	*out = (struct uplink){
		.ifindex = uplink->ifindex,
		.mtu = uplink->mtu,
		.link_length = 14 + 4 * uplink->vlans,
		.sends_buffers = sends_split_frames(uplink->ifindex),
	};
	write_link(uplink, false, out->link[0]);
	write_link(uplink, true, out->link[1]);
}

/* Whether device and VLANs are the same; next hop and MTU may differ. Of
 * several equal uplinks, positions correspond. */
static bool leads_alike(const struct uplink *a, const struct uplink *b)
{
	return a->ifindex == b->ifindex && a->link_length == b->link_length &&
	       !memcmp(a->link[0] + 12, b->link[0] + 12, a->link_length - 14);
}

static uint8_t successor(const struct uplink_set *next, uint32_t count,
			 const struct uplink_set *old, uint8_t which)
{
	uint32_t skip = 0;

	if (which >= OXP_UPLINKS_MAX)
		return OXP_NO_UPLINK;
	for (uint32_t i = 0; i < which; i++)
		skip += leads_alike(&old->uplink[i], &old->uplink[which]);
	for (uint32_t i = 0; i < count; i++)
		if (leads_alike(&next->uplink[i], &old->uplink[which]) &&
		    !skip--)
			return i;
	return OXP_NO_UPLINK;
}

static void choose(struct uplink_set *next, uint32_t count,
		   const struct uplink_set *old, bool v6)
{
	uint8_t *choice = next->choice[v6];
	uint32_t usable = 0, shares[OXP_UPLINKS_MAX] = {};
	bool can[OXP_UPLINKS_MAX] = {};
	uint32_t share, extra;

	for (uint32_t i = 0; i < count; i++) {
		can[i] = !is_no_mac(next->uplink[i].link[v6]);
		usable += can[i];
	}
	memset(choice, OXP_NO_UPLINK, CHOICES);
	if (!usable)
		return;
	share = CHOICES / usable;
	extra = CHOICES % usable; /* this many have one more */
	for (uint32_t i = 0; i < CHOICES; i++) {
		uint8_t to = successor(next, count, old, old->choice[v6][i]);

		if (to == OXP_NO_UPLINK || !can[to] || shares[to] > share ||
		    (shares[to] == share && !extra))
			continue;
		extra -= shares[to] == share;
		shares[to]++;
		choice[i] = to;
	}
	for (uint32_t i = 0; i < CHOICES; i++) {
		uint32_t least = OXP_UPLINKS_MAX;

		if (choice[i] != OXP_NO_UPLINK)
			continue;
		for (uint32_t j = 0; j < count; j++)
			if (can[j] && (least == OXP_UPLINKS_MAX ||
				       shares[j] < shares[least]))
				least = j;
		shares[least]++;
		choice[i] = least;
	}
}

static const struct uplink_set *live_set(struct oxp_node *node)
{
	return &node->uplinks[node->config->active_uplinks & 1];
}

/* Remove devices that are in neither set. */
static void forget_devices(struct oxp_node *node, const struct uplink_set *next)
{
	const struct uplink_set *live = live_set(node);
	int map = node->map[MAP_DEVICES];
	uint32_t key, following;
	bool more = !bpf_map_get_next_key(map, NULL, &following);

	while (more) {
		bool used = false;

		key = following;
		more = !bpf_map_get_next_key(map, &key, &following);
		for (int i = 0; i < OXP_UPLINKS_MAX; i++)
			used |= live->uplink[i].ifindex == key ||
				next->uplink[i].ifindex == key;
		if (!used)
			bpf_map_delete_elem(map, &key);
	}
}

/* Done on every call: the kernel removes devices that disappear. */
static int enter_devices(struct oxp_node *node, const struct uplink_set *next,
			 char *error)
{
	for (int i = 0; i < OXP_UPLINKS_MAX; i++) {
		uint32_t ifindex = next->uplink[i].ifindex;

		if (ifindex && bpf_map_update_elem(node->map[MAP_DEVICES],
						   &ifindex, &ifindex, BPF_ANY))
			return failure(error,
				       errno == EINVAL ? -ENODEV : -errno,
				       "uplink of interface %u", ifindex);
	}
	return 0;
}

static int switch_uplinks(struct oxp_node *node, const struct uplink_set *next,
			  char *error)
{
	struct node_config *config = node->config;
	uint64_t parity = config->active_uplinks & 1;

	if (config->uplinks_switched > config->waited) {
		int status = grace_period(node, error);

		if (status)
			return status;
	}
	/* no packet uses the previous set any more */
	forget_devices(node, next);
	node->uplinks[parity ^ 1] = *next;
	mark_switched(node, &config->uplinks_switched);
	__atomic_store_n(&config->active_uplinks, parity ^ 1, __ATOMIC_RELEASE);
	return 0;
}

/* Takes over the previous state's choices, so that flows keep their uplinks. */
int write_first_uplinks(struct oxp_node *node, const struct oxp_uplink *uplinks,
			uint32_t count, const struct oxp_choices *choices,
			char *error)
{
	struct uplink_set next = {}, none = {};
	int status;

	for (uint32_t i = 0; i < count; i++) {
		status = check_uplink(&uplinks[i], error);
		if (status)
			return status;
		write_uplink(&uplinks[i], &next.uplink[i]);
	}
	memset(none.choice, OXP_NO_UPLINK, sizeof(none.choice));
	choose(&next, count, &none, false);
	choose(&next, count, &none, true);
	for (int i = 0; choices && i < CHOICES; i++) {
		if (choices->v4[i] < count || choices->v4[i] == OXP_NO_UPLINK)
			next.choice[0][i] = choices->v4[i];
		if (choices->v6[i] < count || choices->v6[i] == OXP_NO_UPLINK)
			next.choice[1][i] = choices->v6[i];
	}
	for (uint32_t i = 0; i < count; i++) {
		struct uplink_set one = {.uplink = {next.uplink[i]}};

		/* a device that is gone was not in the map before either */
		status = enter_devices(node, &one, error);
		if (status && status != -ENODEV)
			return status;
	}
	watch_choices(&next, node->config->watched);
	node->uplinks[node->config->active_uplinks & 1] = next;
	return 0;
}

int watch_uplinks(struct oxp_node *node, char *error)
{
	struct uplink_set next = *live_set(node);

	unwatch(&next);
	watch_choices(&next, node->config->watched);
	if (!memcmp(&next, live_set(node), sizeof(next)))
		return 0;
	return switch_uplinks(node, &next, error);
}

uint64_t watched_choices(struct oxp_node *node)
{
	/* the FIB is used instead of uplinks */
	if (node->config->flags & OXP_NODE_FIB)
		return node->config->watched;
	return choices_watched(live_set(node)) & node->config->watched;
}

int oxp_uplinks_set(struct oxp_node *node, const struct oxp_uplink *uplinks,
		    uint32_t count, char *error)
{
	struct uplink_set next = {}, live;
	int status = 0;

	if (count > OXP_UPLINKS_MAX)
		return failure(error, -E2BIG, "%u uplinks, the limit is %d",
			       count, OXP_UPLINKS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		status = check_uplink(&uplinks[i], error);
		if (status)
			return status;
		write_uplink(&uplinks[i], &next.uplink[i]);
	}
	status = lock_node(node, error);
	if (status)
		return status;
	live = *live_set(node);
	unwatch(&live);
	choose(&next, count, &live, false);
	choose(&next, count, &live, true);
	watch_choices(&next, node->config->watched);
	status = enter_devices(node, &next, error);
	if (!status && memcmp(&next, live_set(node), sizeof(next)))
		status = switch_uplinks(node, &next, error);
	unlock_node(node);
	return status;
}

static uint16_t get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static void read_uplink(const struct uplink *uplink, struct oxp_uplink *out)
{
	*out = (struct oxp_uplink){
		.ifindex = uplink->ifindex,
		.mtu = uplink->mtu,
		.vlans = (uplink->link_length - 14) / 4,
	};
	memcpy(out->next_hop_mac_v4, uplink->link[0], 6);
	memcpy(out->next_hop_mac_v6, uplink->link[1], 6);
	memcpy(out->own_mac, uplink->link[0] + 6, 6);
	for (uint32_t i = 0; i < out->vlans && i < 2; i++)
		out->vlan[i] = get16(uplink->link[0] + 14 + 4 * i);
}

uint32_t read_uplinks(struct oxp_node *node, struct oxp_uplink *out,
		      uint32_t capacity, struct oxp_choices *choices)
{
	struct uplink_set live = *live_set(node);
	uint32_t count = 0;

	unwatch(&live);
	for (; count < OXP_UPLINKS_MAX && live.uplink[count].ifindex; count++)
		if (count < capacity)
			read_uplink(&live.uplink[count], &out[count]);
	if (choices) {
		memcpy(choices->v4, live.choice[0], sizeof(choices->v4));
		memcpy(choices->v6, live.choice[1], sizeof(choices->v6));
	}
	return count;
}

int oxp_uplinks_list(struct oxp_node *node, struct oxp_uplink *out,
		     uint32_t capacity, struct oxp_choices *choices,
		     char *error)
{
	uint32_t count;
	int status = lock_node(node, error);

	if (status)
		return status;
	count = read_uplinks(node, out, capacity, choices);
	unlock_node(node);
	return count;
}
