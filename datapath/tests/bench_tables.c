// SPDX-License-Identifier: Apache-2.0
/* What tables cost, from the library's call to the last switch. Each figure is
 * the least of several rounds, as other work disturbs. */
#include <time.h>

#include "harness.h"

#define MEMBERS 10 /* of each VIP */
#define VIPS 1000
#define ROUNDS 5

static struct oxp_node *node;
static struct oxp_member members[VIPS][2 * MEMBERS];

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

/* Of all threads: what other work on the machine does not disturb. */
static double cpu(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static struct oxp_address numbered(const char *base, uint32_t number)
{
	struct oxp_address out = address(base);

	out.bytes[13] = number >> 16;
	out.bytes[14] = number >> 8;
	out.bytes[15] = number;
	return out;
}

static void fill(struct oxp_wanted *wanted, uint32_t services, uint32_t ports,
		 uint32_t count)
{
	for (uint32_t i = 0; i < services; i++)
		wanted[i] = (struct oxp_wanted){
			.key = {.vip = numbered("192.0.0.1", i / ports),
				.port = 80 + i % ports,
				.protocol = 6},
			.members = members[i / ports],
			.count = count,
		};
}

static void set_all(struct oxp_wanted *wanted, uint32_t count)
{
	int status = oxp_services_set(node, wanted, count, error);

	if (status < 0)
		fail_msg("set: %s", error);
}

static void delete_all(struct oxp_wanted *wanted, uint32_t count)
{
	static struct oxp_key keys[2 * VIPS];

	for (uint32_t i = 0; i < count; i++)
		keys[i] = wanted[i].key;
	assert_int_equal(oxp_service_delete(node, keys, count, error), count);
}

/* All members of `vips` VIPs with two ports each come up, then one member of
 * each goes down: member changes of both ports. */
static void measure_health(uint32_t vips)
{
	static struct oxp_wanted wanted[2 * VIPS];
	static struct oxp_result results[VIPS * MEMBERS];
	double up = 1e9, down = 1e9, up_cpu = 1e9, down_cpu = 1e9, start, used;

	fill(wanted, 2 * vips, 2, MEMBERS);
	for (int round = 0; round < ROUNDS; round++) {
		set_all(wanted, 2 * vips);
		for (uint32_t i = 0; i < vips * MEMBERS; i++)
			results[i] = (struct oxp_result){i + 1, 1};
		start = now();
		used = cpu();
		assert_int_equal(
			oxp_health_apply(node, results, vips * MEMBERS, error),
			2 * vips);
		up = now() - start < up ? now() - start : up;
		up_cpu = cpu() - used < up_cpu ? cpu() - used : up_cpu;
		/* as about once a second */
		node->config->ticked -= 2000;
		assert_true(oxp_tick(node, error) >= 0);
		for (uint32_t i = 0; i < vips; i++)
			results[i] = (struct oxp_result){
				i * MEMBERS + 1 + i % 10, 0};
		start = now();
		used = cpu();
		assert_int_equal(oxp_health_apply(node, results, vips, error),
				 2 * vips);
		down = now() - start < down ? now() - start : down;
		down_cpu = cpu() - used < down_cpu ? cpu() - used : down_cpu;
		assert_int_equal(oxp_verify(node, error), 0);
		delete_all(wanted, 2 * vips);
	}
	printf("| %u (%u) | %.2f | %.2f | %.2f | %.2f |\n", vips * MEMBERS * 2,
	       vips, up, down, up_cpu, down_cpu);
}

/* A full resync of 1,000 services with 20 members. */
static void measure_resync(void)
{
	static struct oxp_wanted wanted[VIPS];
	double start, empty, again, single, batch;

	for (uint32_t i = 0; i < VIPS; i++)
		for (uint32_t j = 0; j < 2 * MEMBERS; j++)
			members[i][j].check = 0;
	fill(wanted, VIPS, 1, 2 * MEMBERS);
	start = now();
	set_all(wanted, VIPS);
	empty = now() - start;
	start = now();
	set_all(wanted, VIPS);
	again = now() - start;
	for (uint32_t i = 0; i < VIPS; i++)
		wanted[i].count--;
	start = now();
	set_all(wanted, VIPS);
	batch = now() - start;
	start = now();
	for (uint32_t i = 0; i < VIPS; i++)
		assert_int_equal(oxp_service_set(node, &wanted[i].key, NULL,
						 members[i], 2 * MEMBERS, NULL,
						 error),
				 0);
	single = now() - start;
	printf("\n%d services of %d members: from empty %.0f ms, unchanged "
	       "%.1f ms, one member less %.0f ms, one by one %.0f ms\n",
	       VIPS, 2 * MEMBERS, empty, again, batch, single);
	start = now();
	assert_int_equal(oxp_verify(node, error), 0);
	printf("verified in %.0f ms\n", now() - start);
}

static void measure_reading(void)
{
	static struct oxp_service services[2 * VIPS];
	double start = now();

	assert_int_equal(oxp_services(node, services, 2 * VIPS, error), VIPS);
	printf("%d services with counters read in %.1f ms\n", VIPS,
	       now() - start);
	start = now();
	assert_true(oxp_tick(node, error) >= 0);
	printf("one tick: %.2f ms\n", now() - start);
}

static void measure_table(uint32_t slots, uint32_t count, bool weighted)
{
	static uint16_t table[65537];
	struct oxp_address addresses[256];
	uint16_t weights[256];
	double least = 1e9;

	for (uint32_t i = 0; i < count; i++) {
		addresses[i] = numbered("10.0.0.0", i);
		weights[i] = weighted ? 1 + i * 7 % 100 : 1;
	}
	for (int i = 0; i < 50; i++) {
		double start;

		/* the processor must not learn one table by heart */
		for (uint32_t j = 0; j < count; j++)
			addresses[j].bytes[13] = i;
		start = now();
		oxp_maglev_build(addresses, weights, count, slots, table);
		if (now() - start < least)
			least = now() - start;
	}
	printf("%u slots, %u members%s: %.0f us\n", slots, count,
	       weighted ? " of unequal weights" : "", least * 1000);
}

static void bench(void **state)
{
	static const uint32_t vips[] = {1, 10, 100, 1000};
	struct oxp_options options = {
		.pin_directory = "/mnt/bpf/bench",
		.lock_file = "/mnt/lock",
		.create = 1,
		.services_max = 2 * VIPS + 48,
		.members_max = 65536,
	};
	struct oxp_info info;

	(void)state;
	if (oxp_open(&options, &node, error))
		fail_msg("open: %s", error);
	for (uint32_t i = 0; i < VIPS; i++)
		for (uint32_t j = 0; j < 2 * MEMBERS; j++)
			members[i][j] = (struct oxp_member){
				.address = numbered("10.0.0.0", i * 64 + j),
				.check = i * MEMBERS + j + 1,
				.weight = 1,
				.admin_up = 1,
			};
	measure_table(13313, 10, false);
	measure_table(13313, 10, true);
	measure_table(65537, 100, false);
	printf("\n| member changes (VIPs) | up, ms | down, ms | up, CPU ms | "
	       "down, CPU ms |\n|---|---|---|---|---|\n");
	for (int i = 0; i < 4; i++)
		measure_health(vips[i]);
	measure_resync();
	measure_reading();
	assert_int_equal(oxp_info(node, &info, error), 0);
	printf("%.1f MB of maps for %u services\n", info.map_bytes / 1e6,
	       info.services_max);
	assert_int_equal(oxp_destroy(node, error), 0);
	oxp_close(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bench)};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
