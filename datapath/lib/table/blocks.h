/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_BLOCKS_H
#define OXP_TABLE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "table/lookup.h"

struct service_entry *entry_of(struct oxp_node *node, uint32_t index);
/* The index of the first service from `index` on, or services_max. */
uint32_t next_service(struct oxp_node *node, uint32_t index);
#define FOR_EACH_SERVICE(node, index)                                          \
	for (uint32_t index = next_service(node, 0);                           \
	     index < (node)->config->services_max;                             \
	     index = next_service(node, (index) + 1))

struct lookup_key entry_key(const struct service_entry *entry);

/* A service as requested, before it is written: a block without slots. */
union draft {
	struct service_block block;
	char room[sizeof(struct service_block) +
		  OXP_MEMBERS_MAX * sizeof(struct block_member)];
};

/* Returns the block at a line, or a block without members if there is none. */
struct service_block *block_at(struct oxp_node *node, uint32_t line);

struct service_block *live_block(struct oxp_node *node, uint32_t index);

struct service_block *scratch_block(struct oxp_node *node, uint32_t index);

/* Returns an index or -ENOENT. */
int find_service(struct oxp_node *node, const struct lookup_key *key);

uint32_t live_line(struct oxp_node *node, uint32_t index);

/* Returns the number of places in member[], limited in a damaged state. */
uint32_t places_of(const struct service_block *block);

/* One byte per slot. */
uint8_t *ages_of(struct oxp_node *node, const struct service_block *block);

/* Wait if packets may still read the service's scratch block. */
int free_scratch(struct oxp_node *node, uint32_t index, char *error);

void switch_tables(struct oxp_node *node, uint32_t index);

/* Give something that no packet reads room for `wanted` lines. Kept as it is if
 * its size is suitable. *line is 0 after a failure. */
int resize_lines(struct oxp_node *node, __u32 *line, __u32 *lines,
		 uint32_t wanted, char *error);

/* Returns the size of a block. */
uint32_t lines_of_block(uint32_t slots, uint32_t places, uint32_t before_slots,
			bool second_chance);

/* Write everything but generation and slots to the scratch block, with room for
 * before_slots in `before`. old: the live block, or NULL for a new service. */
int write_scratch(struct oxp_node *node, uint32_t index,
		  const struct service_block *draft,
		  const struct service_block *old, uint32_t before_slots,
		  struct service_block **out, char *error);

/* Whether nothing has to be written. old: the live block, or NULL. */
bool has_same_description(const struct service_block *draft,
			  const struct service_block *old);

/* Free the blocks of an entry that has just become free. */
void forget_blocks(struct oxp_node *node, uint32_t index);

#endif
