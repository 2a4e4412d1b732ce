/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_CLOCK_H
#define OXP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t coarse_time(void); /* ns, as bpf_ktime_get_coarse_ns() */

uint64_t boot_time(void); /* ms */

#endif
