/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the library share; the public side is octavia_xdp.h. */
#ifndef OXP_INTERNAL_H
#define OXP_INTERNAL_H

#include <linux/bpf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

enum map {
	MAP_CONFIG,
	MAP_SERVICES_V4,
	MAP_VIPS_V4,
	MAP_SERVICES,
	MAP_TABLES,
	MAP_SERVICE_COUNTERS,
	MAP_MEMBER_COUNTERS,
	MAP_OUTCOMES,
	MAPS
};

extern const char *const map_names[MAPS];

/* Where a health check's result goes. */
struct check_reference {
	uint64_t check;
	uint32_t service;
	uint32_t member;
};

struct oxp_node {
	pthread_mutex_t mutex; /* threads; flock is for processes */
	int lock_fd;
	char *pin_directory;
	int map[MAPS]; /* file descriptors */

	/* the mmapable maps */
	struct node_config *config;
	struct service_entry *entries;
	char *blocks;
	size_t entries_length, blocks_length, block_size;

	/* What follows is derived from the maps and good as long as
	 * config->changes has the value at which it was derived. */
	uint64_t counters_changes;
	uint64_t *counter_free_since; /* epoch; COUNTER_USED */
	uint32_t counter_cursor;
	uint32_t entry_cursor;
	uint64_t checks_changes;
	struct check_reference *checks;
	uint32_t checks_count;
};

#define COUNTER_USED UINT64_MAX

/* node.c */
int lock_node(struct oxp_node *node, char *error);
void unlock_node(struct oxp_node *node);
/* Returns after every packet that was under way at the call has left. */
int grace_period(struct oxp_node *node, char *error);
/* Announces that services or members come or go. */
void begin_change(struct oxp_node *node, bool dirty);
void end_change(struct oxp_node *node);

/* attach.c: loads the program over the pinned maps */
struct forward;
int load_program(struct oxp_node *node, struct forward **out, char *error);

/* error.c */
int failure(char *error, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void catch_libbpf_messages(void);
const char *last_libbpf_message(void);
void forget_libbpf_messages(void);

/* pins.c: paths below the pin directory; the result is to be freed */
char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name);
int open_pins(struct oxp_node *node, char *error);
int create_pins(struct oxp_node *node, const struct oxp_options *options,
		char *error);
void remove_pins(struct oxp_node *node);

/* tables.c */
struct service_entry *entry_of(struct oxp_node *node, uint32_t index);
struct service_block *live_block(struct oxp_node *node, uint32_t index);
struct service_block *scratch_block(struct oxp_node *node, uint32_t index);
bool takes_traffic(const struct block_member *member);
/* Waits, if packets may still read the scratch block of the service. */
int free_scratch(struct oxp_node *node, uint32_t index, char *error);
void compute_slots(struct service_block *block);
void switch_tables(struct oxp_node *node, uint32_t index);

/* workers.c: calls function(argument, 0 … count - 1), in several threads if
 * that is worth it, and returns after the last. */
void for_each(uint32_t count, void (*function)(void *argument, uint32_t piece),
	      void *argument);

/* services.c */
extern const uint8_t v4_mapped[12]; /* ::ffff:0:0/96 */
int key_to_v4(const struct oxp_key *key, struct key_v4 *out, char *error);
/* Index or -ENOENT. */
int find_index(struct oxp_node *node, const struct key_v4 *key);

/* mend.c */
int mend(struct oxp_node *node, char *error);
int count_vip(struct oxp_node *node, __be32 address, int difference);

/* counters.c */
int allocate_counter(struct oxp_node *node, uint32_t *index, char *error);
/* `since`: epoch of the switch that took the member out; 0: nobody saw it */
void release_counter(struct oxp_node *node, uint32_t index, uint64_t since);
int zero_service_counters(struct oxp_node *node, uint32_t index);
int read_service_counters(struct oxp_node *node, uint32_t index,
			  struct oxp_counters *out);
int read_member_counters(struct oxp_node *node, uint32_t index,
			 struct oxp_counters *out);

/* maglev.c */
struct taker {
	const uint8_t *name; /* 16 bytes */
	uint16_t weight;     /* not 0 */
	uint16_t value;      /* what goes into its slots */
};
/* `takers` in the order of their names. */
int maglev_fill(const struct taker *takers, uint32_t count, uint32_t slots,
		uint16_t *out);

#endif
