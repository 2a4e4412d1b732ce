/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bounds for the verifier. */
#ifndef OXP_VERIFIER_H
#define OXP_VERIFIER_H

/* value &= mask, where clang knows that `value` is in bounds and would drop the
 * instruction. The verifier loses bounds that it has not seen on the register
 * itself, and knows none for values from maps. libbpf's barrier_var() is the
 * counterpart: it keeps clang from moving or rewriting a computation. */
#define MASK(value, mask) asm volatile("%0 &= " #mask : "+r"(value))

#endif
