/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Definitions of maps, and access to words in them, for all programs. */
#ifndef OXP_MAP_TYPES_H
#define OXP_MAP_TYPES_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* For words that the library or another CPU writes concurrently: exactly one
 * read or write. */
#define READ_ONCE(word) (*(const volatile __typeof__(word) *)&(word))
#define WRITE_ONCE(word, value)                                                \
	(*(volatile __typeof__(word) *)&(word) = (value))

#define MMAPPED_ARRAY(name, entries, element)                                  \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY);                              \
		__uint(map_flags, BPF_F_MMAPABLE);                             \
		__uint(max_entries, entries);                                  \
		__type(key, __u32);                                            \
		__type(value, element);                                        \
	} name SEC(".maps")

#define PER_CPU_ARRAY(name, entries, element)                                  \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                       \
		__uint(max_entries, entries);                                  \
		__type(key, __u32);                                            \
		__type(value, element);                                        \
	} name SEC(".maps")

#define HASH_TABLE(name, kind, flags_of_map, entries, key_of, element)         \
	struct {                                                               \
		__uint(type, kind);                                            \
		__uint(map_flags, flags_of_map);                               \
		__uint(max_entries, entries);                                  \
		__type(key, key_of);                                           \
		__type(value, element);                                        \
	} name SEC(".maps")

#endif
