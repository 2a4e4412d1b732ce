/* SPDX-License-Identifier: Apache-2.0 */
/* The handle, and functions shared by the library's files. */
#ifndef OXH_STATE_H
#define OXH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "host.h"
#include "octavia_xdp_host.h"

enum map {
	MAP_SETTINGS,
	MAP_ENTRIES,
	MAP_PORTS,
	MAP_RULES,
	MAP_FLOWS,
	MAP_HALF_OPEN,
	MAP_FLOW_CLIENTS, /* in the order of the two before */
	MAP_HALF_OPEN_CLIENTS,
	MAPPED, /* number of maps above, which are mapped into memory */
	MAP_KEYS = MAPPED,
	MAP_LISTENERS,
	MAP_NETWORKS,
	MAP_PROXIES,
	MAP_PEERS,
	MAP_SETS,
	MAP_FRAGMENTS,
	MAP_DROPS,
	MAP_COUNTERS,
	MAP_OUTCOMES,
	MAP_TRACED,
	MAPS
};

extern const char *const map_names[MAPS];

struct host;
struct ring_buffer;

struct oxh_host {
	char *folder;
	int lock; /* descriptor of the folder */
	int map[MAPS];
	void *memory[MAPPED];
	size_t size[MAPPED];
	uint32_t count[MAPPED]; /* elements */
	struct host *programs;  /* NULL: not loaded yet */
	struct ring_buffer *ring;
	struct oxh_traced *traced; /* destination of the ring's next packets */
	uint32_t traced_room, traced_count;
};

#define ELEMENTS(host, which, type) ((type *)(host)->memory[which])

static inline struct host_settings *settings_of(struct oxh_host *host)
{
	return host->memory[MAP_SETTINGS];
}

static inline struct host_entry *entries_of(struct oxh_host *host)
{
	return host->memory[MAP_ENTRIES];
}

static inline struct host_port *ports_of(struct oxh_host *host)
{
	return host->memory[MAP_PORTS];
}

static inline struct host_rules *rules_of(struct oxh_host *host)
{
	return host->memory[MAP_RULES];
}

int lock_host(struct oxh_host *host, char *error);
void unlock_host(struct oxh_host *host);

/* Loads the programs over the pinned maps, once. */
int load_programs(struct oxh_host *host, char *error);
int program_of(struct oxh_host *host, uint32_t hook);

/* Frees all flows of an entry in all tables, after its key was removed. */
void forget_flows(struct oxh_host *host, uint32_t place);

/* Call with the lock. 1: there was none. */
int delete_entry(struct oxh_host *host, uint32_t place, char *error);

/* Place of the port; negative: not found. */
int find_port(struct oxh_host *host, const uint8_t id[16]);

/* Moves the listeners of all entries of a port to another tap. */
int move_listeners(struct oxh_host *host, uint32_t host_port, uint32_t from,
		   uint32_t to, char *error);

/* MTU of an interface, at most 65,535; 0: unknown. */
uint16_t read_mtu(uint32_t ifindex);

/* Sets the MTU of all entries. */
void write_reply_mtu(struct oxh_host *host, uint16_t mtu);

/* Prefix length, of 128; negative: too long for its family. */
int bits_of(const struct oxh_network *network);

/* Whether it is ::ffff:a.b.c.d. */
bool is_v4(const struct ip_address *address);

/* Keeps the first bits of 16 bytes and clears the others. */
void mask_address(uint8_t *address, int bits);

/* Time in the units of flows, by the clock that the programs read. */
static inline uint64_t now_in_units(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return ((uint64_t)now.tv_sec * 1000000000 + now.tv_nsec) >> 30 &
	       HOST_FLOW_TIME_MASK;
}

#endif
