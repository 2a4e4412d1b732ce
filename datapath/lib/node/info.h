/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_INFO_H
#define OXP_NODE_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

uint64_t bytes_of_map(int map); /* as the kernel accounts for it */

#endif
