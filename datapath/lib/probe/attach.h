/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROBE_ATTACH_H
#define OXP_PROBE_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Detach the program from all interfaces of the network namespace. Returns the
 * number of interfaces. */
int detach_probes(char *error);

#endif
