/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_BLOCKS_H
#define OXP_TABLE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "table/lookup.h"

struct service_entry *entry_of(struct oxp_node *node, uint32_t index);

struct lookup_key entry_key(const struct service_entry *entry);

struct service_block *block_of(struct oxp_node *node, uint32_t number);

struct service_block *live_block(struct oxp_node *node, uint32_t index);

struct service_block *scratch_block(struct oxp_node *node, uint32_t index);

/* Index or -ENOENT. */
int find_service(struct oxp_node *node, const struct lookup_key *key);

uint32_t live_number(struct oxp_node *node, uint32_t index);

/* Of member[]; no more than there are, also where the state is damaged. */
uint32_t places_of(const struct service_block *block);

uint8_t *ages_of(struct oxp_node *node, uint32_t index);

uint16_t *before_of(const struct oxp_node *node, struct service_block *block);

/* Waits, if packets may still read the scratch block of the service. */
int free_scratch(struct oxp_node *node, uint32_t index, char *error);

void switch_tables(struct oxp_node *node, uint32_t index);

/* Everything but generation and slots. */
void copy_description(struct service_block *to,
		      const struct service_block *from);

#endif
