// SPDX-License-Identifier: Apache-2.0
#include "nat_table/ports.h"

#include "nat_table/tables.h"
#include "state.h"

static void clear_bit(__u64 *word, uint64_t bit)
{
	/* usually it is clear: reading leaves the line shared */
	if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
		__atomic_and_fetch(word, ~bit, __ATOMIC_RELAXED);
}

static struct nat_ports *ports_of(struct oxp_node *node, uint32_t address)
{
	return (struct nat_ports *)nat_table(node, address);
}

/* A port of the word is free. */
static void note_free_word(struct oxp_node *node, uint32_t address,
			   uint32_t word)
{
	struct nat_ports *ports = ports_of(node, address);
	struct nat_group *groups = nat_groups(node);

	if (!ports || !groups)
		return;
	clear_bit(&ports->full[word / 64], 1ULL << word % 64);
	clear_bit(&groups[address / 64].full_addresses, 1ULL << address % 64);
}

void note_free_port(struct oxp_node *node, uint32_t number)
{
	uint32_t address = number >> 16, port = number & 0xffff;
	struct nat_ports *ports = ports_of(node, address);

	if (!ports)
		return;
	clear_bit(&ports->taken[port / 64], 1ULL << port % 64);
	note_free_word(node, address, port / 64);
}

void correct_ports(struct oxp_node *node, uint32_t address, uint32_t word,
		   uint64_t taken)
{
	const struct nat_flow *table = nat_table(node, address);
	struct nat_ports *ports = ports_of(node, address);
	uint64_t said, bit;

	if (!ports)
		return;
	said = __atomic_load_n(&ports->taken[word], __ATOMIC_RELAXED);
	for (uint64_t wrong = said ^ taken; wrong; wrong &= wrong - 1) {
		uint32_t port = word * 64 + __builtin_ctzll(wrong);
		const struct nat_flow *flow = &table[port];

		bit = 1ULL << port % 64;
		/* packets may have changed it since */
		if (__atomic_load_n(&flow->state, __ATOMIC_ACQUIRE) == NAT_FREE)
			clear_bit(&ports->taken[word], bit);
		else
			__atomic_or_fetch(&ports->taken[word], bit,
					  __ATOMIC_RELAXED);
	}
	if (!~taken)
		__atomic_or_fetch(&ports->full[word / 64], 1ULL << word % 64,
				  __ATOMIC_RELAXED);
	/* also if a port was freed just now */
	if (~__atomic_load_n(&ports->taken[word], __ATOMIC_SEQ_CST))
		note_free_word(node, address, word);
}
