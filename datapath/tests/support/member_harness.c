// SPDX-License-Identifier: Apache-2.0
#include "member_harness.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define UNSPEC ((uint32_t)-1)

enum program program_of[PROGRAMS] = {XDP, TC, TC_OLD};

static void put_address(struct bench *bench, const char *text, __u8 what)
{
	struct ip_address address = mapped(text);

	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(bench->object->maps.addresses),
				    &address, &what, BPF_ANY),
		0);
}

static void put_network(struct bench *bench, const char *text, __u32 bits,
			__u8 what)
{
	struct member_network key = {.bits = bits, .address = mapped(text)};

	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(bench->object->maps.nodes),
				    &key, &what, BPF_ANY),
		0);
}

void set_up(struct bench *bench, enum program program,
	    const struct member_config *config)
{
	struct member_config *own;

	bench->program = program;
	bench->object = member__open();
	assert_non_null(bench->object);
	own = (struct member_config *)&bench->object->rodata->config;
	if (config)
		*own = *config;
	own->old_adjust_room = program == TC_OLD;
	assert_int_equal(member__load(bench->object), 0);
	put_address(bench, VIP, MEMBER_ADDRESS_VIP);
	put_address(bench, VIP6, MEMBER_ADDRESS_VIP);
	put_address(bench, OWN, MEMBER_ADDRESS_OWN);
	put_address(bench, OWN6, MEMBER_ADDRESS_OWN);
	put_network(bench, "10.0.0.0", 96 + 24, MEMBER_NETWORK_NODE);
	put_network(bench, "2001:db8::", 48, MEMBER_NETWORK_NODE);
	if (!own->hands_on)
		return;
	put_network(bench, "10.1.0.0", 96 + 16, MEMBER_NETWORK_MEMBER);
	put_network(bench, "2001:db8:1::", 64, MEMBER_NETWORK_MEMBER);
}

void tear_down(struct bench *bench)
{
	member__destroy(bench->object);
}

void add_port(struct bench *bench, const char *vip, uint8_t protocol,
	      uint16_t port, uint16_t local)
{
	struct member_port_key key = {
		.vip = mapped(vip), .port = htons(port), .protocol = protocol};
	__be16 value = htons(local);

	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(bench->object->maps.ports_in),
				    &key, &value, BPF_ANY),
		0);
	key.port = htons(local);
	value = htons(port);
	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(bench->object->maps.ports_out),
				    &key, &value, BPF_ANY),
		0);
}

void add_dscp(struct bench *bench, unsigned int dscp, const char *vip)
{
	struct member_dscp value = {.vip = mapped(vip), .used = 1};
	__u32 index = dscp + (is_ipv4(vip) ? 0 : MEMBER_DSCPS);

	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(bench->object->maps.dscp),
				    &index, &value, BPF_ANY),
		0);
}

uint64_t counter(const struct bench *bench, enum member_counter which)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *values = calloc(cpus, sizeof(*values)), total = 0;
	__u32 key = which;

	assert_int_equal(
		bpf_map_lookup_elem(bpf_map__fd(bench->object->maps.counters),
				    &key, values),
		0);
	for (int i = 0; i < cpus; i++)
		total += values[i];
	free(values);
	return total;
}

uint64_t all_counters(const struct bench *bench)
{
	uint64_t total = 0;

	for (int i = 0; i < MEMBER_COUNTERS; i++)
		total += counter(bench, i);
	return total;
}

static uint32_t run(const struct bpf_program *program, const struct frame *in,
		    struct frame *out)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in->data,
		    .data_size_in = in->length, .data_out = out->data,
		    .data_size_out = FRAME_MAX);

	memset(out, 0, sizeof(*out));
	assert_int_equal(
		bpf_prog_test_run_opts(bpf_program__fd(program), &options), 0);
	out->length = options.data_size_out;
	return options.retval;
}

static uint32_t run_in(const struct bench *bench, const struct frame *in,
		       struct frame *out)
{
	return run(bench->program == XDP ? bench->object->progs.oxp_member_xdp
					 : bench->object->progs.oxp_member_in,
		   in, out);
}

static void compare(const struct frame *out, const struct frame *expected)
{
	assert_int_equal(out->length, expected->length);
	assert_memory_equal(out->data, expected->data, expected->length);
}

void expect_taken(const struct bench *bench, const struct frame *in,
		  const struct frame *expected)
{
	struct frame out;

	assert_int_equal(run_in(bench, in, &out),
			 bench->program == XDP ? XDP_PASS : UNSPEC);
	compare(&out, expected);
}

void expect_decapsulated(const struct bench *bench, const struct packet *sent,
			 const struct outer *outer, const struct packet *seen)
{
	struct frame in, expected;

	make_tunnel(&in, sent, outer);
	make_plain(&expected, seen, outer->tags);
	expect_taken(bench, &in, &expected);
}

void expect_taken_by_tc(const struct bench *bench, const struct frame *in,
			const struct frame *expected)
{
	struct frame out;

	if (bench->program == XDP) {
		assert_int_equal(run_in(bench, in, &out), XDP_PASS);
		compare(&out, in);
	}
	assert_int_equal(run(bench->object->progs.oxp_member_in, in, &out),
			 UNSPEC);
	compare(&out, expected);
}

void expect_passed(const struct bench *bench, const struct frame *in)
{
	expect_taken(bench, in, in);
}

void expect_dropped(const struct bench *bench, const struct frame *in,
		    enum member_counter which)
{
	uint64_t before = counter(bench, which), all = all_counters(bench);
	struct frame out;

	/* TC_ACT_SHOT is 2 */
	assert_int_equal(run_in(bench, in, &out),
			 bench->program == XDP ? XDP_DROP : 2);
	assert_int_equal(counter(bench, which), before + 1);
	assert_int_equal(all_counters(bench), all + 1);
}

void expect_handed_on(const struct bench *bench, const struct frame *in,
		      const struct frame *expected)
{
	struct frame out;

	/* XDP leaves these unchanged to tc; TC_ACT_REDIRECT is 7 */
	if (bench->program == XDP) {
		assert_int_equal(run_in(bench, in, &out), XDP_PASS);
		compare(&out, in);
	}
	assert_int_equal(run(bench->object->progs.oxp_member_in, in, &out), 7);
	compare(&out, expected);
}

void expect_out(const struct bench *bench, const struct frame *in,
		const struct frame *expected)
{
	struct frame out;

	assert_int_equal(run(bench->object->progs.oxp_member_out, in, &out),
			 UNSPEC);
	compare(&out, expected);
}
