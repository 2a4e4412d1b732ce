/* SPDX-License-Identifier: Apache-2.0 */
/* A slot and flows that use it while its members change. */
#ifndef OXP_SLOT_MODEL_H
#define OXP_SLOT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Make 2,000 random steps. A flow that goes to another member than its own
 * fails the test. shows_opening: packets show when a flow opens, as in TCP and
 * SCTP. Returns how many packets were checked. */
uint64_t check_flows(bool shows_opening, unsigned int seed);

#endif
