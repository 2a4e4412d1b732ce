/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that stand for targets of probes, see octavia_xdp.h. */
#ifndef OXP_PROBE_TOKENS_H
#define OXP_PROBE_TOKENS_H

#include <stdint.h>

#include "probe.h"

/* A mark and its target. */
struct probe_entry {
	uint32_t mark;
	struct probe_target target;
};

/* -EEXIST: a token stands for two targets. */
int check_tokens(const struct probe_entry *wanted, uint32_t count, char *error);
/* Removes tokens that are not wanted any more, before their targets go. */
int remove_tokens(int map, const struct probe_entry *wanted, uint32_t count,
		  char *error);
/* Puts those that are wanted, after their targets. */
int put_tokens(int map, const struct probe_entry *wanted, uint32_t count,
	       char *error);

#endif
