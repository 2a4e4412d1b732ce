/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_HEADS_H
#define OXP_TABLE_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* For a block in its lines, not for a draft. */
const struct member_head *heads_of(const struct service_block *block);

/* Copy from member[]. */
void write_heads(struct service_block *block);

bool head_is_right(const struct service_block *block, uint32_t place);

#endif
