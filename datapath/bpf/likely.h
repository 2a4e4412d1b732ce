/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Branch hints, so that the code is laid out for the usual packet. */
#ifndef OXP_LIKELY_H
#define OXP_LIKELY_H

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

#endif
