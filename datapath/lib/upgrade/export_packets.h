/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_EXPORT_PACKETS_H
#define OXP_UPGRADE_EXPORT_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct writer;

void write_outcomes(struct writer *writer);

void write_flows(struct writer *writer);

#endif
