// SPDX-License-Identifier: Apache-2.0
/* Exporting the slots of a service: owners, previous owners and ages. */
#include "upgrade/export_slots.h"

#include "table/blocks.h"
#include "table/slots.h"
#include "upgrade/stream.h"
#include "upgrade/writer.h"

_Static_assert(SLOT_OPEN == STREAM_OPEN && SLOT_NOBODY == STREAM_NOBODY,
	       "slots are written as they are");

void write_ages(struct writer *writer, const struct service_block *block)
{
	begin_record(writer, RECORD_AGES, 0, sizeof(uint8_t), block->slots);
	put_elements(writer, ages_of(writer->node, block), block->slots);
}

static void write_changed(struct writer *writer,
			  const struct service_block *block)
{
	begin_record(writer, RECORD_CHANGED, 0, sizeof(uint8_t), block->slots);
	for (uint32_t i = 0; i < block->slots; i++) {
		uint8_t changed = slot_is_changed(block, i);

		put_elements(writer, &changed, sizeof(changed));
	}
}

/* Ticks and packets change only single words, so each slot is written as it was
 * at some moment. */
void write_slots(struct writer *writer, const struct service_block *block)
{
	begin_record(writer, RECORD_SLOTS, STREAM_MANDATORY, sizeof(uint16_t),
		     block->slots);
	for (uint32_t i = 0; i < block->slots; i++)
		put_number(writer,
			   owner_at(block, i) |
				   (slot_is_open(block, i) ? STREAM_OPEN : 0));
	if (!(block->flags & (BLOCK_OPEN | BLOCK_CHANGED)))
		return;
	begin_record(writer, RECORD_BEFORE, STREAM_MANDATORY, sizeof(uint16_t),
		     block->before_slots);
	for (uint32_t i = 0; i < block->before_slots; i++)
		put_number(writer, before_at(block, i));
	if (block->flags & BLOCK_CHANGED)
		write_changed(writer, block);
}
