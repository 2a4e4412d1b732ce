// SPDX-License-Identifier: Apache-2.0
/*
 * Ageing of open slots. A packet that goes to another member than its slot's
 * own sets the slot's age to 0; eight times per idle timeout the age grows by
 * one. At AGE_CLOSED eight full intervals have passed: no flow of another
 * member is left, and the slot closes. This changes one word of which a packet
 * may read either value, so it is done in the live block. While the number of
 * slots changes they close together, see struct service_block.
 *
 * A service that has not forwarded a packet has no flows to keep: its slots
 * close at the first step after every packet has left that may have read an
 * earlier table. Until then it may still be forwarding its first packet.
 *
 * When a step is due depends only on the clock, so no state is kept. A late
 * call makes one step, not several: slots then stay open longer.
 */
#include "service/tick.h"

#include <time.h>

#include "clock.h"
#include "nat/age.h"
#include "node/lock.h"
#include "service/watch.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/slots.h"
#include "table/usual.h"

#define INTERVAL 1000 /* ms */
#define STEPS 8

static bool is_due(const struct service_block *block, uint64_t before,
		   uint64_t now)
{
	uint64_t timeout = block->idle_timeout_s * 1000ULL;

	return now * STEPS / timeout != before * STEPS / timeout;
}

/* Returns whether the slot closes. Packets may set the age to 0 meanwhile. */
static bool grow_older(uint8_t *age)
{
	uint8_t old = __atomic_load_n(age, __ATOMIC_RELAXED);

	if (old + 1 >= AGE_CLOSED)
		return true;
	__atomic_compare_exchange_n(age, &old, old + 1, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return false;
}

static void clear_flag(struct service_block *block, uint32_t flag)
{
	__atomic_store_n(&block->flags, block->flags & ~flag, __ATOMIC_RELAXED);
}

static void set_flag(struct service_block *block, uint32_t flag)
{
	__atomic_store_n(&block->flags, block->flags | flag, __ATOMIC_RELAXED);
}

/* Whether the service never had a flow. BLOCK_USED ends these checks. */
static bool is_unused(struct oxp_node *node, uint32_t index,
		      struct service_block *block)
{
	struct service_counts counts;

	if (block->flags & BLOCK_USED ||
	    entry_of(node, index)->switched > node->config->waited)
		return false;
	read_service_counts(node, index, &counts);
	if (!counts.counters.packets)
		return true;
	set_flag(block, BLOCK_USED);
	return false;
}

/* In the live block: all flows since the switch are with the owners. */
static void close_slots(struct service_block *block)
{
	clear_flag(block, BLOCK_OPEN);
	clear_flag(block, BLOCK_LEARNING);
	block->learning = 0;
	block->open = 0;
}

static void age_slots(struct oxp_node *node, struct service_block *block)
{
	bool together = block->before_slots != block->slots;
	uint8_t *ages = ages_of(node, block);
	uint32_t open = 0, ready = 0;

	for (uint32_t i = 0; ages && i < block->slots; i++) {
		if (!slot_is_open(block, i))
			continue;
		open++;
		if (!grow_older(&ages[i]))
			continue;
		ready++;
		if (!together)
			mark_slot_closed(block, i);
	}
	if (!together)
		open -= ready;
	else if (open == ready)
		open = 0;
	if (!open)
		clear_flag(block, BLOCK_OPEN);
	/* written last: a process that dies earlier leaves a number that is too
	 * high, which the next step corrects */
	block->open = open < 65535 ? open : 65535;
}

/* While learning, unknown flows are taken for old ones if their protocol does
 * not show when a flow opens. Flows that were silent this long have ended. */
static void learn_on(struct service_block *block, uint64_t before, uint64_t now)
{
	uint64_t passed = now / 1000 - before / 1000;

	if (!(block->flags & BLOCK_LEARNING))
		return;
	if (block->learning > passed) {
		block->learning -= passed;
		return;
	}
	clear_flag(block, BLOCK_LEARNING);
	block->learning = 0;
}

void pass_time(struct oxp_node *node, struct service_block *block,
	       uint32_t seconds)
{
	uint64_t steps = (uint64_t)seconds * STEPS / block->idle_timeout_s;

	for (uint64_t i = 0; i < steps && i < AGE_CLOSED && block->open; i++)
		age_slots(node, block);
	learn_on(block, 0, seconds * 1000ULL);
}

static uint32_t pass(struct oxp_node *node, uint64_t before, uint64_t now,
		     bool ages)
{
	struct usual_block usual = {};
	uint32_t open = 0, longest = 0;

	FOR_EACH_SERVICE(node, i) {
		struct service_block *block = live_block(node, i);

		count_block(&usual, block);
		if (longest < block->idle_timeout_s)
			longest = block->idle_timeout_s;
		if (!block->open && !(block->flags & BLOCK_LEARNING))
			continue;
		if (ages && is_unused(node, i, block)) {
			close_slots(block);
		} else if (ages) {
			if (block->open && is_due(block, before, now))
				age_slots(node, block);
			learn_on(block, before, now);
		}
		open += block->open;
	}
	note_usual_block(node, &usual);
	/* set.c only raises it, and only this lowers it */
	__atomic_store_n(&node->config->idle_timeout_max, longest,
			 __ATOMIC_RELAXED);
	return open;
}

int oxp_slots_age(struct oxp_node *node, char *error)
{
	uint64_t now, before;
	bool first, due;
	uint32_t open;
	int status = lock_node(node, error);

	if (status)
		return status;
	now = boot_time();
	before = node->config->ticked;
	/* before the first call, and after a reboot reset the clock */
	first = !before || before > now;
	if (first)
		node->config->ticked = before = now;
	due = now - before >= INTERVAL;
	if (due)
		node->config->ticked = now;
	open = pass(node, before, now, due);
	if (due)
		age_nat_flows(node);
	if (first || due)
		status = watch_on(node, now - before, error);
	unlock_node(node);
	if (due && !status)
		status = drain_grace_period(node, error);
	return status ? status : (int)open;
}
