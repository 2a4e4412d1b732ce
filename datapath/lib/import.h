/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of an import share. */
#ifndef OXP_IMPORT_H
#define OXP_IMPORT_H

#include "internal.h"
#include "stream.h"

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

bool is_record(const struct record *record, const char *name);
/* The first one of this name, or NULL. */
const struct record *find_record(const struct import *import, const char *name);
/* An element as far as both sides know it, the rest zeroes. */
void element_of(const struct record *record, uint32_t index, void *out,
		size_t size);

/* import_service.c: the service of record `at`. taken: bits of the members'
 * counters that others have. */
int fill_service(struct oxp_node *node, const struct import *import,
		 uint32_t at, bool write_ages, uint64_t *taken, char *error);
/* Ages that packets have set to 0 meanwhile. */
void refresh_ages(struct oxp_node *node, const struct import *import);

#endif
