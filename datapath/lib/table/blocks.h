/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_BLOCKS_H
#define OXP_TABLE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "table/lookup.h"

struct service_entry *entry_of(struct oxp_node *node, uint32_t index);

struct lookup_key entry_key(const struct service_entry *entry);

/* A service that somebody wants, before it is written into a block: as a block,
 * without slots. */
union draft {
	struct service_block block;
	char room[sizeof(struct service_block) +
		  OXP_MEMBERS_MAX * sizeof(struct block_member)];
};

/* What lies at a line; a block without members where nothing does. */
struct service_block *block_at(struct oxp_node *node, uint32_t line);

struct service_block *live_block(struct oxp_node *node, uint32_t index);

struct service_block *scratch_block(struct oxp_node *node, uint32_t index);

/* Index or -ENOENT. */
int find_service(struct oxp_node *node, const struct lookup_key *key);

uint32_t live_line(struct oxp_node *node, uint32_t index);

/* Of member[]; no more than there are, also where the state is damaged. */
uint32_t places_of(const struct service_block *block);

/* A byte for each slot. */
uint8_t *ages_of(struct oxp_node *node, const struct service_block *block);

/* Waits, if packets may still read the scratch block of the service. */
int free_scratch(struct oxp_node *node, uint32_t index, char *error);

void switch_tables(struct oxp_node *node, uint32_t index);

/* Gives what packets do not read room for so many lines: as it was, if that is
 * right; *line is 0 after a failure. */
int resize_lines(struct oxp_node *node, __u32 *line, __u32 *lines,
		 uint32_t wanted, char *error);

/* That a block takes. */
uint32_t lines_of_block(uint32_t slots, uint32_t places, uint32_t before_slots,
			bool second_chance);

/* Writes all but generation and slots into the block that packets do not
 * read; `before` has room for so many. old: the live one; NULL: the service is
 * new. */
int write_scratch(struct oxp_node *node, uint32_t index,
		  const struct service_block *draft,
		  const struct service_block *old, uint32_t before_slots,
		  struct service_block **out, char *error);

/* Whether nothing is to be written; old: the live block, or NULL. */
bool has_same_description(const struct service_block *draft,
			  const struct service_block *old);

/* Of an entry that is free from now on. */
void forget_blocks(struct oxp_node *node, uint32_t index);

#endif
