// SPDX-License-Identifier: Apache-2.0
/*
 * Traces of packets. Skipped on kernels whose policy forbids loading tracing
 * programs; tools/on-kernel has kernels that allow it.
 */
#include <errno.h>
#include <sched.h>

#include <bpf/bpf.h>
#include <net/if.h>

#include "fixture.h"

static uint32_t device;

/* A private network namespace with a veth pair. */
static int enter(void **state)
{
	if (enter_namespace(state) || unshare(CLONE_NEWNET) ||
	    system("ip link add traced type veth peer name other && "
		   "ip link set traced up && ip link set other up"))
		return -1;
	device = if_nametoindex("traced");
	return device ? 0 : -1;
}

static int attach(void **state)
{
	set_up(state);
	return oxp_interface_attach(node, device, error);
}

static struct oxp_trace *open_trace(uint32_t every, uint32_t snaplen,
				    uint32_t buffer)
{
	struct oxp_trace_options options = {.vip = address(VIP),
					    .every = every,
					    .snaplen_bytes = snaplen,
					    .buffer_bytes = buffer};
	struct oxp_trace *trace;
	int status = oxp_trace_open(node, &options, &trace, error);

	if (status == -EPERM) {
		print_message("no tracing programs here: %s\n", error);
		skip();
	}
	if (status)
		fail_msg("trace: %s", error);
	return trace;
}

/* By the attached program. */
static uint32_t pass_frames(const struct frame *frame, uint32_t count)
{
	struct oxp_frame one = {.data = frame->data,
				.length = frame->length,
				.ifindex = device};

	for (uint32_t i = 0; i < count; i++)
		if (oxp_test_run(node, &one, 1, error) != 1)
			fail_msg("run: %s", error);
	return one.action;
}

static uint8_t room[1 << 20];

/* Read the traced sides to `room`, in sequence. Returns how many there are. */
static int read_sides(struct oxp_trace *trace,
		      const struct oxp_trace_packet **out, int capacity)
{
	uint32_t length = 0;
	int status, count = 0;

	do {
		status = oxp_trace_read(trace, room + length,
					sizeof(room) - length, 100, error);
		if (status < 0)
			fail_msg("read: %s", error);
		length += status;
	} while (status);
	for (uint32_t at = 0; at < length; count++) {
		const struct oxp_trace_packet *side = (void *)(room + at);

		if (count < capacity)
			out[count] = side;
		at += (sizeof(*side) + side->captured + 7) & ~7U;
	}
	return count;
}

#define TRACE(name) TEST_WITH(name, attach, tear_down)

TRACE(test_packets_are_traced_before_and_after_the_program)
{
	const struct oxp_trace_packet *side[4];
	struct flow other = {CLIENT, "192.0.2.9", 1, 80, IPPROTO_TCP};
	struct oxp_trace *trace = open_trace(1, 2000, 0);
	struct frame in, out;

	make_frame(&in, &other, 5, NULL);
	pass_frames(&in, 3);
	make_frame(&in, &web, 100, NULL);
	pass_frames(&in, 1);
	run(program, &in, &out); /* not attached, so not traced */
	assert_int_equal(read_sides(trace, side, 4), 2);
	assert_false(side[0]->out);
	assert_true(side[1]->out);
	assert_int_equal(side[0]->number, side[1]->number);
	assert_int_equal(side[0]->ifindex, device);
	assert_int_equal(side[0]->length, in.length);
	assert_int_equal(side[0]->captured, in.length);
	assert_memory_equal(side[0] + 1, in.data, in.length);
	assert_int_equal(side[1]->action, XDP_REDIRECT);
	assert_int_equal(side[1]->captured, out.length);
	assert_memory_equal(side[1] + 1, out.data, out.length);
	assert_true(side[0]->time_ns <= side[1]->time_ns);
	assert_int_equal(oxp_trace_lost_get(trace), 0);
	oxp_trace_close(trace);
}

TRACE(test_drops_are_traced_up_to_the_snap_length)
{
	const struct oxp_trace_packet *side[2];
	struct flow bad = {"127.0.0.1", VIP, 1, 80, IPPROTO_TCP};
	struct oxp_trace *trace = open_trace(1, 60, 0);
	struct frame in;

	make_frame(&in, &bad, 100, NULL);
	assert_int_equal(pass_frames(&in, 1), XDP_DROP);
	assert_int_equal(read_sides(trace, side, 2), 2);
	assert_int_equal(side[1]->action, XDP_DROP);
	assert_int_equal(side[1]->length, in.length);
	assert_int_equal(side[1]->captured, 60);
	oxp_trace_close(trace);
}

TRACE(test_packets_with_vlan_tags_are_traced)
{
	static const uint8_t tags[8] = {0x88, 0xa8, 0, 5, 0x81, 0, 0, 6};
	struct oxp_trace *trace = open_trace(0, 0, 0);
	const struct oxp_trace_packet *side[2];
	struct frame in;

	make_frame(&in, &web, 0, NULL);
	memmove(in.data + 20, in.data + 12, in.length - 12);
	memcpy(in.data + 12, tags, sizeof(tags));
	in.length += sizeof(tags);
	pass_frames(&in, 1);
	assert_int_equal(read_sides(trace, side, 2), 2);
	oxp_trace_close(trace);
}

TRACE(test_sampling_traces_every_nth_packet)
{
	const struct oxp_trace_packet *side[64];
	struct oxp_trace *trace;
	struct frame in;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	assert_int_equal(sched_setaffinity(0, sizeof(cpu), &cpu), 0);
	trace = open_trace(10, 0, 0);
	make_frame(&in, &web, 0, NULL);
	pass_frames(&in, 100);
	assert_int_equal(read_sides(trace, side, 64), 20);
	oxp_trace_close(trace);
}

TRACE(test_packets_beyond_the_buffer_are_counted_as_lost)
{
	struct oxp_trace *trace = open_trace(1, 1000, 4096);
	const struct oxp_trace_packet *side[1];
	struct frame in;
	int kept;

	make_frame(&in, &web, 1000, NULL);
	pass_frames(&in, 50);
	kept = read_sides(trace, side, 1);
	assert_true(kept > 0 && kept < 100);
	assert_int_equal(oxp_trace_lost_get(trace), 100 - kept);
	oxp_trace_close(trace);
}

/* Attaching again replaces the program; the new one is traced, too. */
TRACE(test_program_that_replaces_another_is_traced)
{
	struct oxp_trace *trace = open_trace(1, 0, 0);
	const struct oxp_trace_packet *side[8];
	struct frame in;
	uint64_t number;

	make_frame(&in, &web, 0, NULL);
	pass_frames(&in, 1);
	assert_int_equal(read_sides(trace, side, 8), 2);
	number = side[0]->number;
	assert_ok(oxp_interface_attach(node, device, error));
	assert_int_equal(read_sides(trace, side, 8), 0);
	pass_frames(&in, 1);
	assert_int_equal(read_sides(trace, side, 8), 2);
	assert_int_not_equal(side[0]->number, number);
	oxp_trace_close(trace);
}

static uint32_t tracing_programs(void)
{
	uint32_t id = 0, count = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {};
		__u32 length = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &length), 0);
		count += info.type == BPF_PROG_TYPE_TRACING;
		close(fd);
	}
	return count;
}

TRACE(test_closing_a_trace_leaves_no_programs)
{
	uint32_t before = tracing_programs();
	struct oxp_trace *trace = open_trace(1, 0, 0);

	assert_int_equal(tracing_programs(), before + 2);
	oxp_trace_close(trace);
	/* the kernel frees them after a grace period */
	for (int i = 0; i < 1000 && tracing_programs() != before; i++)
		usleep(10000);
	assert_int_equal(tracing_programs(), before);
}

TRACE(test_impossible_traces_are_refused)
{
	struct oxp_trace_options options = {.vip = address(VIP)};
	struct oxp_trace *trace;

	options.snaplen_bytes = OXP_TRACE_SNAPLEN_MAX + 1;
	assert_int_equal(oxp_trace_open(node, &options, &trace, error),
			 -EINVAL);
	options.snaplen_bytes = 0;
	assert_ok(oxp_interface_detach(node, device, error));
	assert_int_equal(oxp_trace_open(node, &options, &trace, error),
			 -ENOENT);
	assert_null(trace);
	options.vip = address("0.0.0.0");
	assert_int_equal(oxp_trace_open(node, &options, &trace, error),
			 -EINVAL);
}

TRACE(test_listed_program_is_the_one_attached)
{
	struct oxp_simulation *simulation;
	struct oxp_program one;
	uint8_t tag[8];

	assert_int_equal(oxp_programs_list(node, &one, 1, error), 1);
	assert_int_equal(one.ifindex, device);
	assert_string_equal(one.name, "oxp_forward");
	assert_true(one.id && one.loaded_ns);
	assert_ok(oxp_simulation_open(node, &simulation, tag, error));
	assert_memory_equal(tag, one.tag, sizeof(tag));
	oxp_simulation_close(simulation);
}

RUN_TESTS(enter, NULL)
