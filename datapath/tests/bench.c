// SPDX-License-Identifier: Apache-2.0
/* Rough cost of a packet and of tables, on the machine as it is. */
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "harness.h"
#include "wrapper.skel.h"

#define ROUNDS 41
#define REPEAT 200000
#define SERVICES 1000

static struct oxp_node *node;

static int by_value(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

struct shape {
	const char *name;
	const char *destination;
	uint32_t flows;
	uint8_t protocol;
};

static void measure(int program, const struct shape *shape, uint32_t *least,
		    uint32_t *median)
{
	struct wrapper *wrapper = wrapper__open();
	uint32_t zero = 0, rounds[ROUNDS];
	struct frame frame = {.length = 64};
	int target;

	wrapper->rodata->flows_mask = shape->flows - 1;
	wrapper->rodata->destination = inet_addr(shape->destination);
	wrapper->rodata->port = 80;
	wrapper->rodata->protocol = shape->protocol;
	wrapper->rodata->frame_length = frame.length;
	assert_int_equal(wrapper__load(wrapper), 0);
	target = program >= 0 ? program
			      : bpf_program__fd(wrapper->progs.oxp_nothing);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(wrapper->maps.target),
					     &zero, &target, BPF_ANY),
			 0);
	for (int i = 0; i < ROUNDS; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data,
			    .data_size_in = frame.length, .repeat = REPEAT);

		assert_int_equal(
			bpf_prog_test_run_opts(
				bpf_program__fd(wrapper->progs.oxp_wrapper),
				&options),
			0);
		rounds[i] = options.duration;
	}
	qsort(rounds, ROUNDS, sizeof(*rounds), by_value);
	*least = rounds[0];
	*median = rounds[ROUNDS / 2];
	wrapper__destroy(wrapper);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void measure_packets(void)
{
	static const struct shape shapes[] = {
		{"v4 TCP, 1 flow", VIP, 1, IPPROTO_TCP},
		{"v4 TCP, 1 Ki flows", VIP, 1 << 10, IPPROTO_TCP},
		{"v4 TCP, 128 Ki flows", VIP, 1 << 17, IPPROTO_TCP},
		{"v4 TCP, 1 Mi flows", VIP, 1 << 20, IPPROTO_TCP},
		{"v4 UDP, 1 flow", VIP, 1, IPPROTO_UDP},
		{"not a VIP", "203.0.113.1", 1, IPPROTO_TCP},
	};
	int program = forward_program(node);

	printf("| case | harness | packet, least | median "
	       "|\n|---|---|---|---|\n");
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		uint32_t floor[2], cost[2];

		measure(-1, &shapes[i], &floor[0], &floor[1]);
		measure(program, &shapes[i], &cost[0], &cost[1]);
		printf("| %s | %u ns | %d ns | %d ns |\n", shapes[i].name,
		       floor[0], (int)(cost[0] - floor[0]),
		       (int)(cost[1] - floor[1]));
	}
	close(program);
}

static void measure_tables(void)
{
	static struct oxp_result results[SERVICES];
	struct oxp_member members[20];
	struct oxp_key key = tcp_key("192.0.2.2", 1);
	double start = now();

	make_members(members, 20, 0, 0);
	for (int i = 0; i < SERVICES; i++) {
		members[0].check = i + 1;
		key.port = i + 1;
		assert_int_equal(oxp_service_set(node, &key, 0, members, 20,
						 NULL, error),
				 0);
		results[i] = (struct oxp_result){i + 1, 1};
	}
	printf("%d services of 20 members from nothing: %.1f ms\n", SERVICES,
	       now() - start);
	for (int up = 1; up >= 0; up--) {
		for (int i = 0; i < SERVICES; i++)
			results[i].up = up;
		start = now();
		assert_int_equal(
			oxp_health_apply(node, results, SERVICES, error),
			SERVICES);
		printf("%d members %s, each in a table of its own: %.1f ms\n",
		       SERVICES, up ? "up" : "down", now() - start);
	}
	start = now();
	for (int i = 0; i < 100; i++) {
		static uint16_t table[OXP_SLOTS_DEFAULT];
		struct oxp_address addresses[10];
		uint16_t weights[10];

		for (int j = 0; j < 10; j++) {
			addresses[j] = members[j].address;
			weights[j] = 1;
		}
		oxp_maglev_build(addresses, weights, 10, OXP_SLOTS_DEFAULT,
				 table);
	}
	printf("one table of %d slots, 10 members: %.0f us\n",
	       OXP_SLOTS_DEFAULT, (now() - start) * 10);
}

static void bench(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct oxp_options options = {
		.pin_directory = "/mnt/bpf/bench",
		.lock_file = "/mnt/lock",
		.create = 1,
		.members_max = 32768,
	};
	struct oxp_address source = address(NODE);
	struct oxp_key http = tcp_key(VIP, 80), udp = udp_key(VIP, 80);
	struct oxp_member members[10];

	(void)state;
	assert_int_equal(oxp_open(&options, &node, error), 0);
	oxp_set_uplink(node, mac, mac, &source, 1500, error);
	make_members(members, 10, 0, 0);
	assert_int_equal(
		oxp_service_set(node, &http, 0, members, 10, NULL, error), 0);
	assert_int_equal(
		oxp_service_set(node, &udp, 0, members, 10, NULL, error), 0);
	measure_packets();
	measure_tables();
	oxp_close(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bench)};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
