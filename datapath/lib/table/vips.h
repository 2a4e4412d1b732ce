/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_VIPS_H
#define OXP_TABLE_VIPS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Compute the entries from all used services except those with a bit in `gone`
 * (may be NULL). The caller frees the result; NULL: out of memory. */
struct vip_entry *count_vips(struct oxp_node *node, const uint64_t *gone);

/* Find or create the entry of a service's VIP and count the service. */
int enter_vip(struct oxp_node *node, uint32_t index, char *error);

/* Write the result of count_vips() and remove keys of VIPs without services. */
int refresh_vips(struct oxp_node *node, const uint64_t *gone);

#endif
