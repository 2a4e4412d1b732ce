// SPDX-License-Identifier: Apache-2.0
/* A stream (stream.h), read whole, and the state that it describes. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "import.h"

/* Mapped and not read: it may be as big as the tables. */
static int map_file(int fd, struct import *import)
{
	struct stat file;
	void *data;

	if (fstat(fd, &file))
		return -errno;
	if (!file.st_size)
		return 0;
	data = mmap(NULL, file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	import->data = data;
	import->length = file.st_size;
	return 0;
}

static const char *const known[] = {
	RECORD_SIZES,    RECORD_NODE,     RECORD_UPLINKS, RECORD_CHOICES,
	RECORD_FORMATS,  RECORD_OUTCOMES, RECORD_SERVICE, RECORD_MEMBERS,
	RECORD_NETWORKS, RECORD_SLOTS,    RECORD_BEFORE,  RECORD_AGES,
	RECORD_FLOWS,    RECORD_END,
};

static bool is_known(const struct record *record)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is_record(record, known[i]))
			return true;
	return false;
}

static int add_record(struct import *import, const struct record *record,
		      char *error)
{
	struct record *again;

	if (!is_known(record)) {
		if (!(record->head.flags & STREAM_MANDATORY))
			return 0;
		return failure(error, -EPROTONOSUPPORT,
			       "the state has \"%.16s\", which this library "
			       "does not know and must not ignore",
			       record->head.name);
	}
	if (import->count == import->room) {
		import->room = import->room ? 2 * import->room : 64;
		again = realloc(import->records, import->room * sizeof(*again));
		if (!again)
			return failure(error, -ENOMEM, "cannot read the state");
		import->records = again;
	}
	import->records[import->count++] = *record;
	return 0;
}

static int cut_short(char *error)
{
	return failure(error, -EBADMSG, "the state is cut short or damaged");
}

static int split(struct import *import, char *error)
{
	size_t at = sizeof(STREAM_MAGIC), size;
	struct record record = {};
	struct stream_end end;
	uint64_t records = 0;
	int status;

	if (import->length < at || memcmp(import->data, STREAM_MAGIC, at))
		return failure(error, -EPROTO,
			       "this is no state of version 1 of the stream");
	do {
		if (import->length - at < sizeof(record.head))
			return cut_short(error);
		memcpy(&record.head, import->data + at, sizeof(record.head));
		at += sizeof(record.head);
		record.data = import->data + at;
		if (__builtin_mul_overflow(record.head.element,
					   record.head.count, &size) ||
		    size > import->length - at || !record.head.element ||
		    record.head.count > UINT32_MAX)
			return cut_short(error);
		at += size;
		status = add_record(import, &record, error);
		if (status)
			return status;
		records++;
	} while (!is_record(&record, RECORD_END));
	element_of(&record, 0, &end, sizeof(end));
	return end.records == records - 1 ? 0 : cut_short(error);
}

bool is_record(const struct record *record, const char *name)
{
	return !strncmp(record->head.name, name, sizeof(record->head.name));
}

void element_of(const struct record *record, uint32_t index, void *out,
		size_t size)
{
	size_t there = record->head.element;

	memset(out, 0, size);
	if (index < record->head.count)
		memcpy(out, record->data + index * there,
		       there < size ? there : size);
}

const struct record *find_record(const struct import *import, const char *name)
{
	for (uint32_t i = 0; i < import->count; i++)
		if (is_record(&import->records[i], name))
			return &import->records[i];
	return NULL;
}

int read_stream(int fd, struct import **out, char *error)
{
	struct import *import = calloc(1, sizeof(*import));
	int status = import ? map_file(fd, import) : -ENOMEM;

	if (status)
		failure(error, status, "cannot read the state");
	else
		status = split(import, error);
	if (status)
		free_import(import);
	else
		*out = import;
	return status;
}

void free_import(struct import *import)
{
	if (!import)
		return;
	free(import->records);
	if (import->data)
		munmap((void *)import->data, import->length);
	free(import);
}

uint32_t imported_format(const struct import *import, const char *name)
{
	const struct record *record = find_record(import, RECORD_FORMATS);
	struct stream_format one;

	for (uint32_t i = 0; record && i < record->head.count; i++) {
		element_of(record, i, &one, sizeof(one));
		if (!strncmp(one.name, name, sizeof(one.name)))
			return one.format;
	}
	return 0;
}

int imported_sizes(struct import *import, struct node_config *config,
		   char *error)
{
	const struct record *sizes = find_record(import, RECORD_SIZES);
	const struct record *node = find_record(import, RECORD_NODE);
	struct oxp_options options = {};
	struct stream_sizes there;
	struct stream_node settings;
	int status;

	if (!sizes || !node)
		return cut_short(error);
	element_of(sizes, 0, &there, sizeof(there));
	element_of(node, 0, &settings, sizeof(settings));
	options.services_max = there.services_max;
	options.members_max = there.members_max;
	options.slots_max = there.slots_max;
	options.flows_max = there.flows_max;
	status = size_state(&options, config, error);
	if (status)
		return status;
	config->seed = there.seed;
	config->ticked = there.ticked;
	config->idle_timeout_max = there.idle_timeout_max;
	config->flags = settings.flags; /* the program depends on them */
	return 0;
}

static int fill_settings(struct oxp_node *node, const struct import *import,
			 char *error)
{
	const struct record *record = find_record(import, RECORD_NODE);
	struct oxp_node_settings settings = {};
	struct stream_node there;

	element_of(record, 0, &there, sizeof(there));
	memcpy(settings.source_v4.bytes, there.source_v4, 16);
	memcpy(settings.source_v6.bytes, there.source_v6, 16);
	settings.entropy_v4 = there.entropy_v4;
	settings.entropy_v6 = there.entropy_v6;
	settings.flags = there.flags;
	settings.icmp_rate = there.icmp_rate;
	return write_first_settings(node, &settings, error);
}

static int fill_uplinks(struct oxp_node *node, const struct import *import,
			char *error)
{
	const struct record *record = find_record(import, RECORD_UPLINKS);
	const struct record *chosen = find_record(import, RECORD_CHOICES);
	struct oxp_uplink uplinks[OXP_UPLINKS_MAX] = {};
	struct stream_choices there;
	struct oxp_choices choices;

	if (!record)
		return cut_short(error);
	if (record->head.count > OXP_UPLINKS_MAX)
		return failure(error, -E2BIG,
			       "the state has %llu uplinks, the limit is %d",
			       (unsigned long long)record->head.count,
			       OXP_UPLINKS_MAX);
	for (uint32_t i = 0; i < record->head.count; i++) {
		struct oxp_uplink *to = &uplinks[i];
		struct stream_uplink one;

		element_of(record, i, &one, sizeof(one));
		to->ifindex = one.ifindex;
		to->mtu = one.mtu;
		memcpy(to->own_mac, one.own_mac, 6);
		memcpy(to->next_hop_mac_v4, one.next_hop_mac_v4, 6);
		memcpy(to->next_hop_mac_v6, one.next_hop_mac_v6, 6);
		memcpy(to->vlan, one.vlan, sizeof(to->vlan));
		to->vlans = one.vlans;
	}
	if (chosen) {
		element_of(chosen, 0, &there, sizeof(there));
		memcpy(choices.v4, there.v4, sizeof(choices.v4));
		memcpy(choices.v6, there.v6, sizeof(choices.v6));
	}
	return write_first_uplinks(node, uplinks, record->head.count,
				   chosen ? &choices : NULL, error);
}

static int fill_services(struct oxp_node *node, const struct import *import,
			 const int adopted[MAPS], char *error)
{
	uint64_t *taken =
		calloc(node->config->members_max / 64 + 1, sizeof(*taken));
	int status =
		taken ? 0 : failure(error, -ENOMEM, "cannot fill the tables");

	for (uint32_t i = 0; i < import->count && !status; i++)
		if (is_record(&import->records[i], RECORD_SERVICE))
			status = fill_service(node, import, i,
					      adopted[MAP_AGES] < 0, taken,
					      error);
	free(taken);
	return status;
}

int fill_node(struct oxp_node *node, const struct import *import,
	      const int adopted[MAPS], char *error)
{
	int status = fill_settings(node, import, error);

	if (!status)
		status = fill_uplinks(node, import, error);
	if (!status)
		status = fill_services(node, import, adopted, error);
	return status;
}
