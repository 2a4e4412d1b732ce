/* SPDX-License-Identifier: Apache-2.0 */
/* An open node, and the list of its maps. */
#ifndef OXP_STATE_H
#define OXP_STATE_H

#include <linux/bpf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define MAP_NUMBER(map, ...) MAP_##map,
enum map {
	OXP_MAPS(MAP_NUMBER) MAPS
};

extern const char *const map_names[MAPS];
/* Formats of maps that packets write and an upgrade may hand over; else 0. */
extern const uint32_t map_formats[MAPS];

/* The member that a health check's result applies to. */
struct check_reference {
	uint64_t check;
	uint32_t service;
	uint32_t member;
};

struct oxp_node {
	pthread_mutex_t mutex; /* between threads; flock is between processes */
	int lock_fd;
	char *pin_directory;
	int map[MAPS]; /* file descriptors */
	struct {
		void *memory;
		size_t length;
	} mapping[MAPS]; /* of the maps that are mapped */

	/* the mapped maps, typed */
	struct node_config *config;
	struct uplink_set *uplinks;
	struct bucket_v4 *lookup_v4;
	struct bucket_v6 *lookup_v6;
	struct vip_entry *vips;
	struct service_entry *entries;
	struct watched_set *watched;
	struct nat_pools *nat;
	struct nat_service *nat_services;
	union counters *service_counters, *member_counters; /* all slices */
	struct pending_counts *pending;                     /* of all CPUs */
	/* segments of `tables`, mapped; the folder of their pins */
	char *segment[SEGMENTS_MAX];
	uint32_t segments;
	const char *folder;
	/* used instead of a block where the state is damaged */
	uint64_t nothing[2 * LINE_SIZE / sizeof(uint64_t)];

	/* Derived from the maps. Each group is valid while config->changes
	 * equals the group's first field. */
	uint64_t counters_changes;
	uint64_t *counter_free_since; /* epoch or COUNTER_USED */
	uint32_t counter_cursor;
	uint32_t entry_cursor;
	uint64_t lines_changes;
	uint64_t *line_used; /* bits */
	uint64_t line_words; /* of line_used */
	uint64_t line_cursor;
	uint64_t checks_changes;
	struct check_reference *checks;
	uint32_t checks_count;

	struct {
		uint64_t packets; /* that were watched, at the last tick */
		bool looked;
		uint64_t calm_ms;     /* since the rate was too high for more */
		uint64_t warm_ms;     /* since choices were last added */
		uint64_t parts_ms;    /* since parts of services last grew */
		uint32_t *of_service; /* scratch, by entry */
	} watch;                      /* used by the process that ages slots */

	/* NAT: valid while nat->changes equals `changes`. */
	struct {
		uint32_t changes;
		char *table[NAT_TABLES]; /* mapped on first use */
		uint32_t index_changes;  /* same for the index */
		int index[2];            /* opened on first use; 0: not open */
		uint32_t cursor; /* of ageing: the last address visited */
	} nat_state;

	bool handing_over; /* between oxp_handover_begin() and _end() */
};

#define COUNTER_USED UINT64_MAX

#endif
