/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A service's block, and how packets read it. Blocks, ages and networks are
 * anywhere in segments: places are offsets there, masked on each use, because
 * the verifier loses bounds that it has not seen on the register itself.
 */
#ifndef OXP_BLOCK_H
#define OXP_BLOCK_H

#include "maps.h"
#include "verifier.h"

struct block_view {
	const struct service_block *block;
	void *segment; /* that contains the block */
	__u32 offset;  /* in the segment, bytes, modulo SEGMENT_SIZE */
};

static __always_inline void *find_segment(__u32 line)
{
	__u32 number = line / SEGMENT_LINES, only = 0;
	void *segment = bpf_map_lookup_elem(&tables, &number);

	return segment ? bpf_map_lookup_elem(segment, &only) : NULL;
}

/* `size` bytes at an offset; the size is a power of two and divides the offset.
 * The masks are for SEGMENT_SIZE, 2^23. */
static __always_inline void *in_segment(void *segment, __u64 offset,
					const __u32 size)
{
	if (size == LINE_SIZE)
		MASK(offset, 0x7fffc0);
	else if (size == 32)
		MASK(offset, 0x7fffe0);
	else if (size == 16)
		MASK(offset, 0x7ffff0);
	else if (size == 4)
		MASK(offset, 0x7ffffc);
	else if (size == 2)
		MASK(offset, 0x7ffffe);
	else
		MASK(offset, 0x7fffff);
	return segment + offset;
}

/* Returns false if the block is missing (unreachable; for the verifier). */
static __always_inline bool find_block(__u32 line, struct block_view *view)
{
	view->segment = find_segment(line);
	if (!view->segment)
		return false;
	view->offset = line * LINE_SIZE;
	view->block = in_segment(view->segment, view->offset, LINE_SIZE);
	return true;
}

static __always_inline const struct member_head *
member_of(const struct block_view *view, __u32 index)
{
	return in_segment(view->segment,
			  view->offset + head_offset(view->block, index),
			  sizeof(struct member_head));
}

/* All data of a member, which packets read only with NAT. */
static __always_inline const struct block_member *
whole_member_of(const struct block_view *view, __u32 index)
{
	return in_segment(view->segment,
			  view->offset + sizeof(struct service_block) +
				  index * sizeof(struct block_member),
			  LINE_SIZE);
}

/* 0 for an index out of range; other data follows the heads. */
static __always_inline __u8 flags_of(const struct block_view *view, __u32 index)
{
	if (index >= view->block->members)
		return 0;
	return READ_ONCE(member_of(view, index)->flags);
}

/* Element `index` at the block's line `line`: a member, or at least `members`.
 */
static __always_inline __u32 element_of(const struct block_view *view,
					__u32 line, __u32 index)
{
	__u64 offset = view->offset + line * LINE_SIZE;

	if (likely(view->block->slot_width == 1))
		return READ_ONCE(*(const __u8 *)in_segment(view->segment,
							   offset + index, 1));
	return READ_ONCE(*(const __u16 *)in_segment(view->segment,
						    offset + 2 * index, 2));
}

static __always_inline __u32 owner_of_slot(const struct block_view *view,
					   __u32 slot)
{
	return element_of(view, view->block->slot_line, slot);
}

static __always_inline __u32 before_of(const struct block_view *view,
				       __u32 position)
{
	return element_of(view, before_line(view->block),
			  slot_at(position, view->block->before_slots));
}

static __always_inline bool is_open(const struct block_view *view, __u32 slot)
{
	__u64 offset = view->offset + bitmap_line(view->block) * LINE_SIZE;
	const __u8 *bits = in_segment(view->segment, offset + slot / 8, 1);

	return READ_ONCE(*bits) >> slot % 8 & 1;
}

static __always_inline bool is_changed(const struct block_view *view,
				       __u32 slot)
{
	__u64 offset = view->offset + changed_line(view->block) * LINE_SIZE;
	const __u8 *bits = in_segment(view->segment, offset + slot / 8, 1);

	return READ_ONCE(*bits) >> slot % 8 & 1;
}

/* Whether the table alone does not decide where the slot's flows are. With
 * BLOCK_CHANGED every open slot is marked as changed. */
#define BLOCK_ASK (BLOCK_OPEN | BLOCK_CHANGED)
static __always_inline bool is_undecided(const struct block_view *view,
					 __u32 slot)
{
	return view->block->flags & BLOCK_CHANGED ? is_changed(view, slot)
						  : is_open(view, slot);
}

/* Whether an undecided slot is open, too. */
static __always_inline bool is_still_open(const struct block_view *view,
					  __u32 slot)
{
	return view->block->flags & BLOCK_OPEN && is_open(view, slot);
}

/*
 * With many services each packet waits for memory: for the block's header,
 * which has the place of the slots, for the slot, and for the head of the
 * slot's member. So lines where most blocks have them are fetched along with
 * the header. Nothing depends on the data read.
 */
#define FETCHED_HEADS 5 /* lines */
static __always_inline void fetch_ahead(const struct block_view *view,
					__u32 position, __u32 slot_line,
					__u32 slots)
{
	const __u32 room = FETCHED_HEADS * LINE_SIZE;
	__u64 offset = view->offset % SEGMENT_SIZE + slot_line * LINE_SIZE;
	const volatile __u8 *line;

	line = in_segment(view->segment, offset + slot_at(position, slots), 1);
	(void)*line;
	barrier_var(offset);
	if (offset < room || offset > SEGMENT_SIZE)
		return;
	line = view->segment + offset - room;
#pragma unroll
	for (__u32 i = 0; i < FETCHED_HEADS; i++)
		(void)line[i * LINE_SIZE];
}

/* To be called when a packet goes to another member than the slot's own. */
static __always_inline void renew_age(const struct service_block *block,
				      __u32 slot)
{
	void *segment;
	__u8 *age;

	if (!writes_ages)
		return;
	segment = find_segment(block->ages);
	if (!segment)
		return;
	age = in_segment(segment,
			 block->ages % SEGMENT_LINES * LINE_SIZE + slot, 1);
	if (READ_ONCE(*age))
		WRITE_ONCE(*age, 0);
}

#endif
