// SPDX-License-Identifier: Apache-2.0
/*
 * Tracing: two programs around each attached forwarding program. Their links
 * are not pinned, so they end with this process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "address.h"
#include "error.h"
#include "load/load.h"
#include "state.h"
#include "trace.skel.h"

#define SNAPLEN_DEFAULT 256
#define BUFFER_DEFAULT (1U << 22)
#define BUFFER_MAX (1U << 28)

struct traced {
	uint32_t id;
	bool there;
	struct trace *object;
};

#define TRACED_MAX 64

struct oxp_trace {
	struct oxp_node *node;
	struct oxp_trace_options options;
	struct ring_buffer *ring;
	int records; /* descriptor of the map; -1: none yet */
	struct traced traced[TRACED_MAX];
	uint32_t count;
	uint64_t programs;  /* ever traced */
	uint64_t lost_with; /* by programs that are gone */
	/* of the current call */
	uint8_t *out;
	uint32_t room, used;
};

static int check(struct oxp_trace_options *options, char *error)
{
	uint32_t size = 4096;

	if (!options->every)
		options->every = 1;
	if (!options->snaplen_bytes)
		options->snaplen_bytes = SNAPLEN_DEFAULT;
	if (!options->buffer_bytes)
		options->buffer_bytes = BUFFER_DEFAULT;
	if (options->snaplen_bytes > OXP_TRACE_SNAPLEN_MAX)
		return failure(error, -EINVAL,
			       "%u bytes of a frame, the limit is %d",
			       options->snaplen_bytes, OXP_TRACE_SNAPLEN_MAX);
	if (options->buffer_bytes > BUFFER_MAX)
		return failure(error, -EINVAL,
			       "a buffer of %u bytes, the limit is %u",
			       options->buffer_bytes, BUFFER_MAX);
	if (is_zero(options->vip.bytes))
		return failure(error, -EINVAL, "a VIP is needed");
	while (size < options->buffer_bytes || size < (unsigned)getpagesize())
		size *= 2;
	options->buffer_bytes = size;
	return 0;
}

static void configure(const struct oxp_trace *trace, struct trace *object)
{
	const struct oxp_trace_options *options = &trace->options;

	memcpy((void *)object->rodata->vip, options->vip.bytes,
	       sizeof(object->rodata->vip));
	object->rodata->vip_v6 = !is_v4(options->vip.bytes);
	object->rodata->every = options->every;
	object->rodata->snaplen = options->snaplen_bytes;
	object->rodata->numbers_from = trace->programs << 56;
}

static int load_tracing(struct oxp_trace *trace, int program,
			struct trace *object, char *error)
{
	static const struct load load = {.what = "the programs that trace",
					 .traces = true};
	int status;

	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	status = bpf_program__set_attach_target(object->progs.oxp_trace_in,
						program, "oxp_forward");
	if (!status)
		status = bpf_program__set_attach_target(
			object->progs.oxp_trace_out, program, "oxp_forward");
	if (!status)
		status = trace->records < 0
				 ? bpf_map__set_max_entries(
					   object->maps.records,
					   trace->options.buffer_bytes)
				 : bpf_map__reuse_fd(object->maps.records,
						     trace->records);
	configure(trace, object);
	return load_skeleton(&load, object->skeleton, status, error,
			     OXP_ERROR_LENGTH);
}

static int take_record(void *context, void *data, size_t size)
{
	struct oxp_trace *trace = context;
	uint32_t length = (size + 7) & ~7U;

	memcpy(trace->out + trace->used, data, size);
	memset(trace->out + trace->used + size, 0, length - size);
	trace->used += length;
	/* this record is taken, but the next one may not fit */
	return trace->room - trace->used < OXP_TRACE_ROOM ? -ENOSPC : 0;
}

/* The map of records of the first program is used for all. */
static int keep_records(struct oxp_trace *trace, struct trace *object)
{
	if (trace->records >= 0)
		return 0;
	trace->records = dup(bpf_map__fd(object->maps.records));
	if (trace->records < 0)
		return -errno;
	trace->ring =
		ring_buffer__new(trace->records, take_record, trace, NULL);
	return trace->ring ? 0 : -errno;
}

static int attach_tracing(struct oxp_trace *trace, uint32_t id,
			  struct trace *object, char *error)
{
	int status = keep_records(trace, object);

	if (!status)
		status = trace__attach(object);
	return status ? failure(error, status, "cannot trace program %u (%s)",
				id, first_libbpf_message())
		      : 0;
}

static int begin(struct oxp_trace *trace, uint32_t id, char *error)
{
	struct trace *object = NULL;
	int program, status;

	if (trace->count == TRACED_MAX)
		return failure(error, -E2BIG, "more than %d programs",
			       TRACED_MAX);
	program = bpf_prog_get_fd_by_id(id);
	if (program == -ENOENT) /* just replaced: see the next call */
		return 0;
	if (program < 0)
		return failure(error, program, "cannot open program %u", id);
	forget_libbpf_messages();
	object = trace__open();
	status = load_tracing(trace, program, object, error);
	close(program);
	if (!status)
		status = attach_tracing(trace, id, object, error);
	if (status) {
		trace__destroy(object);
		return status;
	}
	trace->programs++;
	trace->traced[trace->count++] = (struct traced){id, true, object};
	return 0;
}

/* Trace exactly what is attached now. */
static int follow(struct oxp_trace *trace, char *error)
{
	struct oxp_program programs[TRACED_MAX];
	int count = oxp_programs_list(trace->node, programs, TRACED_MAX, error);
	int status = 0;
	uint32_t kept = 0;

	if (count < 0)
		return count;
	if (count > TRACED_MAX)
		count = TRACED_MAX;
	for (uint32_t i = 0; i < trace->count; i++)
		trace->traced[i].there = false;
	for (int i = 0; i < count && !status; i++) {
		struct traced *known = NULL;

		for (uint32_t j = 0; j < trace->count; j++)
			if (trace->traced[j].id == programs[i].id)
				known = &trace->traced[j];
		if (known)
			known->there = true;
		else
			status = begin(trace, programs[i].id, error);
	}
	for (uint32_t i = 0; i < trace->count; i++) {
		struct traced *one = &trace->traced[i];

		if (one->there || status) {
			trace->traced[kept++] = *one;
			continue;
		}
		trace->lost_with += one->object->bss->lost;
		trace__destroy(one->object);
	}
	trace->count = kept;
	return status;
}

int oxp_trace_open(struct oxp_node *node,
		   const struct oxp_trace_options *options,
		   struct oxp_trace **out, char *error)
{
	struct oxp_trace *trace = calloc(1, sizeof(*trace));
	int status;

	*out = NULL;
	if (!trace)
		return failure(error, -ENOMEM, "cannot trace");
	trace->node = node;
	trace->options = *options;
	trace->records = -1;
	status = check(&trace->options, error);
	if (!status)
		status = follow(trace, error);
	if (!status && !trace->count)
		status = failure(error, -ENOENT,
				 "the program is attached to no interface");
	if (status) {
		oxp_trace_close(trace);
		return status;
	}
	*out = trace;
	return 0;
}

void oxp_trace_close(struct oxp_trace *trace)
{
	if (!trace)
		return;
	for (uint32_t i = 0; i < trace->count; i++)
		trace__destroy(trace->traced[i].object);
	ring_buffer__free(trace->ring);
	if (trace->records >= 0)
		close(trace->records);
	free(trace);
}

int oxp_trace_read(struct oxp_trace *trace, uint8_t *out, uint32_t capacity,
		   int32_t timeout_ms, char *error)
{
	int status;

	if (capacity < OXP_TRACE_ROOM)
		return failure(error, -ENOBUFS,
			       "room for %u bytes, at least "
			       "%d are needed",
			       capacity, OXP_TRACE_ROOM);
	status = follow(trace, error);
	if (status)
		return status;
	trace->out = out;
	trace->room = capacity;
	trace->used = 0;
	status = ring_buffer__poll(trace->ring, timeout_ms);
	if (status < 0 && !trace->used)
		return failure(error, status, "cannot read packets");
	return trace->used;
}

uint64_t oxp_trace_lost_get(const struct oxp_trace *trace)
{
	uint64_t lost = trace->lost_with;

	for (uint32_t i = 0; i < trace->count; i++)
		lost += trace->traced[i].object->bss->lost;
	return lost;
}
