/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of layout.h, and constants of the loaded program. The library sets
 * the real sizes when it creates the state. */
#ifndef OXP_MAPS_H
#define OXP_MAPS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_helpers.h>

#include "layout.h"
#include "likely.h"
#include "map_types.h"

/*
 * Set by the library before it loads the program. The verifier treats them as
 * constants: it uses them as bounds and removes unreachable code.
 */
/* Number of elements of `flows`, less one. */
const volatile __u32 flow_sets_mask;
/* Number of elements of `lookup_v4` and of `lookup_v6`, less one. */
const volatile __u32 lookup_mask;
/* part_of_slice() the services, and the members. */
const volatile __u32 services_part = 1;
const volatile __u32 members_part = 1;
/* node_config.seed. */
const volatile __u64 node_seed;
/* Whether OXP_NODE_FIB is supported; false compiles route lookups out, and
 * records. */
const volatile bool feature_fib = true;
/* Whether the node has addresses for NAT; false compiles NAT out. */
const volatile bool feature_nat = false;
/* Whether the kernel has bpf_xdp_pull_data(). */
const volatile bool feature_pull;
/* Whether to write ages; false for simulations, which share the tables. */
const volatile bool writes_ages = true;
/* Whether to write NAT flows, likewise. */
const volatile bool writes_nat = true;

/* Whether to record decisions, with feature_fib; true for simulations. */
const volatile bool records = false;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "headers are read and built as little-endian words"
#endif

/* Memory that is mapped piece by piece. */
#define PIECE(name, size)                                                      \
	struct name {                                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY);                              \
		__uint(map_flags, BPF_F_MMAPABLE);                             \
		__uint(max_entries, 1);                                        \
		__uint(key_size, sizeof(__u32));                               \
		__uint(value_size, size);                                      \
	}

/* A section of the program's data: a map of one element that needs no lookup.
 */
struct node_config config SEC(".data.config");

PIECE(segment_map, SEGMENT_SIZE);
PIECE(nat_table_map, NAT_TABLE_SIZE);

#define PIECES(name, entries, piece)                                           \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                      \
		__uint(max_entries, entries);                                  \
		__type(key, __u32);                                            \
		__array(values, struct piece);                                 \
	} name SEC(".maps")

MMAPPED_ARRAY(uplinks, 2, struct uplink_set);
MMAPPED_ARRAY(lookup_v4, 1, struct bucket_v4);
MMAPPED_ARRAY(lookup_v6, 1, struct bucket_v6);
MMAPPED_ARRAY(vips, 1, struct vip_entry);
MMAPPED_ARRAY(services, 1, struct service_entry);
PIECES(tables, SEGMENTS_MAX, segment_map);
MMAPPED_ARRAY(flows, 1, struct flow_set);
MMAPPED_ARRAY(watched, WATCH_LINES, struct watched_set);
MMAPPED_ARRAY(fragments, FRAGMENT_SETS, struct shared_set);
MMAPPED_ARRAY(sources, SOURCE_SETS, struct shared_set);

MMAPPED_ARRAY(nat, 1, struct nat_pools);
MMAPPED_ARRAY(nat_services, 1, struct nat_service);
PIECES(nat_tables, NAT_TABLES, nat_table_map);

struct nat_index_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct nat_key));
	__uint(value_size, sizeof(__u32));
};

/* The live index, and its predecessor while the live one is being filled. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct nat_index_map);
} nat_index SEC(".maps");

/* An element for each CPU, with this number of parts. */
#define SLICES(name, parts)                                                    \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY);                              \
		__uint(map_flags, BPF_F_MMAPABLE);                             \
		__uint(max_entries, 1);                                        \
		__uint(key_size, sizeof(__u32));                               \
		__uint(value_size, (parts) * sizeof(union counters));          \
	} name SEC(".maps")

SLICES(service_counters, SERVICE_PARTS);
SLICES(member_counters, MEMBER_PARTS);
MMAPPED_ARRAY(pending_counts, 1, struct pending_counts);

PER_CPU_ARRAY(icmp_budget, ANSWERS, struct answer_budget);
PER_CPU_ARRAY(nat_scratch, 1, struct nat_scratch);
PER_CPU_ARRAY(reply_counters, 1, struct reply_counters);
PER_CPU_ARRAY(outcomes, OXP_OUTCOMES, struct outcome_counters);

HASH_TABLE(devices, BPF_MAP_TYPE_DEVMAP_HASH, 0, 64, __u32, __u32);
HASH_TABLE(nat_owners, BPF_MAP_TYPE_LRU_HASH, BPF_F_NO_COMMON_LRU, 32768,
	   struct nat_key, struct nat_owner);
HASH_TABLE(quic_servers, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 16384,
	   struct quic_key, __u32);

/* Each map of the list is defined; tests/test_open.c: and no other. */
#define IS_DEFINED(NUMBER, name, format) _Static_assert(sizeof(name), #name);
OXP_MAPS(IS_DEFINED)
#undef IS_DEFINED

/* Returns NULL without a slice, and for an index out of range. */
static __always_inline struct traffic_counters *
traffic_at(union counters *slice, __u32 part, __u64 index)
{
	/* compare the register that is added below */
	barrier_var(index);
	return slice && index < part ? &slice[index].traffic : NULL;
}

/* For this CPU. */
static __always_inline struct traffic_counters *
traffic_in(void *map, __u32 part, __u64 index)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return traffic_at(bpf_map_lookup_elem(map, &cpu), part, index);
}

static __always_inline struct event_counters *
events_of(struct traffic_counters *traffic, __u32 part)
{
	return (void *)((union counters *)traffic + part);
}

/* Of services alone. */
static __always_inline struct rare_counters *
rare_of(struct traffic_counters *traffic, __u32 part)
{
	return (void *)((union counters *)traffic + 2 * part);
}

#endif
