/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PARALLEL_H
#define OXP_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* Call function(argument, 0 … count - 1), in several threads if that pays off.
 * Returns after the last call. */
void run_in_parallel(uint32_t count, uint32_t pieces_each,
		     void (*function)(void *argument, uint32_t piece),
		     void *argument);

#endif
