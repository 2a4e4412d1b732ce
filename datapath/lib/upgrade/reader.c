// SPDX-License-Identifier: Apache-2.0
/* Reading the records of a stream (stream.h). */
#include "upgrade/reader.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "error.h"
#include "upgrade/stream.h"

/* Mapped rather than read: it may be as large as the tables. */
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
	RECORD_CHANGED,  RECORD_FLOWS,    RECORD_TUNNELS, RECORD_END,
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

int cut_short(char *error)
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
			       "the state is of another release that hands "
			       "it over otherwise, or of none: stop the agent, "
			       "remove the pin directory and start the agent, "
			       "which recreates the tables");
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
