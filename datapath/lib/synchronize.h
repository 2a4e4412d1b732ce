/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SYNCHRONIZE_H
#define OXP_SYNCHRONIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns once all packets in progress at the call have finished. */
int synchronize(char *error);

bool can_synchronize(void);

#endif
