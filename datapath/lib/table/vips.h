/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_VIPS_H
#define OXP_TABLE_VIPS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* What follows from all used entries but those with a bit in `gone` (may be
 * NULL): numbers of services and ports. To be freed; NULL: no memory. */
struct vip_entry *count_vips(struct oxp_node *node, const uint64_t *gone);

/* Finds or makes the entry of a service's VIP and counts the service in. */
int enter_vip(struct oxp_node *node, uint32_t index, char *error);

/* Writes that, and removes the keys of VIPs without services. */
int refresh_vips(struct oxp_node *node, const uint64_t *gone);

#endif
