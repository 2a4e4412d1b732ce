/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_XDP_FEATURES_H
#define OXP_XDP_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the interface's driver sends frames of several buffers that came in
 * at another one. False where the kernel cannot say: before Linux 6.3 it drops
 * all of them. */
bool sends_split_frames(uint32_t ifindex);

#endif
