/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of a block, of either width. */
#ifndef OXP_TABLE_SLOTS_H
#define OXP_TABLE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

static inline char *part_at(const struct service_block *block, uint32_t line)
{
	return (char *)block + (size_t)line * LINE_SIZE;
}

static inline char *slots_of(const struct service_block *block)
{
	return part_at(block, block->slot_line);
}

static inline uint8_t *bitmap_of(const struct service_block *block)
{
	return (uint8_t *)part_at(block, bitmap_line(block));
}

static inline char *before_of(const struct service_block *block)
{
	return part_at(block, before_line(block));
}

/* Returns SLOT_NOBODY if there is no member. */
static inline uint16_t read_element(const struct service_block *block,
				    const char *elements, uint32_t index)
{
	uint16_t value = block->slot_width == 1
				 ? ((const uint8_t *)elements)[index]
				 : ((const uint16_t *)elements)[index];

	return value < block->members ? value : SLOT_NOBODY;
}

static inline void write_element(const struct service_block *block,
				 char *elements, uint32_t index,
				 uint16_t member)
{
	if (block->slot_width == 1)
		((uint8_t *)elements)[index] = member;
	else
		((uint16_t *)elements)[index] = member;
}

static inline uint8_t *changed_of(const struct service_block *block)
{
	return (uint8_t *)part_at(block, changed_line(block));
}

/* Neither a member nor the value for nobody. */
static inline bool is_damaged(const struct service_block *block,
			      const char *elements, uint32_t index)
{
	uint16_t value = block->slot_width == 1
				 ? ((const uint8_t *)elements)[index]
				 : ((const uint16_t *)elements)[index];
	uint16_t nobody =
		block->slot_width == 1 ? (uint8_t)SLOT_NOBODY : SLOT_NOBODY;

	return value >= block->members && value != nobody;
}

static inline uint16_t owner_at(const struct service_block *block,
				uint32_t slot)
{
	return read_element(block, slots_of(block), slot);
}

/* `slot`: below before_slots. */
static inline uint16_t before_at(const struct service_block *block,
				 uint32_t slot)
{
	return read_element(block, before_of(block), slot);
}

static inline bool slot_is_open(const struct service_block *block,
				uint32_t slot)
{
	return block->flags & BLOCK_OPEN &&
	       bitmap_of(block)[slot / 8] >> slot % 8 & 1;
}

/* Every open slot is changed as well, if the service has BLOCK_CHANGED. */
static inline bool slot_is_changed(const struct service_block *block,
				   uint32_t slot)
{
	return block->flags & BLOCK_CHANGED &&
	       changed_of(block)[slot / 8] >> slot % 8 & 1;
}

static inline void mark_slot_changed(struct service_block *block, uint32_t slot)
{
	changed_of(block)[slot / 8] |= 1 << slot % 8;
}

static inline void mark_slot_open(struct service_block *block, uint32_t slot)
{
	bitmap_of(block)[slot / 8] |= 1 << slot % 8;
}

/* In the live block. */
static inline void mark_slot_closed(struct service_block *block, uint32_t slot)
{
	uint8_t *byte = &bitmap_of(block)[slot / 8];

	__atomic_store_n(byte, *byte & ~(1 << slot % 8), __ATOMIC_RELAXED);
}

/* Returns the first position of a slot; for slot == slots: 2^32. */
static inline uint64_t first_position(uint32_t slot, uint32_t slots)
{
	return (((uint64_t)slot << 32) + slots - 1) / slots;
}

#endif
