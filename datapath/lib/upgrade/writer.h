/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_WRITER_H
#define OXP_UPGRADE_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "state.h"

struct writer {
	struct oxp_node *node;
	FILE *file;
	uint64_t records;
	int status; /* of reading; write errors are checked later */
};

void begin_record(struct writer *writer, const char *name, uint32_t flags,
		  uint32_t element, uint64_t count);

void put_elements(struct writer *writer, const void *data, size_t length);

void put_number(struct writer *writer, uint16_t number);

#endif
