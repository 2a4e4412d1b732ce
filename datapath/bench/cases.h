/* SPDX-License-Identifier: Apache-2.0 */
/* The node that cases are measured on, and their report. */
#ifndef OXP_CASES_H
#define OXP_CASES_H

#include "measure.h"

#define SERVICES_MAX 10000
#define MEMBERS 10

extern struct oxp_node *node;
extern int program; /* the node's */

/* Of the report, which is Markdown on standard output and JSON at `path`,
 * unless that is NULL; `names`: a part of the names of cases that are wanted,
 * NULL: all. Both return a process's exit code. */
int begin_cases(const char *path, const char *names);
int end_cases(const char *path);

/* Returns the median. Where the traffic does not say otherwise it is for port
 * 80, and sent. */
int run_case(const char *name, struct traffic traffic);

void say_ratio(const char *what, int cost, int reference);

/* Everything that a node may be asked to do for all packets is on. */
void open_node(uint32_t slots_max, const char *pins);
void close_node(void);

/* MEMBERS of them, from this address on. */
void members_like(struct oxp_member *out, const char *first);

/* A service with `count` of those. */
void set(struct oxp_key key, const struct oxp_service_settings *settings,
	 const char *first, uint32_t count);

/* services.c: nodes of their own with many services. */
void measure_ports(void);
void measure_vips(void);

#endif
