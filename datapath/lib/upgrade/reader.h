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
	struct record *records; /* those that are known */
	uint32_t count, room;
};

/* Reads a stream whole and checks its form. */
int read_stream(int fd, struct import **out, char *error);

void free_import(struct import *import);

/* The format that the stream says a map has, 0: none. */
uint32_t imported_format(const struct import *import, const char *name);

bool is_record(const struct record *record, const char *name);

/* The first one of this name, or NULL. */
const struct record *find_record(const struct import *import, const char *name);

/* An element as far as both sides know it, the rest zeroes. */
void element_of(const struct record *record, uint32_t index, void *out,
		size_t size);

int cut_short(char *error);

#endif
