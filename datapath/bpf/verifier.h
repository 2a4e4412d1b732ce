/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bounds that the verifier has to see in the code. */
#ifndef OXP_VERIFIER_H
#define OXP_VERIFIER_H

/* value &= mask, where `value` is in these bounds already and clang, which
 * knows that, would leave the instruction out. The verifier forgets bounds of a
 * value that it did not see in a register since, and knows none of what comes
 * from a map. barrier_var() of libbpf, beside this, keeps clang from computing
 * a value in another place or in another way. */
#define MASK(value, mask) asm volatile("%0 &= " #mask : "+r"(value))

#endif
