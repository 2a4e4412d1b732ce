/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a packet to its service, and on to the member that takes its flow. */
#ifndef OXP_SELECT_H
#define OXP_SELECT_H

#include "maps.h"
#include "parse.h"

struct target {
	__u32 service; /* index */
	__u32 counter; /* of the member */
	__be32 address;
};

static __always_inline int is_vip(__be32 address)
{
	return bpf_map_lookup_elem(&vips_v4, &address) != NULL;
}

static __always_inline __u32 *find_service(const struct packet *packet)
{
	struct key_v4 key = {
		.address = packet->destination,
		.port = packet->destination_port,
		.protocol = packet->protocol,
	};

	return bpf_map_lookup_elem(&services_v4, &key);
}

/*
 * The word `active` is read once, and everything after comes from the block
 * that it names: the library does not touch that block until all packets
 * that may have read the word are gone.
 */
static __always_inline enum oxp_outcome
select_member(const struct packet *packet, struct target *target)
{
	const struct service_entry *entry;
	const struct block_member *member;
	const struct service_block *block;
	__u32 hash, slot, chosen, number;

	entry = bpf_map_lookup_elem(&services, &target->service);
	if (!entry)
		return OXP_DROP_INTERNAL;
	number = 2 * target->service +
		 (*(const volatile __u64 *)&entry->active & 1);
	block = bpf_map_lookup_elem(&tables, &number);
	if (!block)
		return OXP_DROP_INTERNAL;

	hash = flow_hash(packet->source, packet->destination,
			 packet->source_port, packet->destination_port,
			 packet->protocol);
	slot = flow_slot(hash, block->slots);
	if (slot >= slots_max)
		return OXP_DROP_INTERNAL;
	chosen = block->slot[slot];
	/* also OXP_NO_MEMBER, which fills the slots when nobody is up */
	if (chosen >= OXP_MEMBERS_MAX)
		return OXP_DROP_NO_MEMBER;
	member = &block->member[chosen];
	target->address = member->address[3];
	target->counter = member->counter;
	return OXP_FORWARDED;
}

#endif
