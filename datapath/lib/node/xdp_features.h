/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_XDP_FEATURES_H
#define OXP_XDP_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the interface's driver sends multi-buffer frames that were received
 * on another one. False if the kernel cannot tell: before Linux 6.3 it drops
 * all such frames. */
bool sends_split_frames(uint32_t ifindex);

#endif
