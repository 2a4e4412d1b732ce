// SPDX-License-Identifier: Apache-2.0
/*
 * allowed_cidrs. A service has two lists of networks, one of which its live
 * block uses; a change writes the other one before the switch.
 */
#include "table/networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "error.h"
#include "state.h"
#include "table/blocks.h"
#include "table/segments.h"

static int by_network(const void *left, const void *right)
{
	const struct oxp_network *a = left, *b = right;
	int order = memcmp(a->address.bytes, b->address.bytes, 16);

	return order ? order : a->length - b->length;
}

static void mask_network(struct oxp_network *network)
{
	uint32_t bits =
		network->length + (is_v4(network->address.bytes) ? 96 : 0);

	for (uint32_t i = 0; i < 16; i++) {
		uint32_t keep = bits > 8 * i ? bits - 8 * i : 0;

		if (keep < 8)
			network->address.bytes[i] &= 0xff00 >> keep;
	}
}

int parse_allowed(const struct oxp_service_settings *settings,
		  struct oxp_network **out, uint32_t *count, char *error)
{
	struct oxp_network *networks;
	uint32_t kept = 0;

	*out = NULL;
	*count = 0;
	if (!settings || (!settings->allowed && !settings->allowed_count))
		return 0;
	if (!settings->allowed || !settings->allowed_count)
		return failure(error, -EINVAL,
			       "a list of %u allowed networks: NULL and 0 "
			       "allow everybody",
			       settings->allowed_count);
	if (settings->allowed_count > OXP_ALLOWED_MAX)
		return failure(error, -E2BIG,
			       "%u allowed networks, the limit is %u",
			       settings->allowed_count, OXP_ALLOWED_MAX);
	networks = calloc(settings->allowed_count, sizeof(*networks));
	if (!networks)
		return failure(error, -ENOMEM, "cannot copy the networks");
	for (uint32_t i = 0; i < settings->allowed_count; i++) {
		const struct oxp_network *one = &settings->allowed[i];

		if (one->length > (is_v4(one->address.bytes) ? 32 : 128)) {
			free(networks);
			return failure(error, -EINVAL, "allowed network %s/%u",
				       address_text(one->address.bytes),
				       one->length);
		}
		/* leaves padding zero */
		networks[i].address = one->address;
		networks[i].length = one->length;
		mask_network(&networks[i]);
	}
	qsort(networks, settings->allowed_count, sizeof(*networks), by_network);
	for (uint32_t i = 0; i < settings->allowed_count; i++)
		if (!i || by_network(&networks[kept - 1], &networks[i]))
			networks[kept++] = networks[i];
	*out = networks;
	*count = kept;
	return 0;
}

/* From the first address to the last, inclusive. */
struct range {
	struct bound_v6 first, last;
};

static struct bound_v6 number_of(const uint8_t *address, bool v4)
{
	uint32_t word[4];

	memcpy(word, address, sizeof(word));
	if (v4)
		return (struct bound_v6){0, ntohl(word[3])};
	return (struct bound_v6){
		(uint64_t)ntohl(word[0]) << 32 | ntohl(word[1]),
		(uint64_t)ntohl(word[2]) << 32 | ntohl(word[3]),
	};
}

static bool is_less(struct bound_v6 left, struct bound_v6 right)
{
	return left.high != right.high ? left.high < right.high
				       : left.low < right.low;
}

static bool is_same(struct bound_v6 left, struct bound_v6 right)
{
	return left.high == right.high && left.low == right.low;
}

static struct bound_v6 one_less(struct bound_v6 bound)
{
	return (struct bound_v6){bound.high - !bound.low, bound.low - 1};
}

static const struct bound_v6 greatest[] = {{~0ULL, ~0ULL}, {0, UINT32_MAX}};

static struct range range_of(const struct oxp_network *network, bool v4)
{
	struct range range = {.first = number_of(network->address.bytes, v4)};
	uint32_t host = (v4 ? 32 : 128) - network->length;

	range.last = range.first;
	if (host >= 64) {
		range.last.low = ~0ULL;
		range.last.high |=
			host == 128 ? ~0ULL : (1ULL << (host - 64)) - 1;
	} else {
		range.last.low |= (1ULL << host) - 1;
	}
	return range;
}

/* The bounds of one family. `bound` has room for two per network. */
struct bounds {
	struct bound_v6 *bound;
	uint32_t count;
	bool inside; /* address 0 is inside */
};

/* Networks overlap only if one contains the other, and then it sorts first. */
static void find_bounds(const struct oxp_network *networks, uint32_t count,
			bool v4, struct bounds *out)
{
	struct range all = {};
	bool any = false;

	out->count = 0;
	out->inside = false;
	for (uint32_t i = 0; i < count; i++) {
		struct range one;

		if (is_v4(networks[i].address.bytes) != v4)
			continue;
		one = range_of(&networks[i], v4);
		if (any && !is_less(all.last, one.first))
			continue; /* contained */
		if (!one.first.high && !one.first.low)
			out->inside = true;
		else if (any && is_same(all.last, one_less(one.first)))
			out->count--; /* adjacent: one range */
		else
			out->bound[out->count++] = one_less(one.first);
		out->bound[out->count++] = one.last;
		all = one;
		any = true;
	}
	/* a bound at the greatest address separates nothing */
	if (any && !is_less(all.last, greatest[v4]))
		out->count--;
}

/* Returns how many bounds a search with this many steps covers. */
static uint32_t room_of(uint32_t steps)
{
	return (1U << steps) - 1;
}

static uint32_t steps_for(uint32_t bounds)
{
	uint32_t steps = 0;

	while (room_of(steps) < bounds)
		steps++;
	return steps;
}

/* Compute the offsets of a list's parts. */
static struct network_list plan(const struct bounds *v4,
				const struct bounds *v6, uint32_t count)
{
	struct network_list list = {
		.steps_v4 = steps_for(v4->count),
		.steps_v6 = steps_for(v6->count),
		.inside_v4 = v4->inside,
		.inside_v6 = v6->inside,
		.count = count,
	};
	uint32_t end = BOUNDS_V4 + room_of(list.steps_v4) * sizeof(uint32_t);

	list.bounds_v6 = (end + 15) & ~15U;
	list.networks = list.bounds_v6 +
			room_of(list.steps_v6) * sizeof(struct bound_v6);
	return list;
}

static size_t size_of(const struct network_list *list)
{
	return list->networks + list->count * sizeof(struct oxp_network);
}

static void fill_list(char *to, const struct network_list *list,
		      const struct bounds *v4, const struct bounds *v6,
		      const struct oxp_network *networks)
{
	uint32_t *bound_v4 = (uint32_t *)(to + BOUNDS_V4);
	struct bound_v6 *bound_v6 = (struct bound_v6 *)(to + list->bounds_v6);

	memset(to, 0, size_of(list));
	memcpy(to, list, sizeof(*list));
	for (uint32_t i = 0; i < room_of(list->steps_v4); i++)
		bound_v4[i] = i < v4->count ? v4->bound[i].low : UINT32_MAX;
	for (uint32_t i = 0; i < room_of(list->steps_v6); i++)
		bound_v6[i] = i < v6->count ? v6->bound[i] : greatest[false];
	memcpy(to + list->networks, networks,
	       list->count * sizeof(struct oxp_network));
}

/* Returns a list that the caller frees, or NULL without memory. */
static char *make_list(const struct oxp_network *networks, uint32_t count,
		       size_t *size)
{
	struct bounds v4 = {.bound = calloc(2 * count, sizeof(*v4.bound))};
	struct bounds v6 = {.bound = calloc(2 * count, sizeof(*v6.bound))};
	struct network_list list;
	char *out = NULL;

	if (v4.bound && v6.bound) {
		find_bounds(networks, count, true, &v4);
		find_bounds(networks, count, false, &v6);
		list = plan(&v4, &v6, count);
		*size = size_of(&list);
		out = malloc(*size);
		if (out)
			fill_list(out, &list, &v4, &v6, networks);
	}
	free(v4.bound);
	free(v6.bound);
	return out;
}

/* Returns the list if it fits into its lines. */
static const struct network_list *list_of(struct oxp_node *node,
					  const struct service_block *block)
{
	const struct service_entry *entry;
	const struct network_list *list;
	size_t room;
	int which;

	if (!(block->flags & BLOCK_ALLOWED) ||
	    block->service >= node->config->services_max)
		return NULL;
	entry = entry_of(node, block->service);
	which = block->networks != entry->networks[0];
	list = at_line(node, block->networks);
	if (!list || block->networks != entry->networks[which])
		return NULL;
	room = (size_t)entry->networks_lines[which] * LINE_SIZE;
	if (list->count > OXP_ALLOWED_MAX || list->networks > room ||
	    size_of(list) > room)
		return NULL;
	return list;
}

const struct oxp_network *networks_of(struct oxp_node *node,
				      const struct service_block *block,
				      uint32_t *count)
{
	const struct network_list *list = list_of(node, block);

	*count = list ? list->count : 0;
	return list ? (const void *)((const char *)list + list->networks)
		    : NULL;
}

int write_networks(struct oxp_node *node, uint32_t index,
		   const struct service_block *old,
		   const struct oxp_network *networks,
		   struct service_block *draft, char *error)
{
	struct service_entry *entry = entry_of(node, index);
	int which = old && old->networks && old->networks == entry->networks[0];
	size_t size;
	char *list = make_list(networks, draft->allowed_count, &size);
	int status;

	if (!list)
		return failure(error, -ENOMEM, "cannot write the networks");
	status = resize_lines(node, &entry->networks[which],
			      &entry->networks_lines[which], LINES_OF(size),
			      error);
	if (!status) {
		memcpy(at_line(node, entry->networks[which]), list, size);
		draft->networks = entry->networks[which];
	}
	free(list);
	return status;
}

bool networks_are_right(struct oxp_node *node,
			const struct service_block *block)
{
	const struct network_list *list = list_of(node, block);
	const struct oxp_network *networks;
	uint32_t count;
	bool right;
	size_t size;
	char *again;

	if (!(block->flags & BLOCK_ALLOWED))
		return true;
	if (!list || list->count != block->allowed_count)
		return false;
	networks = networks_of(node, block, &count);
	again = make_list(networks, count, &size);
	right = again && size == size_of(list) && !memcmp(list, again, size);
	free(again);
	return right;
}
