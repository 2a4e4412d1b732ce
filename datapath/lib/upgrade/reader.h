/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_READER_H
#define OXP_UPGRADE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "upgrade/stream.h"

struct record {
	struct stream_record head;
	const char *data;
};

struct import {
	const char *data; /* mapped */
	size_t length;
	struct record *records; /* only known ones */
	uint32_t count, room;
};

/* Read a whole stream and check its structure. */
int read_stream(int fd, struct import **out, char *error);

void free_import(struct import *import);

/* Returns the format of a map according to the stream; 0: none. */
uint32_t imported_format(const struct import *import, const char *name);

bool is_record(const struct record *record, const char *name);

/* Returns the first record of this name, or NULL. */
const struct record *find_record(const struct import *import, const char *name);

/* Copy the fields that both sides know; the rest becomes zero. */
void element_of(const struct record *record, uint32_t index, void *out,
		size_t size);

int cut_short(char *error);

#endif
