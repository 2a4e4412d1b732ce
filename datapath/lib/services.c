// SPDX-License-Identifier: Apache-2.0
/*
 * Transactions on services.
 *
 * Creation:  entry, block, switch, VIP, key: packets see it with the key.
 * Update:    the scratch block is written, then the switch.
 * Deletion:  key, VIP, wait for packets, entry.
 * A process that dies in an update leaves the live block as it was; one that
 * dies in a creation or deletion leaves config->dirty set, see mend.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <netinet/in.h>

#include "internal.h"

const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

int key_to_v4(const struct oxp_key *key, struct key_v4 *out, char *error)
{
	if (memcmp(key->vip.bytes, v4_mapped, sizeof(v4_mapped)))
		return failure(error, -EAFNOSUPPORT, "VIPs must be IPv4");
	if (key->protocol != IPPROTO_TCP && key->protocol != IPPROTO_UDP)
		return failure(error, -EPROTONOSUPPORT, "protocol %u",
			       key->protocol);
	if (!key->port)
		return failure(error, -EINVAL, "port 0");
	*out = (struct key_v4){
		.port = htons(key->port),
		.protocol = key->protocol,
	};
	memcpy(&out->address, key->vip.bytes + 12, sizeof(out->address));
	return 0;
}

int find_index(struct oxp_node *node, const struct key_v4 *key)
{
	__u32 index;

	if (bpf_map_lookup_elem(node->map[MAP_SERVICES_V4], key, &index))
		return -errno;
	return index;
}

/* What a caller wants, in the form of a block's members. */
struct wanted {
	uint32_t slots;
	uint32_t count;
	struct block_member member[OXP_MEMBERS_MAX];
	bool is_new[OXP_MEMBERS_MAX];
};

static int by_address(const void *left, const void *right)
{
	const struct block_member *a = left, *b = right;

	return memcmp(a->address, b->address, sizeof(a->address));
}

static int check_wanted(struct oxp_node *node, uint32_t slots,
			const struct oxp_member *members, uint32_t count,
			struct wanted *wanted, char *error)
{
	uint32_t max = node->config->slots_max;

	wanted->slots = slots ? slots : OXP_SLOTS_DEFAULT;
	if (wanted->slots > max || !oxp_is_prime(wanted->slots))
		return failure(
			error, -EINVAL,
			"a table of %u slots, wanted is a prime up to %u",
			wanted->slots, max);
	if (count > OXP_MEMBERS_MAX)
		return failure(error, -E2BIG, "%u members, the limit is %d",
			       count, OXP_MEMBERS_MAX);
	wanted->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct block_member *member = &wanted->member[i];

		if (memcmp(members[i].address.bytes, v4_mapped,
			   sizeof(v4_mapped)))
			return failure(error, -EAFNOSUPPORT,
				       "members must be IPv4");
		*member = (struct block_member){
			.check = members[i].check,
			.weight = members[i].weight,
			.flags = members[i].admin_up ? MEMBER_ADMIN_UP : 0,
		};
		memcpy(member->address, members[i].address.bytes,
		       sizeof(member->address));
	}
	qsort(wanted->member, count, sizeof(*wanted->member), by_address);
	for (uint32_t i = 1; i < count; i++)
		if (!by_address(&wanted->member[i - 1], &wanted->member[i]))
			return failure(error, -EINVAL,
				       "two members with one address");
	return 0;
}

/* Health of a member that has (old) or has not (NULL) been there. */
static uint8_t carried_health(const struct block_member *old, uint64_t check)
{
	if (!check)
		return MEMBER_HEALTHY;
	if (!old)
		return 0; /* proves itself first */
	if (old->check == check)
		return old->flags & (MEMBER_HEALTHY | MEMBER_KNOWN);
	/* keeps its traffic, or not, until the other check has told */
	return old->flags & MEMBER_HEALTHY;
}

static void carry_over(struct wanted *wanted, const struct service_block *old)
{
	uint32_t i = 0, j = 0, members = old ? old->members : 0;

	for (; i < wanted->count; i++) {
		struct block_member *member = &wanted->member[i];
		const struct block_member *before = NULL;

		while (j < members && by_address(&old->member[j], member) < 0)
			j++;
		if (j < members && !by_address(&old->member[j], member))
			before = &old->member[j];
		member->flags |= carried_health(before, member->check);
		if (before)
			member->counter = before->counter;
		wanted->is_new[i] = !before;
	}
}

static bool is_same(const struct wanted *wanted,
		    const struct service_block *old)
{
	return old && old->slots == wanted->slots &&
	       old->members == wanted->count &&
	       !memcmp(old->member, wanted->member,
		       wanted->count * sizeof(*wanted->member));
}

static void release_new(struct oxp_node *node, const struct wanted *wanted,
			uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (wanted->is_new[i])
			release_counter(node, wanted->member[i].counter, 0);
}

static int allocate_new(struct oxp_node *node, struct wanted *wanted,
			char *error)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		int status;

		if (!wanted->is_new[i])
			continue;
		status = allocate_counter(node, &wanted->member[i].counter,
					  error);
		if (status) {
			release_new(node, wanted, i);
			return status;
		}
	}
	return 0;
}

static void write_block(struct service_block *block,
			const struct wanted *wanted)
{
	block->slots = wanted->slots;
	block->members = wanted->count;
	memcpy(block->member, wanted->member,
	       wanted->count * sizeof(*wanted->member));
	compute_slots(block);
}

static int free_entry(struct oxp_node *node, char *error)
{
	uint32_t max = node->config->services_max;

	for (uint32_t i = 0; i < max; i++) {
		uint32_t index = (node->entry_cursor + i) % max;

		if (entry_of(node, index)->state != ENTRY_FREE)
			continue;
		node->entry_cursor = index + 1;
		return index;
	}
	return failure(error, -ENOSPC, "all %u services of the node are in use",
		       max);
}

static int publish(struct oxp_node *node, const struct key_v4 *key,
		   uint32_t index, char *error)
{
	int status;

	status = count_vip(node, key->address, 1);
	if (status)
		return failure(error, status, "cannot enter the VIP");
	status = bpf_map_update_elem(node->map[MAP_SERVICES_V4], key, &index,
				     BPF_NOEXIST);
	if (status) {
		count_vip(node, key->address, -1);
		return failure(error, status, "cannot enter the service");
	}
	return 0;
}

static int create(struct oxp_node *node, const struct oxp_key *key,
		  const struct key_v4 *v4, const struct wanted *wanted,
		  char *error)
{
	int index = free_entry(node, error), status;
	struct service_entry *entry;

	if (index < 0)
		return index;
	status = free_scratch(node, index, error);
	if (!status && (status = zero_service_counters(node, index)))
		failure(error, status, "cannot reset a service's counters");
	if (status)
		return status;

	entry = entry_of(node, index);
	begin_change(node, true);
	memcpy(entry->vip, key->vip.bytes, sizeof(entry->vip));
	entry->port = v4->port;
	entry->protocol = v4->protocol;
	__atomic_store_n(&entry->state, ENTRY_USED, __ATOMIC_RELEASE);
	write_block(scratch_block(node, index), wanted);
	switch_tables(node, index);
	status = publish(node, v4, index, error);
	if (status)
		entry->state = ENTRY_FREE;
	end_change(node);
	return status;
}

static int update(struct oxp_node *node, uint32_t index,
		  const struct wanted *wanted, char *error)
{
	struct service_block *old = live_block(node, index);
	uint32_t j = 0;
	int status;

	status = free_scratch(node, index, error);
	if (status)
		return status;
	begin_change(node, false);
	write_block(scratch_block(node, index), wanted);
	switch_tables(node, index);
	/* both are sorted */
	for (uint32_t i = 0; i < old->members; i++) {
		while (j < wanted->count &&
		       by_address(&wanted->member[j], &old->member[i]) < 0)
			j++;
		if (j == wanted->count ||
		    by_address(&wanted->member[j], &old->member[i]))
			release_counter(node, old->member[i].counter,
					node->config->epoch);
	}
	return 0;
}

static int set(struct oxp_node *node, const struct oxp_key *key,
	       const struct key_v4 *v4, struct wanted *wanted, uint8_t *changed,
	       char *error)
{
	const struct service_block *old = NULL;
	int index, status;

	index = find_index(node, v4);
	if (index < 0 && index != -ENOENT)
		return failure(error, index, "cannot look for the service");
	if (index >= 0)
		old = live_block(node, index);
	carry_over(wanted, old);
	if (is_same(wanted, old))
		return 0;
	status = allocate_new(node, wanted, error);
	if (status)
		return status;
	status = old ? update(node, index, wanted, error)
		     : create(node, key, v4, wanted, error);
	if (status)
		release_new(node, wanted, wanted->count);
	else if (changed)
		*changed = 1;
	return status;
}

int oxp_service_set(struct oxp_node *node, const struct oxp_key *key,
		    uint32_t slots, const struct oxp_member *members,
		    uint32_t count, uint8_t *changed, char *error)
{
	struct wanted wanted;
	struct key_v4 v4;
	int status;

	if (changed)
		*changed = 0;
	status = key_to_v4(key, &v4, error);
	if (!status)
		status = check_wanted(node, slots, members, count, &wanted,
				      error);
	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	status = set(node, key, &v4, &wanted, changed, error);
	unlock_node(node);
	return status;
}

static void forget(struct oxp_node *node, uint32_t index)
{
	const struct service_block *block = live_block(node, index);

	/* packets are gone already; counters of another process's services
	 * that we never looked at are found again when they are derived */
	for (uint32_t i = 0; i < block->members; i++)
		release_counter(node, block->member[i].counter, 0);
	__atomic_store_n(&entry_of(node, index)->state, ENTRY_FREE,
			 __ATOMIC_RELEASE);
}

static int delete(struct oxp_node *node, const struct key_v4 *keys,
		  uint32_t count, uint32_t *indices, char *error)
{
	int deleted = 0, status = 0;

	begin_change(node, true);
	for (uint32_t i = 0; i < count && !status; i++) {
		int index = find_index(node, &keys[i]);

		if (index == -ENOENT)
			continue;
		if (index < 0) {
			status = index;
			break;
		}
		status = bpf_map_delete_elem(node->map[MAP_SERVICES_V4],
					     &keys[i]);
		if (!status) {
			indices[deleted++] = index;
			status = count_vip(node, keys[i].address, -1);
		}
	}
	/* stays dirty after a failure: the next one mends */
	if (status)
		return failure(error, status, "cannot delete a service");
	if (deleted)
		status = grace_period(node, error);
	if (status)
		return status;
	for (int i = 0; i < deleted; i++)
		forget(node, indices[i]);
	end_change(node);
	return deleted;
}

int oxp_service_delete(struct oxp_node *node, const struct oxp_key *keys,
		       uint32_t count, char *error)
{
	struct key_v4 *v4 = calloc(count + 1, sizeof(*v4));
	uint32_t *indices = calloc(count + 1, sizeof(*indices));
	int status = 0;

	if (!v4 || !indices)
		status = failure(error, -ENOMEM, "cannot delete services");
	for (uint32_t i = 0; i < count && !status; i++)
		status = key_to_v4(&keys[i], &v4[i], error);
	if (!status)
		status = lock_node(node, error);
	if (!status) {
		status = delete (node, v4, count, indices, error);
		unlock_node(node);
	}
	free(v4);
	free(indices);
	return status;
}
