/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_REPORT_H
#define OXP_UPGRADE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct forward;

int report_interfaces(struct oxp_node *node, struct forward *object,
		      struct oxp_upgrade *out, char *error);

void report_services(struct oxp_node *node, struct oxp_upgrade *out);

#endif
