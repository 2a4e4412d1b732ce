/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PARALLEL_H
#define OXP_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* Calls function(argument, 0 … count - 1), in several threads if
 * that is worth it, and returns after the last. */
void run_in_parallel(uint32_t count, uint32_t pieces_each,
		     void (*function)(void *argument, uint32_t piece),
		     void *argument);

#endif
