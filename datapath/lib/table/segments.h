/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_SEGMENTS_H
#define OXP_TABLE_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Map segments that were created since the last call. */
int map_segments(struct oxp_node *node, char *error);

void unmap_segments(struct oxp_node *node);

/* Returns the memory at a line, or NULL if it is in no segment. */
void *at_line(const struct oxp_node *node, uint32_t line);

/* Find contiguous free lines and mark them used. Other processes derive this
 * from the entries, so the caller must enter the lines there at once, and must
 * have called begin_change() before. Returns the first line or a negative
 * errno. */
int64_t allocate_lines(struct oxp_node *node, uint32_t count, char *error);

/* Free lines that no packet reads and no entry names. */
void free_lines(struct oxp_node *node, uint32_t first, uint32_t count);

#endif
