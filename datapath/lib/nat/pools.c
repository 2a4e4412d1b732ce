// SPDX-License-Identifier: Apache-2.0
/*
 * Setting the address pools of NAT. Everything else is derived from the lengths
 * of addresses (nat_table/pools.h). Order of a change:
 *
 *   added      table, index, length; program with NAT; keys; lists
 *   removed    lists, keys; grace period; flows, length, table; program
 *              without NAT
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "error.h"
#include "forward.skel.h"
#include "nat_table/addresses.h"
#include "nat_table/flows.h"
#include "nat_table/index.h"
#include "nat_table/pools.h"
#include "nat_table/tables.h"
#include "node/lock.h"
#include "node/repair.h"
#include "program/load.h"
#include "program/replace.h"
#include "state.h"
#include "table/lookup.h"

struct wanted {
	uint8_t bytes[16];
	uint8_t length; /* of its pool's prefix */
};

struct plan {
	struct wanted *wanted; /* sorted */
	uint32_t count;
};

/* Add `more` to an address, taken as a big-endian number. */
static void step(uint8_t bytes[16], uint32_t more)
{
	for (int i = 15; i >= 0 && more; i--) {
		more += bytes[i];
		bytes[i] = more;
		more >>= 8;
	}
}

static bool is_masked(const uint8_t *bytes, uint32_t bits, uint32_t first)
{
	for (uint32_t i = first; i < 128; i++)
		if (i >= bits && bytes[i / 8] >> (7 - i % 8) & 1)
			return false;
	return true;
}

static int expand(struct plan *plan, const struct oxp_network *pool,
		  uint32_t count[2], char *error)
{
	const uint8_t *bytes = pool->address.bytes;
	bool v4 = is_v4(bytes);
	uint32_t most = v4 ? 32 : 128, host, addresses;

	if (!pool->length || pool->length > most || is_zero(bytes) ||
	    (v4 ? bytes[12] >= 224 || bytes[12] == 127 : bytes[0] == 0xff))
		return failure(error, -EINVAL, "%s/%u cannot be a pool",
			       address_text(bytes), pool->length);
	host = most - pool->length;
	if (!is_masked(bytes, 128 - host, 128 - most))
		return failure(error, -EINVAL,
			       "pool %s/%u: the address has bits behind the "
			       "prefix",
			       address_text(bytes), pool->length);
	addresses = host > 8 ? UINT32_MAX : 1U << host;
	if (addresses > OXP_NAT_ADDRESSES_MAX - count[!v4])
		return failure(error, -ENOSPC,
			       "pool %s/%u: with it there are more than the %d "
			       "addresses of a family that a node may have",
			       address_text(bytes), pool->length,
			       OXP_NAT_ADDRESSES_MAX);
	count[!v4] += addresses;
	for (uint32_t i = 0; i < addresses; i++) {
		struct wanted *one = &plan->wanted[plan->count++];

		memcpy(one->bytes, bytes, sizeof(one->bytes));
		step(one->bytes, i);
		one->length = pool->length;
	}
	return 0;
}

static int by_address(const void *left, const void *right)
{
	return memcmp(left, right, 16);
}

static const struct wanted *find_wanted(const struct plan *plan,
					const void *address)
{
	return bsearch(address, plan->wanted, plan->count,
		       sizeof(*plan->wanted), by_address);
}

static int check_wanted(struct oxp_node *node, const struct plan *plan,
			char *error)
{
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct wanted *one = &plan->wanted[i];
		struct lookup_key key = lookup_key(one->bytes, 0, 0);
		int64_t place = lookup_find(node, &key);

		if (i && !by_address(one, one - 1))
			return failure(error, -EEXIST,
				       "pool address %s is there twice",
				       address_text(one->bytes));
		if (place >= 0 &&
		    !(*lookup_value(node, key.v6, place) & LOOKUP_POOL))
			return failure(error, -EEXIST,
				       "pool address %s is a VIP",
				       address_text(one->bytes));
	}
	return 0;
}

static int make_plan(struct oxp_node *node, const struct oxp_network *pools,
		     uint32_t count, struct plan *plan, char *error)
{
	uint32_t addresses[2] = {};
	int status = 0;

	plan->wanted = calloc(NAT_ADDRESSES, sizeof(*plan->wanted));
	if (!plan->wanted)
		return failure(error, -ENOMEM, "cannot set pools");
	for (uint32_t i = 0; i < count && !status; i++)
		status = expand(plan, &pools[i], addresses, error);
	if (status)
		return status;
	qsort(plan->wanted, plan->count, sizeof(*plan->wanted), by_address);
	return check_wanted(node, plan, error);
}

static int64_t free_number(const struct oxp_node *node, bool v4)
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		if (is_pool_v4(i) == v4 && !node->nat->length[i])
			return i;
	return -ENOSPC;
}

static int replace_by_configured(struct oxp_node *node, char *error)
{
	struct forward *object;
	int status = load_program(node, node->config->flags, &object, error);

	if (status)
		return status;
	status = replace_programs(node, object, error);
	forward__destroy(object);
	return status;
}

/* Enable NAT in the program while there are addresses. */
static int set_feature(struct oxp_node *node, char *error)
{
	uint32_t was = node->config->nat_addresses;
	int status = 0;

	node->config->nat_addresses = count_pool_addresses(node);
	if (!was != !node->config->nat_addresses)
		status = replace_by_configured(node, error);
	return status;
}

static int add_address(struct oxp_node *node, const struct wanted *one,
		       char *error)
{
	int64_t number = free_number(node, is_v4(one->bytes));
	int status = number < 0 ? (int)number : 0;

	if (status)
		return failure(error, status,
			       "no place is free for the pool address %s",
			       address_text(one->bytes));
	status = make_nat_table(node, number, error);
	if (status)
		return status;
	memcpy(node->nat->address[number], one->bytes, sizeof(one->bytes));
	node->nat->length[number] = one->length;
	return 0;
}

static int add_addresses(struct oxp_node *node, const struct plan *plan,
			 char *error)
{
	int status = 0;

	if (plan->count && !node->config->nat_addresses)
		status = make_nat_table(node, NAT_GROUPS_TABLE, error);
	if (!status && plan->count)
		status = size_nat_index(node, plan->count * PORTS_OF_ADDRESS,
					error);
	for (uint32_t i = 0; i < plan->count && !status; i++) {
		const struct wanted *one = &plan->wanted[i];
		int64_t number = find_pool_address(node, one->bytes);

		if (number >= 0)
			node->nat->length[number] = one->length;
		else
			status = add_address(node, one, error);
	}
	return status;
}

static int enter_addresses(struct oxp_node *node, char *error)
{
	int status = set_feature(node, error);

	for (uint32_t i = 0; i < NAT_ADDRESSES && !status; i++)
		if (node->nat->length[i])
			status = enter_pool_key(node, i, error);
	return status;
}

/* Returns how many addresses are to be removed. */
static uint32_t find_leaving(const struct oxp_node *node,
			     const struct plan *plan,
			     bool leaving[NAT_ADDRESSES])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		leaving[i] = node->nat->length[i] &&
			     !find_wanted(plan, node->nat->address[i]);
		count += leaving[i];
	}
	return count;
}

static int remove_addresses(struct oxp_node *node,
			    const bool leaving[NAT_ADDRESSES], char *error)
{
	int status;

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		if (leaving[i])
			erase_pool_key(node, i);
	status = grace_period(node, error);
	for (uint32_t i = 0; i < NAT_ADDRESSES && !status; i++) {
		if (!leaving[i])
			continue;
		end_nat_flows_of_address(node, i);
		node->nat->length[i] = 0;
		remove_nat_table(node, i);
	}
	if (!status)
		status = set_feature(node, error);
	if (!status && !node->config->nat_addresses) {
		remove_nat_table(node, NAT_GROUPS_TABLE);
		status = size_nat_index(node, 0, error);
	}
	return status;
}

static int change(struct oxp_node *node, const struct plan *plan, char *error)
{
	bool leaving[NAT_ADDRESSES];
	uint32_t going = 0;
	__u64 switched;
	int status;

	begin_change(node, true);
	mark_switched(node, &switched);
	status = add_addresses(node, plan, error);
	if (!status)
		status = enter_addresses(node, error);
	if (!status)
		going = find_leaving(node, plan, leaving);
	write_pool_lists(node, status ? NULL : leaving);
	if (!status && going)
		status = remove_addresses(node, leaving, error);
	if (status)
		repair(node, NULL);
	else
		end_change(node);
	return status;
}

static bool is_as_wanted(const struct oxp_node *node, const struct plan *plan)
{
	if (count_pool_addresses(node) != plan->count)
		return false;
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		const struct wanted *one;

		if (!node->nat->length[i])
			continue;
		one = find_wanted(plan, node->nat->address[i]);
		if (!one || one->length != node->nat->length[i])
			return false;
	}
	return true;
}

int oxp_nat_pools_set(struct oxp_node *node, const struct oxp_network *pools,
		      uint32_t count, char *error)
{
	struct plan plan = {};
	int status = lock_node(node, error);

	if (status)
		return status;
	status = make_plan(node, pools, count, &plan, error);
	if (!status && !is_as_wanted(node, &plan))
		status = change(node, &plan, error);
	unlock_node(node);
	free(plan.wanted);
	return status;
}

static int by_network(const void *left, const void *right)
{
	return memcmp(left, right, sizeof(struct oxp_address));
}

int oxp_nat_pools_list(struct oxp_node *node, struct oxp_network *out,
		       uint32_t capacity, char *error)
{
	struct oxp_network *all;
	uint32_t count = 0;
	int status = lock_node(node, error);

	if (status)
		return status;
	all = calloc(NAT_ADDRESSES, sizeof(*all));
	for (uint32_t i = 0; all && i < NAT_ADDRESSES; i++) {
		const uint8_t *bytes = (const uint8_t *)node->nat->address[i];
		uint32_t length = node->nat->length[i];
		uint32_t bits = is_pool_v4(i) ? length + 96 : length;

		/* report each prefix once, at its first address */
		if (!length || !is_masked(bytes, bits, bits))
			continue;
		memcpy(&all[count].address, bytes, 16);
		all[count++].length = length;
	}
	unlock_node(node);
	if (!all)
		return failure(error, -ENOMEM, "cannot list pools");
	qsort(all, count, sizeof(*all), by_network);
	for (uint32_t i = 0; i < count && i < capacity; i++)
		out[i] = all[i];
	free(all);
	return count;
}
