/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PINS_H
#define OXP_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Paths below the pin directory; the result is to be freed */
char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name);

void remove_folder(const struct oxp_node *node, const char *folder);

int rename_folder(const struct oxp_node *node, const char *from,
		  const char *to);

/* Puts the folder in the place of `maps`, which gets its name, in one step. */
int exchange_folder(const struct oxp_node *node, const char *folder);

/* Pins a map at `path`, which is freed, and puts it into a map of maps. Whoever
 * dies in between leaves a pin that the next one replaces. Returns 0 or a
 * negative errno; `path` may be NULL, -ENOMEM then. */
int pin_inner(const struct oxp_node *node, enum map outer, uint32_t number,
	      int map, char *path);

#endif
