// SPDX-License-Identifier: Apache-2.0
/* Targets of marked probes, see probe.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "node/lock.h"
#include "pins.h"
#include "probe.h"
#include "probe/attach.h"
#include "probe/create.h"
#include "probe/maps.h"
#include "probe/tokens.h"
#include "service/validate.h"
#include "state.h"
#include "table/members.h"

static int parse(const struct oxp_probe *wanted, struct probe_entry *out,
		 char *error)
{
	const struct oxp_service_settings settings = {
		.encapsulation = wanted->encapsulation,
		.dscp = wanted->dscp,
		.sid_function = wanted->sid_function,
	};
	struct block_member member;
	int status;

	if ((wanted->mark & OXP_PROBE_MARK_MASK) != OXP_PROBE_MARK)
		return failure(error, -EINVAL,
			       "mark 0x%x is not from 0x%x to 0x%x",
			       wanted->mark, OXP_PROBE_MARK,
			       OXP_PROBE_MARK | ~OXP_PROBE_MARK_MASK);
	status = parse_target(&settings, &wanted->vip, &wanted->member,
			      wanted->port, &wanted->tunnel, &member, error);
	if (status)
		return status;
	*out = (struct probe_entry){
		.mark = wanted->mark,
		.target =
			{
				.outer_type = member.outer_type,
				.dscp = wanted->dscp,
				.encapsulation = wanted->encapsulation,
				.sid_function = wanted->sid_function,
				.port = member.port,
				.tunnel = member.tunnel,
				.key = member.key,
				.keeps_port = member.keeps_port,
				.is_token = wanted->is_token,
			},
	};
	memcpy(out->target.vip, wanted->vip.bytes, sizeof(out->target.vip));
	memcpy(out->target.outer, member.outer, sizeof(out->target.outer));
	memcpy(out->target.member, wanted->member.bytes,
	       sizeof(out->target.member));
	return 0;
}

static int by_mark(const void *a, const void *b)
{
	const struct probe_entry *one = a, *other = b;

	return (one->mark > other->mark) - (one->mark < other->mark);
}

static int parse_all(const struct oxp_probe *probes, uint32_t count,
		     struct probe_entry *out, char *error)
{
	for (uint32_t i = 0; i < count; i++) {
		int status = parse(&probes[i], &out[i], error);

		if (status)
			return status;
	}
	qsort(out, count, sizeof(*out), by_mark);
	for (uint32_t i = 1; i < count; i++)
		if (out[i].mark == out[i - 1].mark)
			return failure(error, -EEXIST,
				       "mark 0x%x is there "
				       "twice",
				       out[i].mark);
	return 0;
}

/* Read the whole table, sorted by mark. */

static int read_all(int map, struct probe_entry **out, uint32_t *count)
{
	uint32_t room = 0, key, *last = NULL;
	struct probe_entry *entries = NULL;

	*count = 0;
	while (!bpf_map_get_next_key(map, last, &key)) {
		if (*count == room) {
			struct probe_entry *more;

			room = room ? 2 * room : 64;
			more = realloc(entries, room * sizeof(*entries));
			if (!more) {
				free(entries);
				return -ENOMEM;
			}
			entries = more;
		}
		entries[*count].mark = key;
		last = &entries[*count].mark;
		if (!bpf_map_lookup_elem(map, &key, &entries[*count].target))
			++*count;
	}
	/* the table changes only under the lock */
	if (*count)
		qsort(entries, *count, sizeof(*entries), by_mark);
	*out = entries;
	return 0;
}

static int write_changes(int map, const struct probe_entry *is,
			 uint32_t is_count, const struct probe_entry *wanted,
			 uint32_t count, char *error)
{
	uint32_t i = 0, j = 0;

	while (i < is_count || j < count) {
		if (j == count ||
		    (i < is_count && is[i].mark < wanted[j].mark)) {
			if (bpf_map_delete_elem(map, &is[i].mark) &&
			    errno != ENOENT)
				return failure(error, -errno,
					       "cannot remove mark 0x%x",
					       is[i].mark);
			i++;
			continue;
		}
		if ((i == is_count || is[i].mark != wanted[j].mark ||
		     memcmp(&is[i].target, &wanted[j].target,
			    sizeof(is[i].target))) &&
		    bpf_map_update_elem(map, &wanted[j].mark, &wanted[j].target,
					BPF_ANY))
			return failure(error, -errno, "cannot set mark 0x%x",
				       wanted[j].mark);
		i += i < is_count && is[i].mark == wanted[j].mark;
		j++;
	}
	return 0;
}

static int set_locked(struct oxp_node *node, const struct probe_entry *wanted,
		      uint32_t count, char *error)
{
	struct probe_maps maps;
	struct probe_entry *is;
	uint32_t is_count;
	int status = open_or_create_probe_maps(node, &maps, error);

	if (status)
		return status;
	status = read_all(maps.targets, &is, &is_count);
	if (status) {
		failure(error, status, "cannot read the targets of probes");
	} else {
		status = remove_tokens(maps.tokens, wanted, count, error);
		if (!status)
			status = write_changes(maps.targets, is, is_count,
					       wanted, count, error);
		if (!status)
			status = put_tokens(maps.tokens, wanted, count, error);
		free(is);
	}
	close_probe_maps(&maps);
	return status;
}

int oxp_probes_set(struct oxp_node *node, const struct oxp_probe *probes,
		   uint32_t count, char *error)
{
	struct probe_entry *wanted;
	int status;

	if (count > OXP_PROBES_MAX)
		return failure(error, -E2BIG, "%u probes, the limit is %d",
			       count, OXP_PROBES_MAX);
	wanted = calloc(count + 1, sizeof(*wanted));
	if (!wanted)
		return failure(error, -ENOMEM, "cannot set %u probes", count);
	status = parse_all(probes, count, wanted, error);
	if (!status)
		status = check_tokens(wanted, count, error);
	if (!status)
		status = lock_node(node, error);
	if (!status) {
		status = set_locked(node, wanted, count, error);
		unlock_node(node);
	}
	free(wanted);
	return status;
}

static void describe(const struct probe_entry *entry, struct oxp_probe *out)
{
	struct block_member again = {.tunnel = entry->target.tunnel,
				     .keeps_port = entry->target.keeps_port,
				     .key = entry->target.key};

	*out = (struct oxp_probe){
		.mark = entry->mark,
		.encapsulation = entry->target.encapsulation,
		.dscp = entry->target.dscp,
		.sid_function = entry->target.sid_function,
		.port = ntohs(entry->target.port),
		.is_token = entry->target.is_token,
	};
	memcpy(again.outer, entry->target.outer, sizeof(again.outer));
	tunnel_of(&again, &out->tunnel);
	memcpy(out->vip.bytes, entry->target.vip, sizeof(out->vip.bytes));
	memcpy(out->member.bytes, entry->target.member,
	       sizeof(out->member.bytes));
}

int oxp_probes_list(struct oxp_node *node, struct oxp_probe *out,
		    uint32_t capacity, char *error)
{
	struct probe_maps maps;
	struct probe_entry *is = NULL;
	uint32_t count = 0;
	int status = lock_node(node, error);

	if (status)
		return status;
	status = open_probe_maps(node, &maps);
	if (!status) {
		status = read_all(maps.targets, &is, &count);
		close_probe_maps(&maps);
	} else if (status == -ENOENT) {
		status = 0;
	}
	unlock_node(node);
	for (uint32_t i = 0; !status && i < count && i < capacity; i++)
		describe(&is[i], &out[i]);
	free(is);
	return status ? failure(error, status,
				"cannot read the targets of probes")
		      : (int)count;
}

int oxp_probe_outcomes_list(struct oxp_node *node, uint64_t *counts,
			    uint32_t capacity, char *error)
{
	int cpus = libbpf_num_possible_cpus();
	struct probe_maps maps;
	uint64_t *values;
	int status = open_probe_maps(node, &maps);

	if (status == -ENOENT)
		return 0;
	values = cpus > 0 ? calloc(cpus, sizeof(*values)) : NULL;
	if (!status && !values)
		status = -ENOMEM;
	for (uint32_t i = 0; !status && i < OXP_PROBE_OUTCOMES && i < capacity;
	     i++) {
		counts[i] = 0;
		if (bpf_map_lookup_elem(maps.outcomes, &i, values))
			status = -errno;
		for (int cpu = 0; !status && cpu < cpus; cpu++)
			counts[i] += values[cpu];
	}
	free(values);
	if (maps.targets >= 0)
		close_probe_maps(&maps);
	return status ? failure(error, status,
				"cannot read the outcomes of probes")
		      : OXP_PROBE_OUTCOMES;
}

int oxp_probes_remove(struct oxp_node *node, char *error)
{
	struct probe_maps maps;
	int status = lock_node(node, error), count;

	if (status)
		return status;
	count = detach_probes(error);
	if (count >= 0) {
		status = open_probe_maps(node, &maps);
		if (!status)
			close_probe_maps(&maps);
		remove_folder(node, PROBES_FOLDER);
	}
	unlock_node(node);
	return count < 0 ? count : count || !status;
}
