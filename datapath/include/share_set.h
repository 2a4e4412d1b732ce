/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tables in which each owner has a share: in each set, a new element replaces
 * one of the owner with most (bpf/shares.h). A state is one word that CPUs
 * exchange atomically; 0: the place is free.
 *   bits 63-32  time of the last use, units of 2^20 ns of the coarse clock
 *        31-16  owner
 *        15-0   content, as each table defines it
 */
#ifndef OXP_SHARE_SET_H
#define OXP_SHARE_SET_H

#define SHARE_WAYS 8
#define SHARE_UNIT_SHIFT 20
#define SHARE_TIME_SHIFT 32
#define SHARE_OWNER_SHIFT 16
#define SHARE_OWNER (0xffffULL << SHARE_OWNER_SHIFT)
#define SHARE_WHAT 0xffff

#endif
