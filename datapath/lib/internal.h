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
	MAP_UPLINKS,
	MAP_DEVICES,
	MAP_LOOKUP_V4,
	MAP_LOOKUP_V6,
	MAP_VIPS,
	MAP_SERVICES,
	MAP_TABLES,
	MAP_AGES,
	MAP_FLOWS,
	MAP_FRAGMENTS,
	MAP_ALLOWED_V4,
	MAP_ALLOWED_V6,
	MAP_SOURCES,
	MAP_QUIC_SERVERS,
	MAP_ICMP_BUDGET,
	MAP_SERVICE_COUNTERS,
	MAP_MEMBER_COUNTERS,
	MAP_OUTCOMES,
	MAPS
};

struct forward; /* of forward.skel.h */

extern const char *const map_names[MAPS];

/* Where a health check's result goes. */
struct check_reference {
	uint64_t check;
	uint32_t service;
	uint32_t member;
};

/* One network of a set, as it is in the maps. */
struct allowed {
	uint32_t set;
	struct oxp_network network;
};

struct oxp_node {
	pthread_mutex_t mutex; /* threads; flock is for processes */
	int lock_fd;
	char *pin_directory;
	int map[MAPS]; /* file descriptors */
	struct {
		void *memory;
		size_t length;
	} mapping[MAPS]; /* of those that are mapped */

	/* the mapped ones by their types */
	struct node_config *config;
	struct uplink_set *uplinks;
	struct bucket_v4 *lookup_v4;
	struct bucket_v6 *lookup_v6;
	struct vip_entry *vips;
	struct service_entry *entries;
	char *blocks;
	uint8_t *ages;
	size_t block_size, ages_size;

	/* What follows is derived from the maps and good as long as
	 * config->changes has the value at which it was derived. */
	uint64_t counters_changes;
	uint64_t *counter_free_since; /* epoch; COUNTER_USED */
	uint32_t counter_cursor;
	uint32_t entry_cursor;
	uint64_t checks_changes;
	struct check_reference *checks;
	uint32_t checks_count;
	/* The same for config->allowed_changes: all networks, sorted. */
	uint64_t allowed_changes;
	struct allowed *allowed;
	uint32_t allowed_count, allowed_room;

	bool handing_over; /* between oxp_handover_begin() and _end() */
};

#define COUNTER_USED UINT64_MAX

/* node.c */
/* A node that has opened nothing yet; oxp_close() frees it. */
struct oxp_node *new_node(const struct oxp_options *options, char *error);
int prepare_node(struct oxp_node *node, char *error);
int lock_node(struct oxp_node *node, char *error);
void unlock_node(struct oxp_node *node);
/* Returns after every packet that was under way at the call has left. */
int synchronize(char *error);
bool can_synchronize(void);
/* The same for what was switched until now; config->waited says so. */
int grace_period(struct oxp_node *node, char *error);
/* Marks something that is about to be switched. */
void stamp(struct oxp_node *node, __u64 *switched);
/* Waits without the lock, if anything was switched since the last wait, so
 * that the next update does not have to. */
int settle(struct oxp_node *node, char *error);
/* Announces that services or members come or go. */
void begin_change(struct oxp_node *node, bool dirty);
void end_change(struct oxp_node *node);

/* attach.c: loads the program over the pinned maps */
void configure_program(struct forward *object, const struct node_config *config,
		       uint32_t flags);
int load_program(struct oxp_node *node, uint32_t flags, struct forward **out,
		 char *error);
/* Whether an interface's program is what load_program() made: the same
 * instructions on the same maps, with the same constants. */
bool is_same_program(struct oxp_node *node, int link, struct forward *object);
/* Attached programs that use other maps are replaced by this library's. */
int mend_programs(struct oxp_node *node, char *error);

/* links.c */
/* The path is to be freed. */
char *link_path(const struct oxp_node *node, uint32_t ifindex);
/* The pinned link of an interface that is there, or -ENOENT. */
int open_link(const char *path, uint32_t ifindex);
/* Calls one(node, link, ifindex, argument) with the pinned links of all
 * interfaces that are still there, until it returns other than 0. What keeps
 * it from calling, it says in `error`. */
int for_each_link(struct oxp_node *node,
		  int (*one)(struct oxp_node *node, int link, uint32_t ifindex,
			     void *argument),
		  void *argument, char *error);
int id_of_link(int link, uint32_t *id);
/* A descriptor. */
int program_of_link(int link);
/* 0 also if the interface has just gone. */
int replace_program(int link, int program, uint32_t ifindex, char *error);
/* Gives this program to all links that have another one; all or none. */
int replace_programs(struct oxp_node *node, struct forward *object,
		     char *error);
/* A descriptor of the program that an interface has now, its id in *id;
 * -ENOENT if there is none. */
int attached_program(struct oxp_node *node, uint32_t *id);

/* error.c */
int failure(char *error, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Another one that followed, behind what is there. */
void add_failure(char *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Of libbpf's load functions. */
int load_failure(char *error, int status, const char *what);
void catch_libbpf_messages(void);
const char *last_libbpf_message(void);
void forget_libbpf_messages(void);

/* pins.c: paths below the pin directory; the result is to be freed */
char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name);
void remove_folder(const struct oxp_node *node, const char *folder);
int rename_folder(const struct oxp_node *node, const char *from,
		  const char *to);
void remove_pins(struct oxp_node *node);
int open_pins(struct oxp_node *node, const char *folder, char *error);
/* Puts the folder in the place of `maps`, which gets its name, in one step. */
int exchange_folder(const struct oxp_node *node, const char *folder);
/* Whether `maps` are those that the node has open; or a negative errno. */
int is_in_force(struct oxp_node *node);
/* Layout of what is pinned; -ENOENT: nothing. */
int pinned_layout(const char *pin_directory);
void unmap_all(struct oxp_node *node);

/* create.c */
int create_pins(struct oxp_node *node, const struct oxp_options *options,
		char *error);
void size_maps(struct forward *object, const struct node_config *config);
int draw_seed(uint64_t *seed);
/* Sizes for a state; the seed is the caller's. */
int size_state(const struct oxp_options *options, struct node_config *config,
	       char *error);
/* Maps and a program on them, pinned in `maps-new`. adopted[]: descriptors of
 * maps that are used in place of new ones, or -1. */
int make_maps(const struct oxp_node *node, const struct node_config *config,
	      const int adopted[MAPS], struct forward **out, char *error);

/* address.c */
extern const uint8_t v4_mapped[12]; /* ::ffff:0:0/96 */
bool is_v4(const void *address);
bool is_zero(const void *address); /* ::, ::ffff:0.0.0.0 */
/* Text of an address, "key" of a service, in a buffer of the thread. */
const char *address_text(const void *address);
const char *key_text(const void *vip, __be16 port, uint8_t protocol);

/* lookup.c: `place` is BUCKET_WAYS * bucket + way, as in struct service_entry
 */
struct lookup_key {
	bool v6;
	uint32_t ports;
	__be32 address[4]; /* IPv4 in the last one */
};
struct lookup_key lookup_key(const void *vip, __be16 port, uint8_t protocol);
/* -ENOENT */
int64_t lookup_find(struct oxp_node *node, const struct lookup_key *key);
/* -ENOSPC */
int64_t lookup_insert(struct oxp_node *node, const struct lookup_key *key,
		      uint32_t value);
/* The place may be used again after a grace period. */
void lookup_erase(struct oxp_node *node, const struct lookup_key *key,
		  uint32_t place);
bool lookup_holds(struct oxp_node *node, const struct lookup_key *key,
		  uint32_t place);
uint32_t *lookup_value(struct oxp_node *node, bool v6, uint32_t place);
uint32_t lookup_places(const struct oxp_node *node);
/* Removes all keys but those at places with a bit in `keep`, and corrects
 * the overflow counts. */
int lookup_mend(struct oxp_node *node, const uint64_t *keep[2]);
/* Buckets whose overflow count is wrong; the number of keys in *keys. */
int lookup_check(struct oxp_node *node, uint32_t *keys);

/* services.c */
void make_entry(struct oxp_node *node, uint32_t index,
		const struct oxp_key *key);
/* Enters VIP and key: packets see the service's first block. */
int publish(struct oxp_node *node, uint32_t index, char *error);

/* vips.c */
/* Finds or makes the entry of a service's VIP and counts the service in. */
int enter_vip(struct oxp_node *node, uint32_t index, char *error);
/* What follows from all used entries but those with a bit in `gone` (may be
 * NULL): numbers of services and ports. To be freed; NULL: no memory. */
struct vip_entry *count_vips(struct oxp_node *node, const uint64_t *gone);
/* Writes that, and removes the keys of VIPs without services. */
int refresh_vips(struct oxp_node *node, const uint64_t *gone);

/* tables.c */
struct service_entry *entry_of(struct oxp_node *node, uint32_t index);
struct lookup_key entry_key(const struct service_entry *entry);
/* Index or -ENOENT. */
int find_service(struct oxp_node *node, const struct lookup_key *key);
struct service_block *block_of(struct oxp_node *node, uint32_t number);
uint32_t live_number(struct oxp_node *node, uint32_t index);
struct service_block *live_block(struct oxp_node *node, uint32_t index);
struct service_block *scratch_block(struct oxp_node *node, uint32_t index);
/* Of member[]; no more than there are, also where the state is damaged. */
uint32_t places_of(const struct service_block *block);
uint8_t *ages_of(struct oxp_node *node, uint32_t index);
uint16_t *before_of(const struct oxp_node *node, struct service_block *block);
/* Waits, if packets may still read the scratch block of the service. */
int free_scratch(struct oxp_node *node, uint32_t index, char *error);
void switch_tables(struct oxp_node *node, uint32_t index);
/* Everything but generation and slots. */
void copy_description(struct service_block *to,
		      const struct service_block *from);

/* members.c */
/* Sets the computed flags; returns how many take flows. */
uint32_t compute_flags(struct block_member *members, uint32_t places);
/* Indices of the present members in the order of their addresses. */
uint32_t sorted_members(const struct service_block *block, uint16_t *out);
/* Gives the members of `draft`, places 0 on, the places that they have in
 * `old` or free ones, and what stays of their state. new_places[]: bits of
 * those that were not there. */
void place_members(struct service_block *draft, const struct service_block *old,
		   uint64_t new_places[4]);

/* rebuild.c: the tables of many services at once */
struct rebuild_job {
	uint32_t index; /* of the service */
	struct service_block *next;
	const struct service_block *old; /* NULL: it is new */
	/* rebuild.c's own */
	uint64_t hash;
	uint32_t group;
};
/* Computes the next tables of all jobs, in an order of its own, and calls
 * finished() for each job, in this thread. */
int rebuild(struct oxp_node *node, struct rebuild_job *jobs, uint32_t count,
	    void (*finished)(void *context, const struct rebuild_job *job),
	    void *context);
/* The owner of each slot of a block, by its members. */
int compute_owners(const struct service_block *block, uint16_t *out);

/* transition.c */
struct slot_state {
	uint16_t slot, before; /* as in struct service_block */
};
/* stays[SLOT_STAYS(m)]: member m of the old block is in the new one and keeps
 * its flows; false for SLOT_NOBODY. */
#define SLOT_STAYS(member) ((member) & 511)
struct slot_state slot_transition(struct slot_state old, uint16_t owner,
				  const bool *stays, bool unknown_at_before);
/* Fills slots, `before`, open and learning of `next`. owner_of[] translates
 * from what `table` has to indices of members. */
void transition(struct oxp_node *node, uint32_t index,
		struct service_block *next, const struct service_block *old,
		const uint16_t *table, const uint16_t *owner_of);

/* workers.c: calls function(argument, 0 … count - 1), in several threads if
 * that is worth it, and returns after the last. */
void for_each(uint32_t count, uint32_t pieces_each,
	      void (*function)(void *argument, uint32_t piece), void *argument);

/* settings.c: checks what a caller wants; members come in any order, from
 * place 0 on, with the flags that it says */
int parse_wanted(struct oxp_node *node, const struct oxp_wanted_service *wanted,
		 struct service_block *draft, char *error);
int check_key(const struct oxp_key *key, char *error);
/* How packets to a VIP get to a member, by the settings' encapsulation. */
int parse_target(const struct oxp_service_settings *settings,
		 const struct oxp_address *vip,
		 const struct oxp_address *address, struct block_member *out,
		 char *error);

/* allowed.c */
/* Sorted and masked, freed by the caller; NULL if there are none. */
int parse_allowed(const struct oxp_service_settings *settings,
		  struct oxp_network **out, uint32_t *count, char *error);
/* The networks of a set; their number. */
int read_allowed(struct oxp_node *node, uint32_t set,
		 const struct allowed **out, char *error);
int write_allowed(struct oxp_node *node, uint32_t set,
		  const struct oxp_network *networks, uint32_t count,
		  char *error);
/* Calls one(node, set) for each network of each set; how often it returned
 * true. */
int count_allowed(struct oxp_node *node,
		  bool (*one)(struct oxp_node *node, uint32_t set),
		  char *error);
/* Removes all sets for which keep(node, set) is false. */
int mend_allowed(struct oxp_node *node,
		 bool (*keep)(struct oxp_node *node, uint32_t set),
		 char *error);

/* quic.c */
int write_quic_servers(struct oxp_node *node, uint32_t index,
		       const struct service_block *old,
		       const struct service_block *next, char *error);
uint32_t quic_server_id(const struct oxp_address *member);
bool quic_servers_differ(const struct service_block *old,
			 const struct service_block *next);
int mend_quic_servers(struct oxp_node *node, char *error);
int check_quic_servers(const struct service_block *draft, char *error);
/* Whether exactly the members' keys are there; total number in *count. */
bool quic_servers_right(struct oxp_node *node, uint32_t index, uint32_t *count);

/* mend.c */
int mend(struct oxp_node *node, char *error);

/* counters.c */
/* Finds out who owns which, unless that is known: from the blocks of all used
 * entries, so not while one is being made. */
void derive_counters(struct oxp_node *node);
/* `since`: epoch of the switch that took the member out; 0: nobody saw it */
void release_counter(struct oxp_node *node, uint32_t index, uint64_t since);
/* Those of the draft's members with a bit in new_places[]; all or none. */
int allocate_new_counters(struct oxp_node *node, struct service_block *draft,
			  const uint64_t new_places[4], char *error);
void release_new_counters(struct oxp_node *node,
			  const struct service_block *draft,
			  const uint64_t new_places[4], uint32_t places);
/* Those of members that are not in the next block, after the switch. */
void release_old_counters(struct oxp_node *node,
			  const struct service_block *old,
			  const struct service_block *next);
int zero_service_counters(struct oxp_node *node, uint32_t index);
/* Of a map as MAP_OUTCOMES. */
int read_outcome(int map, uint32_t outcome, struct oxp_outcome_counters *out);
int read_service_counters(struct oxp_node *node, uint32_t index,
			  struct oxp_counters *out);
/* Those of services 0 … count - 1. */
int read_all_service_counters(struct oxp_node *node, uint32_t count,
			      struct oxp_counters *out);
int read_all_member_counters(struct oxp_node *node, uint32_t count,
			     struct oxp_counters *out);
int read_member_counters(struct oxp_node *node, uint32_t index,
			 struct oxp_counters *out);

/* show.c: locks the node and finds a service; its index, or an error, then
 * unlocked */
int lock_service(struct oxp_node *node, const struct oxp_key *key, char *error);

/* run.c */
int run_program(int program, struct oxp_frame *frame, char *error);

/* handover.c: maps that packets write, and may be handed over */
struct packet_map {
	enum map map;
	const char *name; /* as the stream calls its format */
	uint32_t format;
};
#define PACKET_MAPS 8
extern const struct packet_map packet_maps[PACKET_MAPS];

/* inspect.c: under the lock */
void read_node_settings(struct oxp_node *node, struct oxp_node_settings *out);
uint32_t read_uplinks(struct oxp_node *node, struct oxp_uplink *out,
		      uint32_t capacity, struct oxp_choices *choices);

/* uplinks.c, node_settings.c: into a state that no packet reads yet */
int write_first_uplinks(struct oxp_node *node, const struct oxp_uplink *uplinks,
			uint32_t count, const struct oxp_choices *choices,
			char *error);
int write_first_settings(struct oxp_node *node,
			 const struct oxp_node_settings *settings, char *error);

/* import.c */
struct import;
/* Reads a stream whole and checks its form. */
int read_stream(int fd, struct import **out, char *error);
void free_import(struct import *import);
int imported_sizes(struct import *import, struct node_config *config,
		   char *error);
/* The format that the stream says a map has, 0: none. */
uint32_t imported_format(const struct import *import, const char *name);
/* Fills an empty node with what packets do not write, and their ages of
 * slots. adopted: as in make_maps() */
int fill_node(struct oxp_node *node, const struct import *import,
	      const int adopted[MAPS], char *error);
/* Flows of a map that is not adopted. What packets have remembered in the new
 * one meanwhile stays. */
int fill_flows(struct oxp_node *node, const struct import *import, char *error);
/* Ages and counters of maps that are not adopted, when no packet uses the old
 * ones any more. */
int fill_counters(struct oxp_node *node, const struct import *import,
		  const int adopted[MAPS], char *error);

/* maglev.c */
struct taker {
	const uint8_t *name; /* 16 bytes */
	uint16_t weight;     /* not 0 */
	uint16_t value;      /* what goes into its slots, not OXP_NO_MEMBER */
};
/* Where a member's permutation begins and how it goes on. */
void maglev_hashes(const uint8_t *name, uint32_t slots, uint32_t *offset,
		   uint32_t *skip);
bool is_prime(uint32_t number);
/* `takers` in the order of their names. */
int maglev_fill(const struct taker *takers, uint32_t count, uint32_t slots,
		uint16_t *out);

/* flow.c: what decides on a packet's slot, in the order of the packet's
 * bytes */
struct selecting {
	__be32 source[4];
	__be32 destination[4];
	uint32_t ports;
	uint8_t protocol;
	bool v4;
};
struct selecting selecting_of(const struct service_block *block,
			      const struct oxp_packet *packet);
uint64_t selecting_hash(const struct selecting *flow, uint64_t seed);
uint32_t slot_of_packet(const struct service_block *block,
			const struct oxp_packet *packet);

/* simulation.c */
uint64_t coarse_time(void); /* ns, as bpf_ktime_get_coarse_ns() */

/* show.c */
uint64_t bytes_of_map(int map); /* as the kernel accounts for it */

/* tick.c */
uint64_t boot_time(void); /* ms */

#endif
