/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets whose source no client can have. */
#ifndef OXP_MARTIAN_H
#define OXP_MARTIAN_H

#include "forward/parse.h"
#include "martian_source.h"

static __always_inline bool is_martian(const struct packet *packet)
{
	if (packet->v6)
		return is_martian_v6(packet->source, packet->destination);
	return is_martian_v4(packet->source[3], packet->destination[3]);
}

#endif
