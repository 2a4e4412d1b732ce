/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_SET_H
#define OXP_SERVICE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

void make_entry(struct oxp_node *node, uint32_t index,
		const struct oxp_key *key);

/* Enter VIP and key: from then on packets see the service's first block. */
int publish(struct oxp_node *node, uint32_t index, char *error);

#endif
