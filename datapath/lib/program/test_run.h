/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_TEST_RUN_H
#define OXP_PROGRAM_TEST_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

int run_program(int program, struct oxp_frame *frame, char *error);

#endif
