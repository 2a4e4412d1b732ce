/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of an upgrade share. */
#ifndef OXP_UPGRADE_H
#define OXP_UPGRADE_H

#include "internal.h"

/* The library that has the node until now. */
struct source {
	void *library;
	struct oxp_node *node;
	int (*open)(const struct oxp_options *, struct oxp_node **, char *);
	void (*close)(struct oxp_node *);
	int (*begin)(struct oxp_node *, int *, char *);
	int (*export)(struct oxp_node *, int, char *);
	int (*end)(struct oxp_node *, uint8_t, char *);
	/* NULL: it is older than this function */
	int (*export_part)(struct oxp_node *, int, enum oxp_part, char *);
};

/* upgrade_source.c. `from`: as in oxp_upgrade() */
int load_source(struct source *source, const char *from, int layout,
		char *error);
/* As read_stream(), through memory. */
int read_source(struct source *source, enum oxp_part part, struct import **out,
		char *error);

/* upgrade_report.c */
int report_interfaces(struct oxp_node *node, struct forward *object,
		      struct oxp_upgrade *out, char *error);
void report_services(struct oxp_node *node, struct oxp_upgrade *out);

#endif
