/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_SOURCE_H
#define OXP_UPGRADE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

/* The library that has owned the node until now. */
struct source {
	void *library;
	struct oxp_node *node;
	int (*open)(const struct oxp_options *, struct oxp_node **, char *);
	void (*close)(struct oxp_node *);
	int (*begin)(struct oxp_node *, int *, char *);
	int (*end)(struct oxp_node *, uint8_t, char *);
	int (*export_part)(struct oxp_node *, int, enum oxp_part, char *);
};

/* `from`: as in oxp_upgrade(). */
int load_source(struct source *source, const char *from, int layout,
		char *error);

/* Like read_stream(), through memory. */
int read_source(struct source *source, enum oxp_part part, struct import **out,
		char *error);

#endif
