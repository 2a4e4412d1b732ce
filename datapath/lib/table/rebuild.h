/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_REBUILD_H
#define OXP_TABLE_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* A table to compute. */
struct rebuild_job {
	uint32_t index; /* of the service */
	struct service_block *next;
	const struct service_block *old; /* NULL: a new service */
	/* private to rebuild.c */
	uint64_t hash;
	uint32_t group;
};

/* Compute the next tables of all jobs, in any order. Calls finished() for each
 * job from this thread. */
int rebuild(struct oxp_node *node, struct rebuild_job *jobs, uint32_t count,
	    void (*finished)(void *context, const struct rebuild_job *job),
	    void *context);

/* Compute the owner of each slot of a block. */
int compute_owners(const struct service_block *block, uint16_t *out);

#endif
