// SPDX-License-Identifier: Apache-2.0
/* What a hypervisor notes of flows that simply continue. */
#include "host_harness.h"
#include "state.h"

/* Two lines. */
static const struct oxh_sizes small = {
	.entries = 4, .ports = 2, .flows = 1, .half_open = 1};
#define WORDS (2 * HOST_USUAL_WAYS)

static const struct segment usual = {.flags = ACK};

static struct oxh_host *host_with_flow(void)
{
	struct oxh_entry entry = entry_of(KEY, 1);
	struct oxh_host *host = fresh_host(&small);

	set_open_port(host, 1, 0);
	set_entry(host, &entry);
	assert_int_equal(host->count[MAP_USUAL_FLOWS], 2);
	establish(host, &usual);
	return host;
}

static uint64_t *words_of(struct oxh_host *host)
{
	return host->memory[MAP_USUAL_FLOWS];
}

/* Count the words; `last` becomes one of them. */
static int count_words(struct oxh_host *host, uint64_t *last)
{
	int count = 0;

	for (int i = 0; i < WORDS; i++)
		if (words_of(host)[i]) {
			*last = words_of(host)[i];
			count++;
		}
	return count;
}

static void forget(struct oxh_host *host, enum map which)
{
	memset(host->memory[which], 0, host->size[which]);
}

/* Only known flows get through. */
static void close_port(struct oxh_host *host)
{
	forget(host, MAP_HALF_OPEN);
	ports_of(host)[0].flags &= ~HOST_PORT_OPEN;
}

static bool comes_in(struct oxh_host *host, const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	return run(host, OXH_NIC, in, make_in(in, KEY, segment), out);
}

static bool goes_out(struct oxh_host *host, const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	return run(host, OXH_TAP_IN, in, make_out(in, segment), out);
}

/* Returns the tag of the only flow, and its state. */
static uint64_t only_flow(struct oxh_host *host, uint64_t *state)
{
	struct host_flow_set *sets = host->memory[MAP_FLOWS];

	for (uint32_t i = 0; i < host->count[MAP_FLOWS]; i++)
		for (int way = 0; way < HOST_FLOW_WAYS; way++)
			if (*host_state(&sets[i], way)) {
				*state = *host_state(&sets[i], way);
				return *host_tag(&sets[i], way);
			}
	fail();
	return 0;
}

/* Fill all ways with words of unknown flows of this age. */
static void fill_lines(struct oxh_host *host, uint32_t age)
{
	uint32_t time = (now_in_units() - age) & HOST_FLOW_TIME_MASK;

	for (int i = 0; i < WORDS; i++)
		words_of(host)[i] = (uint64_t)(i + 1) << 40 |
				    time << HOST_USUAL_TIME_SHIFT |
				    HOST_USUAL_USED;
}

HOST_TEST(test_confirmed_flow_is_noted)
{
	struct oxh_host *host;
	uint64_t tag, flow, word = 0, in_line = 0;

	host = host_with_flow();
	tag = only_flow(host, &flow);
	assert_int_equal(count_words(host, &word), 1);
	for (int way = 0; way < HOST_USUAL_WAYS; way++)
		in_line |= words_of(
			host)[HOST_USUAL_WAYS * host_first_set(tag, 2) + way];
	assert_true(in_line == word);
	assert_true(host_usual_is(
		word, host_usual_name(tag, flow & HOST_FLOW_PLACE_MASK,
				      flow >> HOST_FLOW_GENERATION_SHIFT &
					      HOST_GENERATION_MASK)));
	assert_int_equal(word >> 56, 0);
	assert_int_equal(word & HOST_USUAL_DATAGRAM, 0);
	assert_int_equal(word >> HOST_USUAL_TIME_SHIFT & HOST_FLOW_TIME_MASK,
			 flow >> HOST_FLOW_TIME_SHIFT & HOST_FLOW_TIME_MASK);
	end_host(host);
}

HOST_TEST(test_noted_flow_is_searched_nowhere_else)
{
	struct oxh_host *host;

	host = host_with_flow();
	close_port(host);
	forget(host, MAP_FLOWS);
	assert_true(comes_in(host, &usual));
	assert_true(goes_out(host, &usual));
	forget(host, MAP_USUAL_FLOWS);
	assert_false(comes_in(host, &usual));
	assert_int_equal(outcome(host, OXH_DROP_NOT_ALLOWED), 1);
	end_host(host);
}

HOST_TEST(test_unnoted_flow_is_noted_by_its_next_packet)
{
	struct oxh_host *host;
	uint64_t word;

	host = host_with_flow();
	for (int way = 0; way < 2; way++) {
		forget(host, MAP_USUAL_FLOWS);
		assert_true(way ? goes_out(host, &usual)
				: comes_in(host, &usual));
		assert_int_equal(count_words(host, &word), 1);
	}
	end_host(host);
}

HOST_TEST(test_closing_flow_is_not_noted_any_more)
{
	const struct segment end = {.flags = FIN | ACK};

	for (int way = 0; way < 2; way++) {
		struct oxh_host *host = host_with_flow();
		uint64_t word;

		assert_int_equal(count_words(host, &word), 1);
		assert_true(way ? goes_out(host, &end) : comes_in(host, &end));
		assert_int_equal(count_words(host, &word), 0);
		assert_true(comes_in(host, &usual));
		assert_true(goes_out(host, &usual));
		assert_int_equal(count_words(host, &word), 0);
		end_host(host);
	}
}

HOST_TEST(test_flow_is_removed_with_its_entry)
{
	struct oxh_entry other = entry_of(KEY, 1);
	struct oxh_host *host;
	uint64_t word;

	host = host_with_flow();
	assert_int_equal(oxh_entry_delete(host, KEY, error), 0);
	assert_int_equal(count_words(host, &word), 0);
	/* at its place, another listener for the same port of the member */
	other.vip_port = LISTENER + 1;
	set_entry(host, &other);
	close_port(host);
	assert_false(goes_out(host, &usual));
	end_host(host);
}

HOST_TEST(test_another_listeners_packet_is_not_of_the_flow)
{
	const struct segment other = {.vip = "192.0.2.2", .flags = ACK};
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];
	struct oxh_entry entry = entry_of(KEY + 1, 1);
	struct oxh_host *host;

	host = host_with_flow();
	entry.vip = address(other.vip);
	set_entry(host, &entry);
	assert_false(run(host, OXH_NIC, in, make_in(in, KEY + 1, &other), out));
	assert_int_equal(outcome(host, OXH_DROP_COLLISION), 1);
	assert_true(comes_in(host, &usual));
	end_host(host);
}

HOST_TEST(test_flow_judged_again_has_one_place)
{
	struct oxh_host *host;
	uint64_t before = 0, after = 0;

	host = host_with_flow();
	assert_int_equal(count_words(host, &before), 1);
	for (int i = 0; i < 2 * HOST_USUAL_WAYS; i++) {
		ports_of(host)[0].generation++;
		assert_true(i % 2 ? comes_in(host, &usual)
				  : goes_out(host, &usual));
		assert_int_equal(count_words(host, &after), 1);
		assert_true(before != after);
		before = after;
	}
	ports_of(host)[0].generation++;
	close_port(host);
	assert_false(comes_in(host, &usual));
	end_host(host);
}

HOST_TEST(test_two_words_of_a_flow_become_one)
{
	const struct segment again = {.flags = SYN};
	struct oxh_host *host;
	uint64_t word = 0;

	host = host_with_flow();
	assert_int_equal(count_words(host, &word), 1);
	for (int i = 0; i < WORDS; i++)
		words_of(host)[i] = word - (i << HOST_USUAL_TIME_SHIFT);
	assert_true(comes_in(host, &again));
	/* the other line is not searched */
	assert_int_equal(count_words(host, &word), HOST_USUAL_WAYS + 1);
	end_host(host);
}

HOST_TEST(test_full_line_leaves_flows_in_place)
{
	const struct segment more = {.client_port = 2000, .flags = ACK};
	struct oxh_host *host;
	uint64_t before[WORDS];

	host = host_with_flow();
	fill_lines(host, 0);
	memcpy(before, words_of(host), sizeof(before));
	establish(host, &more);
	close_port(host);
	assert_true(comes_in(host, &more));
	assert_true(goes_out(host, &more));
	assert_memory_equal(words_of(host), before, sizeof(before));
	end_host(host);
}

HOST_TEST(test_late_words_give_way_and_are_removed)
{
	struct oxh_host *host;
	uint64_t word = 0;

	host = host_with_flow();
	fill_lines(host, 7440 / 16 - 10);
	assert_int_equal(oxh_tick(host, error), 0);
	assert_int_equal(count_words(host, &word), WORDS);
	fill_lines(host, 7440 / 16 + 1);
	assert_true(comes_in(host, &usual));
	assert_int_equal(count_words(host, &word), WORDS);
	assert_int_equal(oxh_tick(host, error), 0);
	assert_int_equal(count_words(host, &word), 1);
	assert_int_equal(word >> HOST_USUAL_TIME_SHIFT & HOST_FLOW_TIME_MASK,
			 now_in_units());
	end_host(host);
}

RUN_TESTS(enter_host_namespace, NULL)
