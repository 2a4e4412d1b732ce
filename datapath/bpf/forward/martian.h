/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets whose source no client can have. Hypervisors accept packets from LB
 * nodes, whose probes come from there: a packet of anybody else with an outer
 * source of this node must not get to a member.
 */
#ifndef OXP_MARTIAN_H
#define OXP_MARTIAN_H

#include "forward/parse.h"
#include "maps.h"
#include "martian_source.h"

/* Whether the source is one of the node's outer sources. If these are not set,
 * this matches 0.0.0.0 and up, where no client is either. */
static __always_inline bool is_own_v4(__be32 source)
{
	return !((source ^ config.source_v4) & ~config.entropy_v4);
}

static __always_inline bool is_own_v6(const __be32 *source)
{
	const __u64 *from = (const __u64 *)source;
	const __u64 *own = (const __u64 *)config.source_v6;

	if (likely(from[0] != own[0]))
		return false;
	return own[0] && source[2] == config.source_v6[2] &&
	       !((source[3] ^ config.source_v6[3]) & ~config.entropy_v6);
}

static __always_inline bool no_client_v4(__be32 source, __be32 destination)
{
	return is_martian_v4(source, destination) || is_own_v4(source);
}

static __always_inline bool no_client_v6(const __be32 *source,
					 const __be32 *destination)
{
	return is_martian_v6(source, destination) || is_own_v6(source);
}

static __always_inline bool is_martian(const struct packet *packet)
{
	if (packet->v6)
		return no_client_v6(packet->source, packet->destination);
	return no_client_v4(packet->source[3], packet->destination[3]);
}

#endif
