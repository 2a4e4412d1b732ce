// SPDX-License-Identifier: Apache-2.0
/* A hypervisor's flows: names, limits, expiry and checksums. */
#include <arpa/inet.h>
#include <errno.h>

#include "age_since.h"
#include "host_harness.h"

/* One set and an alternative: 16 places. */
static const struct oxh_sizes small = {
	.entries = 4, .ports = 2, .flows = 1, .half_open = 1};
#define PLACES 16

static struct oxh_port port_in(void)
{
	struct oxh_port out;

	assert_int_equal(oxh_ports_list(host, &out, 1, error), 1);
	return out;
}

static uint64_t rotated(uint64_t word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[1] = rotated(v[1], 13) ^ v[0];
		v[0] = rotated(v[0], 32);
		v[2] += v[3];
		v[3] = rotated(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotated(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotated(v[1], 17) ^ v[2];
		v[2] = rotated(v[2], 32);
	}
}

/* SipHash-1-3 for messages of any length. */
static uint64_t siphash(const uint64_t key[2], const uint8_t *message,
			size_t length)
{
	uint64_t v[4] = {
		0x736f6d6570736575 ^ key[0], 0x646f72616e646f6d ^ key[1],
		0x6c7967656e657261 ^ key[0], 0x7465646279746573 ^ key[1]};

	for (size_t i = 0; i <= length / 8; i++) {
		uint64_t word = i == length / 8 ? (uint64_t)length << 56 : 0;

		for (size_t j = 8 * i; j < length && j < 8 * i + 8; j++)
			word |= (uint64_t)message[j] << 8 * (j % 8);
		v[3] ^= word;
		sip_rounds(v, 1);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	sip_rounds(v, 3);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Follows bpf/host/hash.h; both addresses have `size` bytes. */
static uint64_t name_of(const char *fixed, const char *client, size_t size)
{
	const uint64_t *key = (const uint64_t *)settings_of(host)->seed;
	struct oxh_address one = address(fixed), other = address(client);
	uint8_t message[39];

	memcpy(message, one.bytes + 16 - size, size);
	memcpy(message + size, other.bytes + 16 - size, size);
	memcpy(message + 2 * size,
	       (uint8_t[]){0, 0, IPPROTO_TCP, MEMBER_PORT >> 8,
			   MEMBER_PORT & 255, CLIENT_PORT >> 8,
			   CLIENT_PORT & 255},
	       7);
	return siphash(key, message, 2 * size + 7) >> (64 - HOST_TAG_BITS);
}

static bool has_tag(uint64_t tag)
{
	FOR_EACH_FLOW(place)
		if (*tag_at(place) == tag)
			return true;
	return false;
}

PLAIN_TEST(test_hash_is_the_one_of_the_reference)
{
	/* key and messages as by SipHash's authors for 2-4 */
	uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	const uint8_t message[1] = {0};

	assert_int_equal(siphash(key, message, 0), 0xabac0158050fc4dc);
	assert_int_equal(siphash(key, message, 1), 0xc9f49bf37d57ca93);
}

HOST_TEST(test_names_are_hashes_under_the_hosts_secret)
{
	const struct segment segment = {};
	uint8_t seed[16];
	uint64_t tag;

	fresh_listener(&small, 0);
	establish(&segment);
	tag = name_of(FIXED, CLIENT, 4);
	assert_true(has_tag(tag));
	memcpy(seed, settings_of(host)->seed, sizeof(seed));
	fresh_listener(&small, 0);
	assert_memory_not_equal(settings_of(host)->seed, seed, sizeof(seed));
	establish(&segment);
	assert_false(has_tag(tag));
	assert_true(has_tag(name_of(FIXED, CLIENT, 4)));
}

static void establish_many(int count)
{
	for (int i = 0; i < count; i++) {
		const struct segment segment = {.client_port = 2000 + i};

		establish(&segment);
	}
}

/* Packets of the only port with this outcome. */
static uint64_t of_port(uint32_t which)
{
	struct oxh_drop all[OXH_OUTCOMES];
	int count = oxh_drops_list(host, all, OXH_OUTCOMES, error);

	assert_in_range(count, 0, OXH_OUTCOMES);
	for (int i = 0; i < count; i++)
		if (all[i].outcome == which)
			return all[i].packets;
	return 0;
}

HOST_TEST(test_port_has_no_more_flows_than_it_may)
{
	fresh_listener(&small, 3);
	establish_many(5);
	assert_int_equal(port_in().flows, 3);
	assert_int_equal(outcome(OXH_FLOWS_FULL), 2);
	assert_int_equal(of_port(OXH_FLOWS_FULL), 2);
	assert_int_equal(oxh_flows_list(host, OXH_CONFIRMED, NULL, 0, error),
			 3);
	assert_int_equal(oxh_flows_list(host, OXH_HALF_OPEN, NULL, 0, error),
			 2);
}

static void begin_many(uint16_t first, int count)
{
	for (int i = 0; i < count; i++) {
		const struct segment segment = {.client_port = first + i,
						.flags = SYN};

		assert_true(send_in(KEY, &segment, NULL));
	}
}

/* Makes half-open flows old enough to have expired. */
static void expire_half_open(void)
{
	struct host_flow_set *sets = host->memory[MAP_HALF_OPEN];
	uint64_t idle = settings_of(host)->half_open_idle + 2;

	for (size_t i = 0; i < host->size[MAP_HALF_OPEN] / sizeof(*sets); i++)
		for (uint32_t way = 0; way < HOST_FLOW_WAYS; way++) {
			__u64 *state = host_state(&sets[i], way), time;

			time = *state >> HOST_FLOW_TIME_SHIFT;
			if (!*state)
				continue;
			*state &= ~((__u64)HOST_FLOW_TIME_MASK
				    << HOST_FLOW_TIME_SHIFT);
			*state |= ((time - idle) & HOST_FLOW_TIME_MASK)
				  << HOST_FLOW_TIME_SHIFT;
		}
}

HOST_TEST(test_half_open_flows_that_give_way_are_counted)
{
	const int begun = 100;
	int left;

	fresh_listener(&small, 0);
	begin_many(2000, HOST_FLOW_WAYS);
	assert_int_equal(outcome(OXH_HALF_OPEN_EVICTED), 0);
	begin_many(2000 + HOST_FLOW_WAYS, begun - HOST_FLOW_WAYS);
	left = oxh_flows_list(host, OXH_HALF_OPEN, NULL, 0, error);
	assert_in_range(left, HOST_FLOW_WAYS, begun / 2);
	assert_int_equal(outcome(OXH_HALF_OPEN_EVICTED), begun - left);
	assert_int_equal(of_port(OXH_HALF_OPEN_EVICTED), begun - left);
	/* expired ones are nobody's loss */
	expire_half_open();
	begin_many(4000, HOST_FLOW_WAYS);
	assert_int_equal(outcome(OXH_HALF_OPEN_EVICTED), begun - left);
}

HOST_TEST(test_full_table_keeps_live_flows)
{
	const struct segment last = {.client_port = 3000, .flags = ACK};
	uint32_t flows;

	fresh_listener(&small, 0);
	establish_many(200);
	flows = port_in().flows;
	/* a flow has one or two sets */
	assert_in_range(flows, PLACES / 2, PLACES);
	assert_int_equal(oxh_flows_list(host, OXH_CONFIRMED, NULL, 0, error),
			 flows);
	assert_true(outcome(OXH_FLOWS_FULL) > 0);
	/* it is served nevertheless */
	establish(&last);
	assert_true(send_in(KEY, &last, NULL));
	assert_true(send_out(&last, NULL));
}

/* Returns the way of the only flow. */
static int only_way(uint64_t *tag)
{
	int32_t place = next_flow(0);

	assert_true(place >= 0);
	assert_int_equal(next_flow(place + 1), -1);
	*tag = *tag_at(place);
	return place % HOST_FLOW_WAYS;
}

HOST_TEST(test_flow_is_in_the_line_that_its_tag_names)
{
	int seen[2] = {0, 0};

	/* the secret differs each time */
	for (int i = 0; i < 64 && !(seen[0] && seen[1]); i++) {
		const struct segment segment = {};
		struct oxh_flow flow = {.client = address(CLIENT),
					.client_port = CLIENT_PORT,
					.key = KEY};
		uint64_t tag = 0, moved = 0;
		int way;

		fresh_listener(&small, 0);
		establish(&segment);
		way = only_way(&tag);
		assert_int_equal(way, host_line(tag) * HOST_LINE_WAYS);
		assert_ok(oxh_tick(host, error));
		/* also for a flow from another hypervisor */
		memset(host->memory[MAP_FLOWS], 0, host->size[MAP_FLOWS]);
		assert_int_equal(oxh_flows_add(host, &flow, 1, error), 1);
		assert_int_equal(only_way(&moved), way);
		assert_true(moved == tag);
		seen[host_line(tag)] = 1;
	}
	assert_true(seen[0] && seen[1]);
}

HOST_TEST(test_flows_of_a_full_line_are_found_beside_it)
{
	struct oxh_flow flows[PLACES];
	int count;

	fresh_listener(&small, 0);
	establish_many(200);
	count = oxh_flows_list(host, OXH_CONFIRMED, flows, PLACES, error);
	assert_in_range(count, PLACES / 2, PLACES);
	/* now only known flows are let in */
	memset(host->memory[MAP_HALF_OPEN], 0, host->size[MAP_HALF_OPEN]);
	ports_of(host)[0].flags &= ~HOST_PORT_OPEN;
	for (int i = 0; i < count; i++) {
		const struct segment segment = {
			.client_port = flows[i].client_port, .flags = ACK};

		assert_true(send_in(KEY, &segment, NULL));
		assert_true(send_out(&segment, NULL));
	}
}

/* Makes the entries newer than this CPU's reading of the clock, as if other
 * CPUs had written them while it waited for the lock or walked the tables. */
HOST_TEST(test_what_is_written_meanwhile_is_not_over)
{
	const enum map tables[] = {MAP_FLOWS, MAP_HALF_OPEN};
	const uint32_t ahead[] = {1, AGE_AHEAD - 2};

	fresh_listener(&small, 0);
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++) {
			struct host_flow_set *set = host->memory[tables[i]];
			uint64_t time = (now_in_units() + ahead[j]) &
					HOST_FLOW_TIME_MASK;

			*host_state(set, 0) = time << HOST_FLOW_TIME_SHIFT;
			assert_ok(oxh_tick(host, error));
			assert_int_equal(
				oxh_flows_list(host, i, NULL, 0, error), 1);
			*host_state(set, 0) = 0;
		}
}

static void set_time(__u64 *state, uint32_t time)
{
	*state &= ~((__u64)HOST_FLOW_TIME_MASK << HOST_FLOW_TIME_SHIFT);
	*state |= (__u64)time << HOST_FLOW_TIME_SHIFT;
}

/* Whether a packet in this direction does not refresh a flow of this age. */
static bool stays_as_old(uint8_t protocol, uint32_t age, bool inwards)
{
	const struct segment segment = {.protocol = protocol, .flags = ACK};
	__u64 *state = state_at(next_flow(0));
	uint32_t then = (now_in_units() - age) & HOST_FLOW_TIME_MASK;

	set_time(state, then);
	if (inwards)
		assert_true(send_in(KEY, &segment, NULL));
	else
		assert_true(send_out(&segment, NULL));
	return (*state >> HOST_FLOW_TIME_SHIFT & HOST_FLOW_TIME_MASK) == then;
}

HOST_TEST(test_flow_is_refreshed_after_a_sixteenth_of_its_time)
{
	const struct {
		uint8_t protocol;
		uint32_t idle;
	} kinds[] = {{IPPROTO_TCP, 7440}, {IPPROTO_UDP, 180}};

	for (int i = 0; i < 2; i++) {
		const struct segment segment = {.protocol = kinds[i].protocol};
		struct oxh_entry entry = entry_of(KEY, 1);
		uint32_t late = kinds[i].idle / 16;

		fresh_host(&small);
		set_open_port(1, 0);
		entry.protocol = kinds[i].protocol;
		set_entry(&entry);
		establish(&segment);
		for (int way = 0; way < 2; way++) {
			/* the clock may advance by one meanwhile, and packets'
			 * clock may be one behind */
			assert_true(
				stays_as_old(kinds[i].protocol, late - 1, way));
			assert_false(
				stays_as_old(kinds[i].protocol, late + 2, way));
			assert_false(stays_as_old(kinds[i].protocol,
						  kinds[i].idle - 1, way));
		}
		/* seconds, less the delay of a refresh */
		assert_true((kinds[i].idle - late - 1) * (1ULL << 30) >=
			    kinds[i].idle * 1000000000ULL);
	}
}

HOST_TEST(test_expired_flows_are_freed_and_counted)
{
	const struct segment one = {.client_port = 2000, .flags = ACK};
	uint32_t flows;

	fresh_listener(&small, 0);
	establish_many(4);
	flows = port_in().flows;
	assert_ok(oxh_tick(host, error));
	ports_of(host)[0].flows = 77;
	assert_ok(oxh_tick(host, error));
	assert_int_equal(port_in().flows, flows);
	FOR_EACH_FLOW(place)
		*state_at(place) -= (__u64)HOST_FLOW_AGE_MAX
				    << HOST_FLOW_TIME_SHIFT;
	/* a packet of an expired flow starts a new one */
	assert_true(send_in(KEY, &one, NULL));
	assert_int_equal(port_in().flows, flows - 1);
	assert_int_equal(oxh_tick(host, error), flows - 1);
	assert_int_equal(port_in().flows, 0);
}

HOST_TEST(test_flows_are_removed_with_their_entry)
{
	fresh_listener(&small, 2);
	establish_many(3);
	assert_ok(oxh_entry_delete(host, KEY, error));
	assert_int_equal(port_in().flows, 0);
	for (int table = OXH_CONFIRMED; table <= OXH_HALF_OPEN; table++)
		assert_ok(oxh_flows_list(host, table, NULL, 0, error));
	assert_int_equal(
		oxh_flows_list(host, OXH_HALF_OPEN + 1, NULL, 0, error),
		-EINVAL);
}

/* All checksums that a transport header may have, by its payload; only some of
 * them with OCTAVIA_XDP_PACKETS=quick. */
static void expect_right_sums(uint8_t protocol, const char *fixed)
{
	static uint8_t out[OXH_FRAME_MAX];
	const char *kind = getenv("OCTAVIA_XDP_PACKETS");
	const int step = kind && !strcmp(kind, "quick") ? 1021 : 1;

	for (int payload = 0; payload < 0x10000; payload += step) {
		const struct segment segment = {
			.fixed = fixed,
			.protocol = protocol,
			.flags = ACK,
			.payload = {payload >> 8, payload},
		};
		size_t length = send_in(KEY, &segment, out);

		assert_int_equal(length, 14 + 42);
		assert_int_equal(sum_of(out + 14, 20, 0), 0xffff);
		assert_int_equal(transport_sum(out + 14, 42), 0xffff);
		assert_int_not_equal(
			out[34 + 6] | out[34 + 7] | (protocol != 17), 0);
		length = send_out(&segment, out);
		assert_int_equal(length, 14 + 42);
		assert_int_equal(sum_of(out + 14, 20, 0), 0xffff);
		assert_int_equal(transport_sum(out + 14, 42), 0xffff);
	}
}

HOST_TEST(test_checksums_are_right_at_every_value)
{
	/* the second one keeps the sum of the addresses, the third increases it
	 * by one */
	const char *const fixed[] = {FIXED, "2.1.192.0", "192.0.2.2"};
	const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};

	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 2; j++) {
			struct oxh_entry entry = entry_of(KEY, 1);

			fresh_host(&small);
			set_open_port(1, 0);
			entry.fixed = address(fixed[i]);
			entry.protocol = protocols[j];
			set_entry(&entry);
			expect_right_sums(protocols[j], fixed[i]);
		}
}

RUN_TESTS(enter_host_namespace, NULL)
