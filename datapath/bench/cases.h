/* SPDX-License-Identifier: Apache-2.0 */
/* The node on which cases are measured. */
#ifndef OXP_CASES_H
#define OXP_CASES_H

#include "measure.h"

#define SERVICES_MAX 10000
#define MEMBERS 10

extern struct oxp_node *node;
extern int program; /* the node's program */

/* Substring of the names of cases to run; NULL: all. */
extern const char *wanted_names;

/* Prints the result as a line of JSON. By default the traffic is for port 80
 * and is sent. */
void run_case(const char *name, struct traffic traffic);

/* Everything that a node may have to do for every packet is enabled. */
void open_node(uint32_t slots_max, const char *pins);
void close_node(void);

/* Fill in MEMBERS members with addresses from `first` on. */
void members_like(struct oxp_member *out, const char *first);

/* Set a service with `count` such members. */
void set(struct oxp_key key, const struct oxp_service_settings *settings,
	 const char *first, uint32_t count);

/* services.c: each on a node of its own with many services. */
void measure_ports(void);
void measure_vips(void);

#endif
