/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_IMPORT_SERVICE_H
#define OXP_UPGRADE_IMPORT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

/* The service of record `at`. taken: bits of the members'
 * counters that others have. */
int fill_service(struct oxp_node *node, const struct import *import,
		 uint32_t at, uint64_t *taken, char *error);

/* Ages that packets have set to 0 meanwhile. */
void refresh_ages(struct oxp_node *node, const struct import *import);

#endif
