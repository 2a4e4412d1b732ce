/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tables that many use and each has a share of: in each set of them what is
 * new takes the place of whoever has most (bpf/shares.h). A state is one word,
 * which CPUs exchange; 0: the place is free.
 *   bits 63-32  when it was left or last used, units of 2^20 ns of the coarse
 *               clock
 *        31-16  whose it is
 *        15-0   what it is, as each table has it
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
