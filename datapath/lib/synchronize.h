/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SYNCHRONIZE_H
#define OXP_SYNCHRONIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns after every packet that was under way at the call has left. */
int synchronize(char *error);

bool can_synchronize(void);

#endif
