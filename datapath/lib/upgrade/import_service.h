/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_IMPORT_SERVICE_H
#define OXP_UPGRADE_IMPORT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

/* Import the service at record `at`. taken: bits of the members' counters in
 * use. */
int fill_service(struct oxp_node *node, const struct import *import,
		 uint32_t at, uint64_t *taken, char *error);

/* Apply ages that packets have set to 0 in the meantime. */
void refresh_ages(struct oxp_node *node, const struct import *import);

#endif
