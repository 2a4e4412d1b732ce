// SPDX-License-Identifier: Apache-2.0
/*
 * Setting services.
 *
 *   Creation:  entry, networks, block, VIP, key, which makes it visible.
 *   Update:    networks and QUIC servers, scratch block, then the switch.
 *
 * Before the first write that needs more than a switch to complete, the node is
 * marked dirty: the next process to lock it repairs it (node/repair.c). A
 * process that dies in an update that only writes a block leaves the live block
 * as it was.
 */
#include "service/set.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "error.h"
#include "node/lock.h"
#include "node/repair.h"
#include "service/limit.h"
#include "service/validate.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/lookup.h"
#include "table/members.h"
#include "table/networks.h"
#include "table/quic_servers.h"
#include "table/rebuild.h"
#include "table/slot_transition.h"
#include "table/vips.h"

struct batch {
	struct oxp_node *node;
	struct oxp_wanted_service **wanted; /* by service index, for each job */
	struct rebuild_job *jobs;
	uint32_t count;
	uint32_t changed;
	bool dirty;  /* the node was marked dirty */
	bool broken; /* the node must be repaired */
	int status;
	char *error;
};

static void refuse(struct batch *batch, struct oxp_wanted_service *wanted,
		   int status, const char *text)
{
	wanted->status = status;
	if (batch->status)
		return;
	batch->status = status;
	if (batch->error)
		snprintf(batch->error, OXP_ERROR_LENGTH, "%.100s: %.400s",
			 key_text(wanted->key.vip.bytes,
				  htons(wanted->key.port),
				  wanted->key.protocol),
			 text);
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

/* Reuse the live block's networks if the draft wants the same ones. Returns
 * whether new networks must be written; draft->networks is 0 then. */
static bool has_new_networks(struct oxp_node *node,
			     const struct service_block *old,
			     struct service_block *draft,
			     const struct oxp_network *networks)
{
	const struct oxp_network *there = NULL;
	uint32_t count = 0;

	if (!draft->allowed_count)
		return false;
	draft->flags |= BLOCK_ALLOWED;
	if (old)
		there = networks_of(node, old, &count);
	if (!there || count != draft->allowed_count ||
	    memcmp(there, networks, count * sizeof(*networks)))
		return true;
	draft->networks = old->networks;
	return false;
}

void make_entry(struct oxp_node *node, uint32_t index,
		const struct oxp_key *key)
{
	struct service_entry *entry = entry_of(node, index);

	entry->switched = 0;
	entry->port = htons(key->port);
	entry->protocol = key->protocol;
	entry->place = UINT32_MAX;
	entry->vip_index = UINT32_MAX;
	memset(entry->block, 0, sizeof(entry->block));
	memset(entry->block_lines, 0, sizeof(entry->block_lines));
	memset(entry->ages, 0, sizeof(entry->ages));
	memset(entry->ages_lines, 0, sizeof(entry->ages_lines));
	memset(entry->networks, 0, sizeof(entry->networks));
	memset(entry->networks_lines, 0, sizeof(entry->networks_lines));
	memcpy(entry->vip, key->vip.bytes, sizeof(entry->vip));
	__atomic_store_n(&entry->state, ENTRY_USED, __ATOMIC_RELEASE);
}

/* Write everything that must precede computing the table. */
static int write_draft(struct batch *batch, struct oxp_wanted_service *wanted,
		       uint32_t index, const struct service_block *old,
		       struct service_block *draft,
		       const struct oxp_network *networks, char *error)
{
	struct oxp_node *node = batch->node;
	bool quic = quic_servers_differ(old, draft);
	bool dirty = !old || quic;
	struct service_block *next;
	int status = 0;

	batch->dirty |= dirty;
	begin_change(node, dirty);
	if (node->config->idle_timeout_max < draft->idle_timeout_s)
		node->config->idle_timeout_max = draft->idle_timeout_s;
	if (!old)
		make_entry(node, index, &wanted->key);
	if (draft->allowed_count && !draft->networks)
		status = write_networks(node, index, old, networks, draft,
					error);
	if (!status && quic)
		status = write_quic_servers(node, index, old, draft, error);
	if (status) {
		batch->broken = dirty;
		return status;
	}
	status = write_scratch(node, index, draft, old,
			       next_before_slots(node, index, draft, old),
			       &next, error);
	if (status) {
		batch->broken = dirty;
		return status;
	}
	if (!old)
		next->generation = node->config->generation + 1;
	batch->wanted[index] = wanted;
	batch->jobs[batch->count++] = (struct rebuild_job){
		.index = index,
		.next = next,
		.old = old,
	};
	return 0;
}

static int prepare(struct batch *batch, struct oxp_wanted_service *wanted,
		   struct oxp_network *networks, struct service_block *draft,
		   char *error)
{
	struct lookup_key key =
		lookup_key(wanted->key.vip.bytes, htons(wanted->key.port),
			   wanted->key.protocol);
	struct oxp_node *node = batch->node;
	int index = find_service(node, &key), status = 0;
	const struct service_block *old =
		index < 0 ? NULL : live_block(node, index);
	uint32_t limit =
		wanted->settings ? wanted->settings->connection_limit : 0;
	uint64_t new_places[PLACE_WORDS];
	uint32_t before;
	bool same;

	place_members(draft, old, new_places);
	if (!old)
		index = free_entry(node, error);
	if (index < 0)
		return index;
	same = !has_new_networks(node, old, draft, networks) &&
	       has_same_description(draft, old);
	if (old && same) {
		wanted->changed = set_connection_limit(node, index, limit);
		batch->changed += wanted->changed;
		return 0;
	}
	derive_counters(node);
	if (old)
		status = free_scratch(node, index, error);
	else if ((status = zero_service_counters(node, index)))
		failure(error, status, "cannot reset a service's counters");
	if (!status)
		status = allocate_new_counters(node, draft, new_places, error);
	if (status)
		return status;
	before = connection_limit(node, index);
	set_connection_limit(node, index, limit);
	status = write_draft(batch, wanted, index, old, draft, networks, error);
	if (status) {
		release_new_counters(node, draft, new_places, draft->members);
		set_connection_limit(node, index, before);
	}
	return status;
}

int publish(struct oxp_node *node, uint32_t index, char *error)
{
	struct service_entry *entry = entry_of(node, index);
	struct lookup_key key = entry_key(entry);
	int status = enter_vip(node, index, error);
	int64_t place;

	if (status)
		return status;
	place = lookup_insert(node, &key, entry->block[0]);
	if (place < 0)
		return failure(error, place,
			       "the lookup table has no room near the service");
	entry->place = place;
	return 0;
}

static void finish(void *context, const struct rebuild_job *job)
{
	struct batch *batch = context;
	struct oxp_wanted_service *wanted = batch->wanted[job->index];
	char text[OXP_ERROR_LENGTH];
	int status = 0;

	if (job->old) {
		switch_tables(batch->node, job->index);
		release_old_counters(batch->node, job->old, job->next);
	} else {
		status = publish(batch->node, job->index, text);
	}
	if (status) {
		/* repair() removes the service with all that was written */
		entry_of(batch->node, job->index)->place = UINT32_MAX;
		batch->broken = true;
		refuse(batch, wanted, status, text);
		return;
	}
	wanted->changed = 1;
	batch->changed++;
}

struct ordered {
	const struct oxp_key *key;
	struct oxp_wanted_service *wanted;
};

static int by_key(const void *left, const void *right)
{
	const struct ordered *a = left, *b = right;

	return memcmp(a->key, b->key, offsetof(struct oxp_key, reserved));
}

/* Refuse all but one of several equal keys. */
static int refuse_twins(struct batch *batch,
			struct oxp_wanted_service *services, uint32_t count)
{
	struct ordered *ordered = calloc(count, sizeof(*ordered));

	if (!ordered)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		ordered[i] = (struct ordered){&services[i].key, &services[i]};
	qsort(ordered, count, sizeof(*ordered), by_key);
	for (uint32_t i = 1; i < count; i++)
		if (!by_key(&ordered[i - 1], &ordered[i]))
			refuse(batch, ordered[i].wanted, -EINVAL,
			       "is there twice");
	free(ordered);
	return 0;
}

static void set_one(struct batch *batch, struct oxp_wanted_service *wanted)
{
	struct oxp_network *networks = NULL;
	union draft draft;
	char text[OXP_ERROR_LENGTH];
	int status;

	status = check_key(&wanted->key, text);
	if (!status)
		status = parse_wanted(batch->node, wanted, &draft.block, text);
	if (!status)
		status = parse_allowed(wanted->settings, &networks,
				       &draft.block.allowed_count, text);
	if (!status)
		status = prepare(batch, wanted, networks, &draft.block, text);
	if (status)
		refuse(batch, wanted, status, text);
	free(networks);
}

static int set_all(struct batch *batch, struct oxp_wanted_service *services,
		   uint32_t count)
{
	struct oxp_node *node = batch->node;
	int status = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!services[i].status)
			set_one(batch, &services[i]);
	if (rebuild(node, batch->jobs, batch->count, finish, batch)) {
		batch->broken = true;
		for (uint32_t i = 0; i < batch->count; i++)
			refuse(batch, batch->wanted[batch->jobs[i].index],
			       -ENOMEM, "cannot compute the tables");
	}
	if (batch->broken)
		status = repair(node, batch->status ? NULL : batch->error);
	else if (batch->dirty)
		end_change(node);
	return status;
}

static int set_services(struct oxp_node *node,
			struct oxp_wanted_service *services, uint32_t count,
			uint32_t *changed, char *error)
{
	struct batch batch = {.node = node, .error = error};
	int status;

	for (uint32_t i = 0; i < count; i++) {
		services[i].status = 0;
		services[i].changed = 0;
	}
	batch.jobs = calloc((size_t)count + 1, sizeof(*batch.jobs));
	batch.wanted = calloc(node->config->services_max,
			      sizeof(struct oxp_wanted_service *));
	if (!batch.jobs || !batch.wanted ||
	    (count > 1 && refuse_twins(&batch, services, count))) {
		status = failure(error, -ENOMEM, "cannot set services");
	} else {
		status = lock_node(node, error);
		if (!status) {
			status = set_all(&batch, services, count);
			unlock_node(node);
		}
	}
	free(batch.jobs);
	free(batch.wanted);
	*changed = batch.changed;
	return batch.status ? batch.status : status;
}

int oxp_services_set(struct oxp_node *node, struct oxp_wanted_service *services,
		     uint32_t count, char *error)
{
	uint32_t changed;
	int status = set_services(node, services, count, &changed, error);

	return status ? status : (int)changed;
}

int oxp_service_set(struct oxp_node *node, const struct oxp_key *key,
		    const struct oxp_service_settings *settings,
		    const struct oxp_member *members, uint32_t count,
		    uint8_t *changed, char *error)
{
	struct oxp_wanted_service wanted = {
		.key = *key,
		.settings = settings,
		.members = members,
		.count = count,
	};
	uint32_t switched;
	int status = set_services(node, &wanted, 1, &switched, error);

	if (changed)
		*changed = wanted.changed;
	return status;
}
