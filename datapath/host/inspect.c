// SPDX-License-Identifier: Apache-2.0
/* Counters, single frames, and traced packets. */
#include <errno.h>
#include <linux/pkt_cls.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "state.h"

_Static_assert(sizeof(((struct oxh_traced *)0)->data) == HOST_TRACED_BYTES,
	       "data of traced packets");
_Static_assert((int)OXH_OUTCOMES == (int)HOST_OUTCOMES, "one list");

int oxh_outcomes_list(struct oxh_host *host, uint64_t *packets,
		      uint32_t capacity, char *error)
{
	int cpus = libbpf_num_possible_cpus(), status = 0;
	uint64_t *each = calloc(cpus > 0 ? cpus : 1, sizeof(*each));

	if (!each)
		return failure(error, -ENOMEM, "cannot read outcomes");
	for (uint32_t i = 0; i < HOST_OUTCOMES && i < capacity; i++) {
		packets[i] = 0;
		if (bpf_map_lookup_elem(host->map[MAP_OUTCOMES], &i, each))
			status = failure(error, -errno, "cannot read outcomes");
		for (int cpu = 0; !status && cpu < cpus; cpu++)
			packets[i] += each[cpu];
	}
	free(each);
	return status ? status : HOST_OUTCOMES;
}

int oxh_drops_list(struct oxh_host *host, struct oxh_drop *out,
		   uint32_t capacity, char *error)
{
	struct host_drop_key key, *last = NULL;
	uint32_t count = 0;
	uint64_t packets;

	(void)error;
	while (!bpf_map_get_next_key(host->map[MAP_DROPS], last, &key)) {
		last = &key;
		if (key.host_port >= host->count[MAP_PORTS] ||
		    bpf_map_lookup_elem(host->map[MAP_DROPS], &key, &packets))
			continue;
		if (count++ >= capacity)
			continue;
		out[count - 1] = (struct oxh_drop){.outcome = key.outcome,
						   .packets = packets};
		memcpy(out[count - 1].port_id, ports_of(host)[key.host_port].id,
		       16);
	}
	return count;
}

int oxh_run(struct oxh_host *host, uint32_t hook, struct oxh_frame *frame,
	    char *error)
{
	struct __sk_buff context = {.ifindex = frame->ifindex,
				    .mark = frame->mark};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame->data,
		    .data_size_in = frame->length, .data_out = frame->out,
		    .data_size_out = OXH_FRAME_MAX, .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .ctx_out = &context,
		    .ctx_size_out = sizeof(context));
	int status = load_programs(host, error);

	if (status)
		return status;
	if (hook >= HOST_HOOKS || frame->length > OXH_FRAME_MAX)
		return failure(error, -EINVAL, "hook %u, %u bytes", hook,
			       frame->length);
	status = bpf_prog_test_run_opts(program_of(host, hook), &options);
	if (status)
		return failure(error, status, "cannot run %u bytes at %u",
			       frame->length, frame->ifindex);
	frame->out_length = options.data_size_out;
	frame->action = options.retval;
	frame->duration = options.duration;
	frame->mark = context.mark;
	return 0;
}

int oxh_trace(struct oxh_host *host, const uint8_t *id, uint32_t on,
	      char *error)
{
	int place = id ? find_port(host, id) : 0;

	if (place < 0)
		return failure(error, place, "there is no such port");
	settings_of(host)->traced_port = !on  ? 0
					 : id ? (uint32_t)place + 1
					      : OXH_ALL_PORTS;
	return 0;
}

static int take_traced(void *context, void *data, size_t size)
{
	struct oxh_host *host = context;
	const struct host_traced *event = data;
	struct oxh_traced *out = &host->traced[host->traced_count];

	(void)size;
	if (host->traced_count >= host->traced_room)
		return -ENOSPC;
	*out = (struct oxh_traced){
		.time = event->time,
		.hook = event->hook,
		.outcome = event->outcome,
		.ifindex = event->ifindex,
		.key = event->key,
		.length = event->length,
	};
	memcpy(out->data, event->data, sizeof(out->data));
	host->traced_count++;
	/* stop here: the rest stays for the next call */
	return host->traced_count == host->traced_room ? 1 : 0;
}

int oxh_trace_next(struct oxh_host *host, struct oxh_traced *out,
		   uint32_t capacity, uint32_t timeout_ms, char *error)
{
	int status;

	if (!host->ring)
		host->ring = ring_buffer__new(host->map[MAP_TRACED],
					      take_traced, host, NULL);
	if (!host->ring)
		return failure(error, -errno, "cannot open the trace");
	if (!capacity)
		return 0;
	host->traced = out;
	host->traced_room = capacity;
	host->traced_count = 0;
	status = ring_buffer__poll(host->ring, timeout_ms);
	if (status < 0 && status != -EINTR && !host->traced_count)
		return failure(error, status, "cannot read the trace");
	return host->traced_count;
}
