/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the wrapper and its users: a run is timed in batches. */
#ifndef OXP_BATCHES_H
#define OXP_BATCHES_H

#define BATCH 256       /* packets */
#define BATCHES_MAX 256 /* kept per run */

#endif
