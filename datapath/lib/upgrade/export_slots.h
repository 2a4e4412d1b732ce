/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_EXPORT_SLOTS_H
#define OXP_UPGRADE_EXPORT_SLOTS_H

#include "state.h"

struct writer;

void write_slots(struct writer *writer, const struct service_block *block);

void write_ages(struct writer *writer, const struct service_block *block);

#endif
