/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_LINKS_H
#define OXP_PROGRAM_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The path is to be freed. */
char *link_path(const struct oxp_node *node, uint32_t ifindex);

/* The pinned link of an interface that is there, or -ENOENT. */
int open_link(const char *path, uint32_t ifindex);

/* Calls one(node, link, ifindex, argument) with the pinned links of all
 * interfaces that are still there, until it returns other than 0. What keeps
 * it from calling, it says in `error`. */
int for_each_link(struct oxp_node *node,
		  int (*one)(struct oxp_node *node, int link, uint32_t ifindex,
			     void *argument),
		  void *argument, char *error);

int id_of_link(int link, uint32_t *id);

/* A descriptor. */
int program_of_link(int link);

/* 0 also if the interface has just gone. */
int replace_program(int link, int program, uint32_t ifindex, char *error);

/* A descriptor of the program that an interface has now, its id in *id;
 * -ENOENT if there is none. */
int attached_program(struct oxp_node *node, uint32_t *id);

#endif
