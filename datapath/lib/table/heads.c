// SPDX-License-Identifier: Apache-2.0
/* Heads: the part of block_member that packets read, copied. */
#include "table/heads.h"

#include <string.h>

const struct member_head *heads_of(const struct service_block *block)
{
	return (const struct member_head *)((const char *)block +
					    head_offset(block, 0));
}

static struct member_head head_of(const struct block_member *member)
{
	struct member_head head = {
		.counter = member->counter,
		.mtu = member->mtu,
		.outer_type = member->outer_type,
		.flags = member->flags & HEAD_FLAGS,
		.port = member->port,
		.alternative = member->alternative,
		.tunnel = member->tunnel,
		.key = member->key,
	};

	memcpy(head.outer, member->outer, sizeof(head.outer));
	return head;
}

void write_heads(struct service_block *block)
{
	struct member_head *heads = (struct member_head *)heads_of(block);

	for (uint32_t i = 0; i < block->members; i++)
		heads[i] = head_of(&block->member[i]);
}

bool head_is_right(const struct service_block *block, uint32_t place)
{
	struct member_head head = head_of(&block->member[place]);

	return !memcmp(&head, &heads_of(block)[place], sizeof(head));
}
