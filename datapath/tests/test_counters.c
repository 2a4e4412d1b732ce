// SPDX-License-Identifier: Apache-2.0
/* Counters: each packet counts once, on any CPU, even while others read. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "harness.h"

#define SERVICES 40U /* more than are read one by one */
#define MEMBERS 2U
#define SYN 2
#define BYTES 50 /* IP packet: 20, 20 and 10 */

static struct oxp_node *node;

static void open_node(void)
{
	node = open_sized("counters", (struct oxp_options){
					      .services_max = SERVICES,
					      .members_max = MEMBERS * SERVICES,
					      .slots_max = TEST_SLOTS});
}

static void set(uint16_t port, uint8_t group)
{
	struct oxp_key key = tcp_key(VIP, port);
	struct oxp_member members[MEMBERS];

	make_members(members, MEMBERS, group, 0);
	set_service(node, &key, members, MEMBERS);
}

static int set_up(void **state)
{
	(void)state;
	open_node();
	for (uint32_t i = 0; i < SERVICES; i++)
		set(1 + i, i);
	return 0;
}

/* With many services CPUs batch their counts. */
static int set_up_many(void **state)
{
	int status = set_up(state);

	node->config->usual_slots = TEST_SLOTS;
	return status;
}

static int tear_down(void **state)
{
	(void)state;
	remove_state(node);
	return 0;
}

/* Send packets to a port, every other one a SYN, and as many from an impossible
 * source. Returns how many had a wrong result. */
static int send_packets(int program, uint16_t port, int count)
{
	struct flow flow = {CLIENT, VIP, 40000, port, IPPROTO_TCP};
	struct flow martian = {"127.0.0.1", VIP, 40000, port, IPPROTO_TCP};
	struct variation opening = {.tcp_flags = SYN};
	struct frame frame[2], dropped;
	int wrong = 0;

	make_frame(&frame[0], &flow, 10, &opening);
	make_frame(&frame[1], &flow, 10, NULL);
	make_frame(&dropped, &martian, 10, NULL);
	for (int i = 0; i < count; i++) {
		wrong += run(program, &frame[i & 1], NULL) != XDP_TX;
		wrong += run(program, &dropped, NULL) != XDP_DROP;
	}
	return wrong;
}

static int read_services(struct oxp_service *out)
{
	return oxp_services_list(node, out, SERVICES, error);
}

/* Counters of a service, and the sum over its members. */
static void expect_one(uint16_t port, uint64_t packets)
{
	struct oxp_counters wanted = {packets, packets * BYTES, packets / 2};
	struct oxp_key key = tcp_key(VIP, port);
	struct oxp_member_state members[MEMBERS];
	struct oxp_counters sum = {};
	struct oxp_service one;

	assert_ok(oxp_service_get(node, &key, &one, error));
	assert_memory_equal(&one.counters, &wanted, sizeof(wanted));
	assert_int_equal(oxp_members_list(node, &key, members, MEMBERS, error),
			 MEMBERS);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		sum.packets += members[i].counters.packets;
		sum.bytes += members[i].counters.bytes;
		sum.flows += members[i].counters.flows;
	}
	assert_memory_equal(&sum, &wanted, sizeof(wanted));
}

/* All counters agree on the service at a port, and show nothing for the
 * others. */
static void expect_counted(uint16_t port, uint64_t packets)
{
	struct oxp_counters wanted = {packets, packets * BYTES, packets / 2};
	struct oxp_service all[SERVICES];
	struct oxp_outcome_counters outcomes[OXP_OUTCOMES];

	expect_one(port, packets);
	assert_int_equal(read_services(all), SERVICES);
	for (uint32_t i = 0; i < SERVICES; i++)
		assert_memory_equal(&all[i].counters,
				    all[i].key.port == port
					    ? &wanted
					    : &(struct oxp_counters){},
				    sizeof(wanted));
	assert_int_equal(oxp_outcomes_list(node, outcomes, OXP_OUTCOMES, error),
			 OXP_OUTCOMES);
	assert_int_equal(outcomes[OXP_DROP_MARTIAN].packets, packets);
	assert_int_equal(outcomes[OXP_DROP_MARTIAN].bytes,
			 packets * (ETH_HLEN + BYTES));
}

static bool move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

#define TEST(name)                                                             \
	DEFINE_TEST(name, {#name, name, set_up, tear_down, NULL},              \
		    {"many_" #name, name, set_up_many, tear_down, NULL})

TEST(test_packets_on_every_cpu_are_counted_once)
{
	int program = forward_program(node), used = 0;
	cpu_set_t before;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		if (!move_to(cpu))
			continue;
		assert_int_equal(send_packets(program, 7, 100), 0);
		used++;
	}
	sched_setaffinity(0, sizeof(before), &before);
	print_message("packets on %d CPUs\n", used);
	expect_counted(7, 100 * used);
	close(program);
	/* reopened by a restarted process */
	oxp_close(node);
	open_node();
	expect_counted(7, 100 * used);
}

#define SENDERS 3
#define EACH (is_quick() ? 5000U : 20000U)

struct sender {
	pthread_t thread;
	int program, wrong, *running;
};

static void *send_many(void *argument)
{
	struct sender *sender = argument;

	sender->wrong = send_packets(sender->program, 5, EACH);
	__atomic_fetch_sub(sender->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* With several senders and a reader: values never decrease, never exceed what
 * was sent, and are complete at the end. */
TEST(test_counters_read_under_traffic_never_fall)
{
	struct oxp_outcome_counters outcomes[OXP_OUTCOMES], dropped = {};
	uint64_t last = 0, looks = 0;
	int program = forward_program(node);
	struct oxp_service all[SERVICES];
	struct sender sender[SENDERS];
	int running = SENDERS;

	for (int i = 0; i < SENDERS; i++) {
		sender[i].program = program;
		sender[i].running = &running;
		pthread_create(&sender[i].thread, NULL, send_many, &sender[i]);
	}
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		assert_int_equal(read_services(all), SERVICES);
		assert_int_equal(all[4].key.port, 5);
		assert_in_range(all[4].counters.packets, last, SENDERS * EACH);
		last = all[4].counters.packets;
		oxp_outcomes_list(node, outcomes, OXP_OUTCOMES, error);
		assert_in_range(outcomes[OXP_DROP_MARTIAN].packets,
				dropped.packets, SENDERS * EACH);
		assert_in_range(outcomes[OXP_DROP_MARTIAN].bytes, dropped.bytes,
				SENDERS * EACH * (ETH_HLEN + BYTES));
		dropped = outcomes[OXP_DROP_MARTIAN];
		looks++;
	}
	for (int i = 0; i < SENDERS; i++) {
		pthread_join(sender[i].thread, NULL);
		assert_int_equal(sender[i].wrong, 0);
	}
	print_message("read %llu times\n", (unsigned long long)looks);
	expect_counted(5, SENDERS * EACH);
	close(program);
}

/* A CPU that does the same as add_pending(), but slowly. */
struct slow_cpu {
	pthread_t thread;
	uint32_t service;
	uint64_t counted;
	int ending;
};

static void *count_slowly(void *argument)
{
	struct slow_cpu *cpu = argument;
	struct pending_counts *pending = &node->pending[0];
	struct traffic_counters *traffic =
		&node->service_counters[cpu->service].traffic;

	while (!__atomic_load_n(&cpu->ending, __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < PENDING_COUNTS; i++) {
			pending->entry[i] = (struct pending_count){
				cpu->service, UINT32_MAX, BYTES, 0};
			__atomic_store_n(&pending->count, i + 1,
					 __ATOMIC_RELEASE);
			__atomic_fetch_add(&cpu->counted, 1, __ATOMIC_SEQ_CST);
		}
		__atomic_fetch_add(&pending->turns, 1, __ATOMIC_SEQ_CST);
		for (uint32_t i = 0; i < PENDING_COUNTS; i++) {
			__atomic_fetch_add(&traffic->packets, 1,
					   __ATOMIC_SEQ_CST);
			if (i % 16 == 15)
				sched_yield();
			__atomic_fetch_add(&traffic->bytes, BYTES,
					   __ATOMIC_SEQ_CST);
		}
		__atomic_store_n(&pending->count, 0, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&pending->turns, 1, __ATOMIC_SEQ_CST);
		usleep(10); /* give readers a chance */
	}
	return NULL;
}

TEST_WITH(test_pending_counts_are_read_once, set_up, tear_down)
{
	struct oxp_key key = tcp_key(VIP, 3);
	struct oxp_service one;
	const int looks = is_quick() ? 6000 : 30000;
	struct slow_cpu cpu = {};
	uint64_t before = 0, after = 0;
	bool right = true;

	assert_ok(oxp_service_get(node, &key, &one, error));
	cpu.service = one.index;
	pthread_create(&cpu.thread, NULL, count_slowly, &cpu);
	for (int i = 0; i < looks && right; i++) {
		before = __atomic_load_n(&cpu.counted, __ATOMIC_SEQ_CST);
		right = !oxp_service_get(node, &key, &one, error);
		after = __atomic_load_n(&cpu.counted, __ATOMIC_SEQ_CST);
		/* one may be noted but not yet counted */
		right = right && one.counters.packets >= before &&
			one.counters.packets <= after + 1 &&
			one.counters.bytes == one.counters.packets * BYTES;
	}
	__atomic_store_n(&cpu.ending, 1, __ATOMIC_RELEASE);
	pthread_join(cpu.thread, NULL);
	if (!right)
		fail_msg("%llu packets and %llu bytes between %llu and %llu",
			 (unsigned long long)one.counters.packets,
			 (unsigned long long)one.counters.bytes,
			 (unsigned long long)before, (unsigned long long)after);
}

/* All counters of the node are in use, so new services and members get those of
 * old ones. */
TEST(test_counters_of_new_services_begin_at_zero)
{
	struct oxp_key key = tcp_key(VIP, 9), other = tcp_key(VIP, 999);
	struct oxp_member_state members[MEMBERS];
	struct oxp_service before, after;
	int program = forward_program(node);

	assert_int_equal(send_packets(program, 9, 10), 0);
	close(program);
	assert_ok(oxp_service_get(node, &key, &before, error));
	assert_int_equal(before.counters.packets, 10);
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
	set(999, 200);
	assert_ok(oxp_service_get(node, &other, &after, error));
	assert_int_equal(after.index, before.index);
	assert_int_equal(after.counters.packets, 0);
	assert_int_equal(after.counters.bytes, 0);
	assert_int_equal(after.counters.flows, 0);
	assert_int_equal(
		oxp_members_list(node, &other, members, MEMBERS, error),
		MEMBERS);
	for (uint32_t i = 0; i < MEMBERS; i++)
		assert_int_equal(members[i].counters.packets, 0);
	/* counts still pending for the old ones */
	program = forward_program(node);
	assert_int_equal(send_packets(program, 7, 2 * PENDING_COUNTS), 0);
	assert_ok(oxp_service_get(node, &other, &after, error));
	assert_int_equal(after.counters.packets, 0);
	assert_int_equal(after.counters.bytes, 0);
	expect_one(999, 0);
	for (int i = 1; i <= 3 * PENDING_COUNTS; i++) {
		assert_int_equal(send_packets(program, 999, 2), 0);
		expect_one(7, 2 * PENDING_COUNTS);
		expect_one(999, 2 * i);
	}
	close(program);
}

RUN_TESTS(enter_namespace, NULL)
