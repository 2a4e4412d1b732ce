/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_LINKS_H
#define OXP_PROGRAM_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The caller frees the path. */
char *link_path(const struct oxp_node *node, uint32_t ifindex);

/* Returns the pinned link of an existing interface, or -ENOENT. */
int open_link(const char *path, uint32_t ifindex);

/* Call one(node, link, ifindex, argument) for the pinned links of all existing
 * interfaces until it returns nonzero. Failures before a call are described in
 * `error`. */
int for_each_link(struct oxp_node *node,
		  int (*one)(struct oxp_node *node, int link, uint32_t ifindex,
			     void *argument),
		  void *argument, char *error);

int id_of_link(int link, uint32_t *id);

/* Returns a descriptor. */
int program_of_link(int link);

/* Returns 0 also if the interface has just disappeared. */
int replace_program(int link, int program, uint32_t ifindex, char *error);

/* Returns a descriptor of the program that an interface runs, and its id in
 * *id; -ENOENT if there is none. */
int attached_program(struct oxp_node *node, uint32_t *id);

#endif
