/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of an export share. */
#ifndef OXP_EXPORT_H
#define OXP_EXPORT_H

#include <stdio.h>

#include "internal.h"
#include "stream.h"

struct writer {
	struct oxp_node *node;
	FILE *file;
	uint64_t records;
	int status; /* of reading; writing is asked at the end */
};

void begin(struct writer *writer, const char *name, uint32_t flags,
	   uint32_t element, uint64_t count);
void put(struct writer *writer, const void *data, size_t length);

/* export_packets.c */
void write_outcomes(struct writer *writer);
void write_flows(struct writer *writer);

#endif
