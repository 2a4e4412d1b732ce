// SPDX-License-Identifier: Apache-2.0
/* The MSS that a member offers. */
#include <netinet/in.h>

#include "member_harness.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

static struct bench bench;
static const struct member_config clamped = {.mss_v4 = 1432, .mss_v6 = 1392};

static void begin(const struct member_config *config)
{
	set_up(&bench, TC, config);
}

static int end(void **state)
{
	(void)state;
	tear_down(&bench);
	return 0;
}

static struct packet segment(bool v6, uint8_t flags, const uint8_t *options,
			     size_t length)
{
	return (struct packet){
		.from = v6 ? VIP6 : VIP,
		.to = v6 ? CLIENT6 : CLIENT,
		.protocol = IPPROTO_TCP,
		.from_port = 80,
		.to_port = 40000,
		.flags = flags,
		.options = options,
		.options_length = length,
	};
}

/* `expected`: the options that leave. */
static void check(bool v6, uint8_t flags, const uint8_t *options,
		  const uint8_t *expected, size_t length)
{
	struct packet sent = segment(v6, flags, options, length);
	struct packet seen = segment(v6, flags, expected, length);
	struct frame in, out;

	for (unsigned int tags = 0; tags < 3; tags++) {
		make_plain(&in, &sent, tags);
		make_plain(&out, &seen, tags);
		expect_out(&bench, &in, &out);
	}
}

static void check_left(bool v6, uint8_t flags, const uint8_t *options,
		       size_t length)
{
	check(v6, flags, options, options, length);
}

#define TEST(name) TEST_WITH(name, NULL, end)

TEST(test_mss_above_the_limit_is_lowered)
{
	static const uint8_t flags[] = {SYN, SYN | ACK};
	uint8_t options[4] = {2, 4}, expected[4] = {2, 4};
	uint64_t lowered = 0;

	begin(&clamped);
	for (int v6 = 0; v6 < 2; v6++) {
		unsigned int limit = v6 ? clamped.mss_v6 : clamped.mss_v4;

		for (unsigned int mss = 0; mss < 0x10000; mss += 251) {
			unsigned int result = mss < limit ? mss : limit;

			options[2] = mss >> 8;
			options[3] = mss;
			expected[2] = result >> 8;
			expected[3] = result;
			check(v6, flags[mss & 1], options, expected, 4);
			lowered += mss > limit ? 3 : 0;
		}
	}
	assert_int_equal(counter(&bench, MEMBER_MSS_OUT), lowered);
	assert_int_equal(all_counters(&bench), lowered);
}

TEST(test_mss_is_found_among_options)
{
	/* SACK permitted, NOPs: even and odd offsets; last in 40 bytes */
	uint8_t even[] = {4, 2, 1, 1, 2, 4, 0x23, 0x28, 1, 1, 1, 0};
	uint8_t odd[] = {1, 2, 4, 0x23, 0x28, 1, 4, 2};
	uint8_t last[40];

	begin(&clamped);
	for (int v6 = 0; v6 < 2; v6++) {
		unsigned int limit = v6 ? clamped.mss_v6 : clamped.mss_v4;
		uint8_t expected[40];

		memcpy(expected, even, sizeof(even));
		expected[6] = limit >> 8;
		expected[7] = limit;
		check(v6, SYN, even, expected, sizeof(even));
		memcpy(expected, odd, sizeof(odd));
		expected[3] = limit >> 8;
		expected[4] = limit;
		check(v6, SYN | ACK, odd, expected, sizeof(odd));
		memset(last, 1, sizeof(last));
		memcpy(last + 36, (uint8_t[]){2, 4, 0x23, 0x28}, 4);
		memcpy(expected, last, sizeof(last));
		expected[38] = limit >> 8;
		expected[39] = limit;
		check(v6, SYN, last, expected, sizeof(last));
	}
}

TEST(test_other_segments_and_broken_options_are_left)
{
	static const uint8_t flags[] = {ACK, FIN | ACK, RST, RST | ACK};
	static const uint8_t large[] = {2, 4, 0x23, 0x28};
	static const uint8_t ended[] = {0, 0, 0, 0, 2, 4, 0x23, 0x28};
	static const uint8_t endless[] = {3, 0, 1, 1, 2, 4, 0x23, 0x28};
	static const uint8_t longer[] = {3, 40, 1, 1, 2, 4, 0x23, 0x28};
	static const uint8_t other[] = {2, 3, 0x23, 0x28};
	static const uint8_t beyond[] = {1, 1, 2, 4};
	struct packet packet;
	struct frame frame;

	begin(&clamped);
	for (int v6 = 0; v6 < 2; v6++) {
		for (size_t i = 0; i < sizeof(flags); i++)
			check_left(v6, flags[i], large, sizeof(large));
		check_left(v6, SYN, NULL, 0);
		check_left(v6, SYN, ended, sizeof(ended));
		check_left(v6, SYN, endless, sizeof(endless));
		check_left(v6, SYN, longer, sizeof(longer));
		check_left(v6, SYN, other, sizeof(other));
		check_left(v6, SYN, beyond, sizeof(beyond));
		packet = segment(v6, SYN, large, sizeof(large));
		packet.from = v6 ? OWN6 : OWN;
		make_plain(&frame, &packet, 0);
		expect_out(&bench, &frame, &frame);
		packet.from = v6 ? VIP6 : VIP;
		packet.protocol = IPPROTO_UDP;
		make_plain(&frame, &packet, 0);
		expect_out(&bench, &frame, &frame);
	}
	assert_int_equal(all_counters(&bench), 0);
}

TEST(test_mss_is_left_without_a_limit)
{
	static const uint8_t large[] = {2, 4, 0xff, 0xff};

	begin(NULL);
	check_left(false, SYN, large, sizeof(large));
	check_left(true, SYN, large, sizeof(large));
}

/* One segment in which both port and MSS change. */
TEST(test_mss_and_port_of_one_segment_change)
{
	const struct member_config both = {
		.mss_v4 = 1432, .mss_v6 = 1392, .has_ports = 1};
	static const uint8_t large[] = {1, 2, 4, 0x23, 0x28, 1, 1, 1};
	uint8_t expected[sizeof(large)];
	struct packet sent, seen;
	struct frame in, out;

	begin(&both);
	add_port(&bench, VIP, IPPROTO_TCP, 443, 80);
	memcpy(expected, large, sizeof(large));
	expected[3] = both.mss_v4 >> 8;
	expected[4] = (uint8_t)both.mss_v4;
	sent = segment(false, SYN | ACK, large, sizeof(large));
	seen = segment(false, SYN | ACK, expected, sizeof(expected));
	seen.from_port = 443;
	make_plain(&in, &sent, 0);
	make_plain(&out, &seen, 0);
	expect_out(&bench, &in, &out);
}

RUN_TESTS(NULL, NULL)
