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

#endif
