// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of addresses for NAT. An address is one that has a length in
 * nat_pools; its key in the lookup tables, the lists that packets choose from
 * and all numbers follow from that. Order of a change:
 *
 *   new addresses  table, index, length; program with NAT; keys; lists
 *   those that go  lists, keys; a wait for packets; flows, length, table;
 *                  program without NAT
 */
#include "nat/pools.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "error.h"
#include "forward.skel.h"
#include "nat/flows.h"
#include "nat/index.h"
#include "nat/peers.h"
#include "nat/tables.h"
#include "node/lock.h"
#include "node/repair.h"
#include "program/load.h"
#include "program/replace.h"
#include "state.h"
#include "table/lookup.h"

#define PORTS (65536 - OXP_NAT_PORT_MIN)

/* One wanted address. */
struct wanted {
	uint8_t bytes[16];
	uint8_t length; /* of the prefix it is of */
};

struct plan {
	struct wanted *wanted; /* sorted */
	uint32_t count;
};

static bool is_family(uint32_t number, bool v4)
{
	return v4 == (number < OXP_NAT_ADDRESSES_MAX);
}

int64_t find_pool_address(const struct oxp_node *node, const void *address)
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		if (node->nat->length[i] &&
		    !memcmp(node->nat->address[i], address, 16))
			return i;
	return -ENOENT;
}

uint32_t count_pool_addresses(const struct oxp_node *node)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		count += !!node->nat->length[i];
	return count;
}

/* Adds `more` to an address; its bytes as a big number. */
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

/* The lists and numbers that packets read, without addresses that have a bit
 * in `gone`, which may be NULL. */
static void write_lists(struct oxp_node *node, const struct plan *plan)
{
	struct nat_pools *pools = node->nat;
	uint32_t count[2] = {};

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		bool v6 = !is_family(i, true);

		if (!pools->length[i] ||
		    (plan && !find_wanted(plan, pools->address[i])))
			continue;
		__atomic_store_n(&pools->number[v6][count[v6]++], i,
				 __ATOMIC_RELEASE);
	}
	pools->ports = (count[0] + count[1]) * PORTS;
	for (int v6 = 0; v6 < 2; v6++)
		__atomic_store_n(&pools->count[v6], count[v6],
				 __ATOMIC_RELEASE);
	find_own_peer(node);
}

static int64_t free_number(const struct oxp_node *node, bool v4)
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		if (is_family(i, v4) && !node->nat->length[i])
			return i;
	return -ENOSPC;
}

static int enter_key(struct oxp_node *node, uint32_t number, char *error)
{
	struct lookup_key key = lookup_key(node->nat->address[number], 0, 0);
	int64_t place = lookup_find(node, &key);

	if (place < 0)
		place = lookup_insert(node, &key, LOOKUP_POOL | number);
	if (place < 0)
		return failure(error, place,
			       "the lookup table has no room near the pool "
			       "address %s",
			       address_text(node->nat->address[number]));
	return 0;
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

/* The program has NAT while there are addresses. */
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
		status = size_nat_index(node, plan->count * PORTS, error);
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
			status = enter_key(node, i, error);
	return status;
}

static void erase_key(struct oxp_node *node, uint32_t number)
{
	struct lookup_key key = lookup_key(node->nat->address[number], 0, 0);
	int64_t place = lookup_find(node, &key);

	if (place >= 0 &&
	    *lookup_value(node, key.v6, place) == (LOOKUP_POOL | number))
		lookup_erase(node, &key, place);
}

static bool is_leaving(const struct oxp_node *node, const struct plan *plan,
		       uint32_t number)
{
	return node->nat->length[number] &&
	       !find_wanted(plan, node->nat->address[number]);
}

static int remove_addresses(struct oxp_node *node, const struct plan *plan,
			    char *error)
{
	uint32_t leaving = 0;
	int status;

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		if (!is_leaving(node, plan, i))
			continue;
		erase_key(node, i);
		leaving++;
	}
	if (!leaving)
		return 0;
	status = grace_period(node, error);
	for (uint32_t i = 0; i < NAT_ADDRESSES && !status; i++) {
		if (!is_leaving(node, plan, i))
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
	__u64 switched;
	int status;

	begin_change(node, true);
	mark_switched(node, &switched);
	status = add_addresses(node, plan, error);
	if (!status)
		status = enter_addresses(node, error);
	write_lists(node, status ? NULL : plan);
	if (!status)
		status = remove_addresses(node, plan, error);
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
		uint32_t bits = is_family(i, true) ? length + 96 : length;

		/* each prefix once: by its first address */
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

void keep_pool_keys(struct oxp_node *node, uint64_t *keep[2])
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		struct lookup_key key;
		int64_t place;

		if (!node->nat->length[i])
			continue;
		key = lookup_key(node->nat->address[i], 0, 0);
		place = lookup_find(node, &key);
		if (place >= 0 &&
		    *lookup_value(node, key.v6, place) == (LOOKUP_POOL | i))
			keep[key.v6][place / 64] |= 1ULL << place % 64;
	}
}

/* An address whose key has no room is none. */
int repair_pools(struct oxp_node *node, char *error)
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		if (node->nat->length[i] &&
		    (!nat_table(node, i) || enter_key(node, i, NULL)))
			node->nat->length[i] = 0;
		if (!node->nat->length[i])
			remove_nat_table(node, i);
	}
	node->config->nat_addresses = count_pool_addresses(node);
	write_lists(node, NULL);
	return node->config->nat_addresses
		       ? size_nat_index(node, node->nat->ports, error)
		       : 0;
}

int adopt_pools(struct oxp_node *node, const char *from, char *error)
{
	int status = adopt_nat_tables(node, from, error);

	if (!status)
		status = adopt_nat_index(node, from, error);
	for (uint32_t i = 0; i < NAT_ADDRESSES && !status; i++)
		if (node->nat->length[i])
			status = enter_key(node, i, error);
	return status;
}
