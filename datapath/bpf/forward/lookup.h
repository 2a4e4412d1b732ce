/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hash tables of layout.h. Functions return the key's value, or NOT_FOUND.
 * Nearly every search ends in the home bucket; the others are out of line.
 */
#ifndef OXP_LOOKUP_H
#define OXP_LOOKUP_H

#include "maps.h"

#define NOT_FOUND (-1LL)

static __always_inline __s64 search_v4(const struct bucket_v4 *bucket,
				       __u64 key)
{
#pragma unroll
	for (int way = 0; way < BUCKET_WAYS; way++)
		if (READ_ONCE(bucket->key[way]) == key)
			return READ_ONCE(bucket->value[way]);
	return NOT_FOUND;
}

/* Searches the buckets after `number`, the key's home. */
__noinline __s64 search_further_v4(__u64 key, __u32 number)
{
	const struct bucket_v4 *bucket;
	__s64 value;

	for (int probe = 1; probe < HASH_PROBES; probe++) {
		__u32 next = (number + probe) & lookup_mask;

		bucket = bpf_map_lookup_elem(&lookup_v4, &next);
		if (!bucket)
			break;
		value = search_v4(bucket, key);
		if (value != NOT_FOUND || !READ_ONCE(bucket->overflow))
			return value;
	}
	return NOT_FOUND;
}

static __always_inline __s64 find_v4(__be32 address, __be16 port, __u8 protocol)
{
	__u64 key = lookup_key_v4(address, port, protocol);
	__u32 number = bucket_of_v4(key, node_seed) & lookup_mask;
	const struct bucket_v4 *bucket;
	__s64 value;

	bucket = bpf_map_lookup_elem(&lookup_v4, &number);
	if (!bucket)
		return NOT_FOUND;
	value = search_v4(bucket, key);
	if (unlikely(value == NOT_FOUND && READ_ONCE(bucket->overflow)))
		return search_further_v4(key, number);
	return value;
}

struct key_v6 {
	__u64 address[2];
	__u32 ports;
	__u32 reserved;
};

static __always_inline __s64 search_v6(const struct bucket_v6 *bucket,
				       const struct key_v6 *key)
{
#pragma unroll
	for (int way = 0; way < BUCKET_WAYS; way++) {
		const __u64 *address = (const __u64 *)bucket->address[way];

		if (READ_ONCE(bucket->ports[way]) == key->ports &&
		    address[0] == key->address[0] &&
		    address[1] == key->address[1])
			return READ_ONCE(bucket->value[way]);
	}
	return NOT_FOUND;
}

__noinline __s64 search_further_v6(const struct key_v6 *key, __u32 number)
{
	const struct bucket_v6 *bucket;
	__s64 value;

	if (!key)
		return NOT_FOUND;
	for (int probe = 1; probe < HASH_PROBES; probe++) {
		__u32 next = (number + probe) & lookup_mask;

		bucket = bpf_map_lookup_elem(&lookup_v6, &next);
		if (!bucket)
			break;
		value = search_v6(bucket, key);
		if (value != NOT_FOUND || !READ_ONCE(bucket->overflow))
			return value;
	}
	return NOT_FOUND;
}

/* `address` has 16 bytes, 2-byte aligned. */
static __always_inline __s64 find_v6(const __be32 *address, __be16 port,
				     __u8 protocol)
{
	__u32 ports = lookup_ports(port, protocol);
	__u32 number = bucket_of_v6(address, ports, node_seed) & lookup_mask;
	const __u64 *words = (const __u64 *)address;
	struct key_v6 key = {{words[0], words[1]}, ports, 0};
	const struct bucket_v6 *bucket;
	__s64 value;

	bucket = bpf_map_lookup_elem(&lookup_v6, &number);
	if (!bucket)
		return NOT_FOUND;
	value = search_v6(bucket, &key);
	if (unlikely(value == NOT_FOUND && READ_ONCE(bucket->overflow))) {
		struct key_v6 copy = key;

		return search_further_v6(&copy, number);
	}
	return value;
}

#endif
