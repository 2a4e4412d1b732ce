// SPDX-License-Identifier: Apache-2.0
/*
 * Memory for blocks, ages and networks: maps of one size, created when the
 * others are full, pinned with the other maps and mapped by each process. Lines
 * in use are derived from the entries, so nothing leaks when a process dies.
 */
#include "table/segments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "epoch.h"
#include "error.h"
#include "pins.h"
#include "state.h"

#define WORD_LINES 64
#define SEGMENT_WORDS (SEGMENT_LINES / WORD_LINES)

static char *segment_path(const struct oxp_node *node, uint32_t number)
{
	char name[32];

	snprintf(name, sizeof(name), "segment-%u", number);
	return pin_path(node, node->folder, name);
}

static int map_one(struct oxp_node *node, int map, char *error)
{
	void *memory = mmap(NULL, SEGMENT_SIZE, PROT_READ | PROT_WRITE,
			    MAP_SHARED, map, 0);

	if (memory == MAP_FAILED)
		return failure(error, -errno, "cannot mmap segment %u",
			       node->segments);
	node->segment[node->segments++] = memory;
	return 0;
}

int map_segments(struct oxp_node *node, char *error)
{
	int status = 0;

	while (!status && node->segments < node->config->segments &&
	       node->segments < SEGMENTS_MAX) {
		char *path = segment_path(node, node->segments);
		int map = path ? bpf_obj_get(path) : -ENOMEM;

		free(path);
		if (map < 0)
			return failure(error, map, "cannot open segment %u",
				       node->segments);
		status = map_one(node, map, error);
		close(map);
	}
	return status;
}

void unmap_segments(struct oxp_node *node)
{
	while (node->segments)
		munmap(node->segment[--node->segments], SEGMENT_SIZE);
}

void *at_line(const struct oxp_node *node, uint32_t line)
{
	uint32_t segment = line / SEGMENT_LINES;

	if (!line || segment >= node->segments)
		return NULL;
	return node->segment[segment] +
	       (size_t)(line % SEGMENT_LINES) * LINE_SIZE;
}

static int make_segment(struct oxp_node *node, char *error)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	uint32_t number = node->config->segments;
	int map, status;

	if (number >= SEGMENTS_MAX)
		return failure(error, -ENOSPC, "all %u segments are full",
			       SEGMENTS_MAX);
	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "segment", sizeof(uint32_t),
			     SEGMENT_SIZE, 1, &options);
	if (map < 0)
		return failure(error, map,
			       "cannot make room for tables: %u segments",
			       number);
	status = pin_inner(node, MAP_TABLES, number, map,
			   segment_path(node, number));
	if (status)
		failure(error, status, "cannot pin segment %u", number);
	else
		status = map_one(node, map, error);
	close(map);
	if (!status)
		__atomic_store_n(&node->config->segments, number + 1,
				 __ATOMIC_RELEASE);
	return status;
}

static void mark(struct oxp_node *node, uint64_t first, uint64_t count,
		 bool used)
{
	uint64_t end = first + count;

	while (first < end && first / WORD_LINES < node->line_words) {
		uint64_t bits = end - first, at = first % WORD_LINES, mask;

		if (bits > WORD_LINES - at)
			bits = WORD_LINES - at;
		mask = (bits == WORD_LINES ? ~0ULL : (1ULL << bits) - 1) << at;
		if (used)
			node->line_used[first / WORD_LINES] |= mask;
		else
			node->line_used[first / WORD_LINES] &= ~mask;
		first += bits;
	}
}

static void mark_service(struct oxp_node *node,
			 const struct service_entry *entry)
{
	for (int i = 0; i < 2; i++) {
		if (entry->block[i])
			mark(node, entry->block[i], entry->block_lines[i],
			     true);
		if (entry->ages[i])
			mark(node, entry->ages[i], entry->ages_lines[i], true);
		if (entry->networks[i])
			mark(node, entry->networks[i], entry->networks_lines[i],
			     true);
	}
}

static int fit_bits(struct oxp_node *node)
{
	uint64_t words = (uint64_t)node->config->segments * SEGMENT_WORDS;
	uint64_t *bits;

	if (words <= node->line_words)
		return 0;
	bits = realloc(node->line_used, words * sizeof(*bits));
	if (!bits)
		return -ENOMEM;
	memset(bits + node->line_words, 0,
	       (words - node->line_words) * sizeof(*bits));
	bits[0] |= 1; /* line 0 is never used */
	node->line_used = bits;
	node->line_words = words;
	return 0;
}

static int derive_lines(struct oxp_node *node)
{
	int status = fit_bits(node);

	if (status || node->lines_changes == node->config->changes)
		return status;
	if (node->line_words) {
		memset(node->line_used, 0,
		       node->line_words * sizeof(*node->line_used));
		node->line_used[0] = 1;
	}
	for (uint32_t i = 0; i < node->config->services_max; i++)
		if (node->entries[i].state == ENTRY_USED)
			mark_service(node, &node->entries[i]);
	node->lines_changes = node->config->changes;
	return 0;
}

/* Count the free lines from `line` on; stops when `wanted` are found. */
static uint64_t free_from(const struct oxp_node *node, uint64_t line,
			  uint64_t wanted)
{
	uint64_t found = 0;

	while (found < wanted) {
		uint64_t at = (line + found) % WORD_LINES;
		uint64_t word =
			node->line_used[(line + found) / WORD_LINES] >> at;

		if (word)
			return found + __builtin_ctzll(word);
		found += WORD_LINES - at;
	}
	return found;
}

/* Find the first fit from `line` to `end` within one segment; else return
 * -1. */
static int64_t search(const struct oxp_node *node, uint64_t line, uint64_t end,
		      uint32_t count)
{
	while (line + count <= end) {
		uint64_t left = SEGMENT_LINES - line % SEGMENT_LINES, found;

		if (left < count) {
			line += left;
			continue;
		}
		/* skip full words */
		if (line % WORD_LINES == 0 &&
		    node->line_used[line / WORD_LINES] == ~0ULL) {
			line += WORD_LINES;
			continue;
		}
		found = free_from(node, line, count);
		if (found >= count)
			return line;
		line += found + 1;
	}
	return -1;
}

int64_t allocate_lines(struct oxp_node *node, uint32_t count, char *error)
{
	int status = derive_lines(node);
	uint64_t end = node->line_words * WORD_LINES;
	int64_t line;

	if (status)
		return failure(error, status, "cannot find room for tables");
	if (node->line_cursor > end)
		node->line_cursor = 0;
	line = search(node, node->line_cursor, end, count);
	if (line < 0)
		line = search(node, 0, end, count);
	if (line < 0) {
		status = make_segment(node, error);
		if (!status && (status = fit_bits(node)))
			failure(error, status, "cannot find room for tables");
		if (status)
			return status;
		line = search(node, end, node->line_words * WORD_LINES, count);
	}
	if (line < 0)
		return failure(error, -E2BIG, "%u lines are too many", count);
	mark(node, line, count, true);
	node->line_cursor = line + count;
	return line;
}

void free_lines(struct oxp_node *node, uint32_t first, uint32_t count)
{
	if (first && node->lines_changes == node->config->changes)
		mark(node, first, count, false);
}
