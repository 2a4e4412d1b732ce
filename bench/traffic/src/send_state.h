/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory shared by the sending program and its process. */
#ifndef OXT_SEND_STATE_H
#define OXT_SEND_STATE_H

#include <stdint.h>

struct send_state {
	uint64_t start; /* CLOCK_MONOTONIC; 0: not yet run */
	uint64_t due;   /* of the next packet, ns / 65536 since the start */
	uint64_t sent;
	uint64_t opened;
	uint64_t refused;
	uint64_t last; /* ns since the start */
	uint64_t tenth_end;
	uint32_t tenth;
	uint32_t done;
	uint32_t stopped; /* set by the process */
	int32_t error;    /* of the link, when it refused */
};

#endif
