/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_HEADS_H
#define OXP_TABLE_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Of a block that lies in its lines, not of a draft. */
const struct member_head *heads_of(const struct service_block *block);

/* From member[]. */
void write_heads(struct service_block *block);

bool head_is_right(const struct service_block *block, uint32_t place);

#endif
