/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which outer header a parcel gets; outer.h makes it. */
#ifndef OXP_ENCAP_H
#define OXP_ENCAP_H

#include "forward/selected.h"
#include "outer.h"

static __always_inline bool is_outer_v6_of(const struct parcel *parcel,
					   __u32 way)
{
	return way == WAY_DSCP ? parcel->v6 : is_outer_v6(way);
}

#endif
