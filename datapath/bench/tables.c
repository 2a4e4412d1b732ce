// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of tables in the library, from the call to the last switch, and of
 * the same tables written like katran: 8-byte entries in an array map, one per
 * slot, in batches. Prints JSON, an object a line, in milliseconds;
 * bench/tables shows it beside the figures of the result handler.
 */
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "harness.h"

#define MEMBERS 10 /* per service */
#define PORTS 2    /* services per VIP, with equal members */
#define VIPS 1000
#define SERVICES (PORTS * VIPS)
#define SLOTS 13313 /* as in the tables to compare with */
#define BUILDS 10

static struct oxp_node *node;
static struct oxp_member members[SERVICES][2 * MEMBERS];

static double clock_ms(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static double now(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

/* CPU time of all threads, which other work on the machine does not affect. */
static double cpu(void)
{
	return clock_ms(CLOCK_PROCESS_CPUTIME_ID);
}

static struct oxp_address numbered_address(const char *base, uint32_t number)
{
	struct oxp_address out = address(base);

	out.bytes[13] = number >> 16;
	out.bytes[14] = number >> 8;
	out.bytes[15] = number;
	return out;
}

/* The ports of a VIP have the same members, each with a check of its own. */
static void make_all_members(void)
{
	for (uint32_t i = 0; i < SERVICES; i++)
		for (uint32_t j = 0; j < 2 * MEMBERS; j++)
			members[i][j] = (struct oxp_member){
				.address = numbered_address("10.0.0.0",
							    i / PORTS * 64 + j),
				.check = i * MEMBERS + j + 1,
				.weight = 1,
				.admin_up = 1,
			};
}

static void fill(struct oxp_wanted_service *wanted, uint32_t services,
		 uint32_t ports, uint32_t count)
{
	static const struct oxp_service_settings settings = {.slots = SLOTS};

	for (uint32_t i = 0; i < services; i++)
		wanted[i] = (struct oxp_wanted_service){
			.settings = &settings,
			.key = {.vip = numbered_address("192.0.0.1", i / ports),
				.port = 80 + i % ports,
				.protocol = 6},
			.members = members[i],
			.count = count,
		};
}

static void set_all(struct oxp_wanted_service *wanted, uint32_t count)
{
	if (oxp_services_set(node, wanted, count, error) < 0)
		fail_msg("set: %s", error);
}

static void delete_all(const struct oxp_wanted_service *wanted, uint32_t count)
{
	static struct oxp_key keys[SERVICES];

	for (uint32_t i = 0; i < count; i++)
		keys[i] = wanted[i].key;
	assert_int_equal(oxp_services_delete(node, keys, count, error), count);
}

static void verify(void)
{
	if (oxp_test_verify(node, error))
		fail_msg("verify: %s", error);
}

/* As done every second: no update has to wait for packets. */
static void tick(void)
{
	node->config->ticked -= 2000;
	assert_true(oxp_slots_age(node, error) >= 0);
}

static void apply(const struct oxp_health_result *results, uint32_t count,
		  uint32_t services, double *took, double *used)
{
	double start = now(), start_cpu = cpu();

	assert_int_equal(oxp_health_apply(node, results, count, error),
			 services);
	*took = now() - start;
	*used = cpu() - start_cpu;
}

/* All members of `vips` VIPs come up, then one of each service goes down. */
static void measure_health(uint32_t vips)
{
	static struct oxp_wanted_service wanted[SERVICES];
	static struct oxp_health_result results[SERVICES * MEMBERS];
	uint32_t services = PORTS * vips;
	double up, down, up_cpu, down_cpu;

	fill(wanted, services, PORTS, MEMBERS);
	set_all(wanted, services);
	for (uint32_t i = 0; i < services * MEMBERS; i++)
		results[i] = (struct oxp_health_result){i + 1, 1};
	apply(results, services * MEMBERS, services, &up, &up_cpu);
	tick();
	for (uint32_t i = 0; i < services; i++)
		results[i] = (struct oxp_health_result){
			i * MEMBERS + 1 + i / PORTS % MEMBERS, 0};
	apply(results, services, services, &down, &down_cpu);
	verify();
	delete_all(wanted, services);
	printf("{\"members\": %u, \"library_up\": %f, \"library_up_cpu\": %f, "
	       "\"library_down\": %f, \"library_down_cpu\": %f, ",
	       services * MEMBERS, up, up_cpu, down, down_cpu);
}

/* Compute the table of a VIP once, with our own builder, and write it for each
 * of its services. */
static void write_entries(int map, uint32_t vips)
{
	static uint16_t table[SLOTS], weights[MEMBERS];
	static uint32_t keys[SLOTS];
	static uint64_t values[SLOTS];
	struct oxp_address addresses[MEMBERS];
	uint32_t count;

	for (uint32_t i = 0; i < PORTS * vips; i++) {
		if (i % PORTS == 0) {
			for (uint32_t j = 0; j < MEMBERS; j++) {
				addresses[j] = members[i][j].address;
				weights[j] = 1;
			}
			oxp_test_maglev(addresses, weights, MEMBERS, SLOTS,
					table);
		}
		for (uint32_t j = 0; j < SLOTS; j++) {
			keys[j] = i * SLOTS + j;
			values[j] = table[j];
		}
		count = SLOTS;
		assert_int_equal(
			bpf_map_update_batch(map, keys, values, &count, NULL),
			0);
	}
}

static void measure_baseline(uint32_t vips)
{
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "baseline", 4, 8,
				 PORTS * vips * SLOTS, NULL);
	double start = now();

	assert_true(map >= 0);
	write_entries(map, vips);
	printf("\"baseline_up\": %f}\n", now() - start);
	close(map);
}

static double timed_set(struct oxp_wanted_service *wanted)
{
	double start = now();

	set_all(wanted, VIPS);
	return now() - start;
}

/* A full resync of 1,000 services with 20 members, starting empty. */
static void measure_resync(void)
{
	static struct oxp_wanted_service wanted[VIPS];
	double empty, again;

	for (uint32_t i = 0; i < VIPS; i++)
		for (uint32_t j = 0; j < 2 * MEMBERS; j++)
			members[i][j].check = 0;
	fill(wanted, VIPS, 1, 2 * MEMBERS);
	empty = timed_set(wanted);
	again = timed_set(wanted);
	tick();
	for (uint32_t i = 0; i < VIPS; i++)
		wanted[i].count--;
	printf("{\"empty\": %f, \"unchanged\": %f, \"one_less\": %f}\n", empty,
	       again, timed_set(wanted));
	verify();
}

static void measure_table(uint32_t slots, uint32_t count, bool weighted)
{
	static uint16_t table[65537];
	struct oxp_address addresses[256];
	double took = 0;
	uint16_t weights[256];

	for (uint32_t i = 0; i < count; i++) {
		addresses[i] = numbered_address("10.0.0.0", i);
		weights[i] = weighted ? 1 + i * 7 % 100 : 1;
	}
	for (int i = 0; i < BUILDS; i++) {
		double start;

		/* keep the branch predictor from learning one table */
		for (uint32_t j = 0; j < count; j++)
			addresses[j].bytes[13] = i;
		start = now();
		oxp_test_maglev(addresses, weights, count, slots, table);
		took += now() - start;
	}
	printf("{\"slots\": %u, \"members\": %u, \"weighted\": %s, "
	       "\"build\": %f}\n",
	       slots, count, weighted ? "true" : "false", took / BUILDS);
}

static void bench(void **state)
{
	static const uint32_t vips[] = {1, 10, 100, 1000};
	struct oxp_options options = {
		.pin_directory = "/mnt/bpf/bench",
		.lock_file = "/mnt/lock",
		.create = 1,
		.services_max = SERVICES + 48,
		.members_max = 65536,
	};

	(void)state;
	if (oxp_open(&options, &node, error))
		fail_msg("open: %s", error);
	make_all_members();
	measure_table(13313, 10, false);
	measure_table(13313, 10, true);
	measure_table(65537, 100, false);
	for (int i = 0; i < 4; i++) {
		measure_health(vips[i]);
		measure_baseline(vips[i]);
	}
	measure_resync();
	assert_int_equal(oxp_test_destroy(node, error), 0);
	oxp_close(node);
}

int main(void)
{
	const struct CMUnitTest cases[] = {cmocka_unit_test(bench)};

	return cmocka_run_group_tests(cases, enter_namespace, NULL);
}
