/* SPDX-License-Identifier: Apache-2.0 */
/* What the wrapper and who measures by it share: a run is timed in batches. */
#ifndef OXP_BATCHES_H
#define OXP_BATCHES_H

#define BATCH 256       /* packets */
#define BATCHES_MAX 256 /* that are kept of a run */

#endif
