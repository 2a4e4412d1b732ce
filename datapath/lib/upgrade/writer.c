// SPDX-License-Identifier: Apache-2.0
/* Writing the records of a stream (stream.h). */
#include "upgrade/writer.h"

#include <string.h>

#include "upgrade/stream.h"

void begin_record(struct writer *writer, const char *name, uint32_t flags,
		  uint32_t element, uint64_t count)
{
	struct stream_record record = {
		.flags = flags,
		.element = element,
		.count = count,
	};

	memcpy(record.name, name, strlen(name));
	fwrite(&record, sizeof(record), 1, writer->file);
	writer->records++;
}

void put_elements(struct writer *writer, const void *data, size_t length)
{
	fwrite(data, 1, length, writer->file);
}

void put_number(struct writer *writer, uint16_t number)
{
	put_elements(writer, &number, sizeof(number));
}
