/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_REBUILD_H
#define OXP_TABLE_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The tables of many services at once */
struct rebuild_job {
	uint32_t index; /* of the service */
	struct service_block *next;
	const struct service_block *old; /* NULL: it is new */
	/* rebuild.c's own */
	uint64_t hash;
	uint32_t group;
};

/* Computes the next tables of all jobs, in an order of its own, and calls
 * finished() for each job, in this thread. */
int rebuild(struct oxp_node *node, struct rebuild_job *jobs, uint32_t count,
	    void (*finished)(void *context, const struct rebuild_job *job),
	    void *context);

/* The owner of each slot of a block, by its members. */
int compute_owners(const struct service_block *block, uint16_t *out);

#endif
