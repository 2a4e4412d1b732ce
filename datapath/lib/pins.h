/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PINS_H
#define OXP_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Return a path below the pin directory. The caller frees it. */
char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name);

/* The same for a name that ends with a number. */
char *numbered_pin_path(const struct oxp_node *node, const char *folder,
			const char *prefix, uint32_t number);

void remove_folder(const struct oxp_node *node, const char *folder);

int rename_folder(const struct oxp_node *node, const char *from,
		  const char *to);

/* Exchange the folder with `maps` in one step. */
int exchange_folder(const struct oxp_node *node, const char *folder);

/* Pin a map at `path` and insert it into a map of maps. Frees `path`. A pin
 * that a dead process left is replaced. Returns 0 or a negative errno; -ENOMEM
 * if `path` is NULL. */
int pin_inner(const struct oxp_node *node, enum map outer, uint32_t number,
	      int map, char *path);

#endif
