/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_SEGMENTS_H
#define OXP_TABLE_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Maps the segments that were made since. */
int map_segments(struct oxp_node *node, char *error);

void unmap_segments(struct oxp_node *node);

/* The memory at a line, or NULL if it is in no segment. */
void *at_line(const struct oxp_node *node, uint32_t line);

/* Finds so many lines next to each other that nobody uses, and marks them as
 * used until the next process derives that from the entries: so the caller
 * enters them there at once. Negative: errno. The node's changes must have
 * grown before, see begin_change(). */
int64_t allocate_lines(struct oxp_node *node, uint32_t count, char *error);

/* Lines that no packet reads any more and that no entry names. */
void free_lines(struct oxp_node *node, uint32_t first, uint32_t count);

#endif
