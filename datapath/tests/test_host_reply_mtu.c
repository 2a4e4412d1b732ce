// SPDX-License-Identifier: Apache-2.0
/* The MTU of the interface for answers, as recorded in entries. */
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_harness.h"
#include "state.h"

#define LARGEST 0xffff
#define NOWHERE 999

static void set_mtu(int mtu)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_mtu = mtu};
	int opened = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(opened >= 0);
	assert_int_equal(ioctl(opened, SIOCSIFMTU, &request), 0);
	close(opened);
}

static void reply_by(struct oxh_host *host, uint32_t ifindex)
{
	struct oxh_settings settings;

	assert_int_equal(oxh_settings_get(host, &settings, error), 0);
	settings.reply_ifindex = ifindex;
	assert_int_equal(oxh_settings_set(host, &settings, error), 0);
}

static struct oxh_host *host_with_entry(void)
{
	struct oxh_host *host = fresh_host(NULL);
	struct oxh_entry entry = entry_of(KEY, 1);

	set_open_port(host, 1, 0);
	set_entry(host, &entry);
	return host;
}

static uint32_t mtu_of(struct oxh_host *host, uint32_t place)
{
	return entries_of(host)[place].reply_mtu;
}

HOST_TEST(test_new_entries_have_the_mtu)
{
	struct oxh_host *host;
	struct oxh_entry entry;

	set_mtu(65536);
	host = host_with_entry();
	assert_int_equal(mtu_of(host, 0), LARGEST);
	set_mtu(1400);
	entry = entry_of(KEY + 1, 1);
	entry.port++;
	set_entry(host, &entry);
	assert_int_equal(mtu_of(host, 1), 1400);
	entry = entry_of(KEY, 1);
	set_entry(host, &entry);
	assert_int_equal(mtu_of(host, 0), 1400);
	end_host(host);
}

HOST_TEST(test_settings_update_the_mtu_of_all_entries)
{
	struct oxh_host *host;

	set_mtu(1500);
	host = host_with_entry();
	set_mtu(9000);
	assert_int_equal(mtu_of(host, 0), 1500);
	reply_by(host, LO);
	assert_int_equal(mtu_of(host, 0), 9000);
	reply_by(host, NOWHERE);
	assert_int_equal(mtu_of(host, 0), 0);
	reply_by(host, 0);
	assert_int_equal(mtu_of(host, 0), 0);
	/* free places stay empty */
	assert_int_equal(mtu_of(host, 1), 0);
	end_host(host);
}

/* As in entries of an older library: the kernel is asked for each packet. */
HOST_TEST(test_entries_without_mtu_are_served)
{
	const struct segment answer = {.flags = ACK};
	uint8_t data[OXH_FRAME_MAX], out[OXH_FRAME_MAX];
	struct oxh_host *host;
	size_t length;

	set_mtu(1500);
	host = host_with_entry();
	entries_of(host)[0].reply_mtu = 0;
	establish(host, &answer);
	length = make_out(data, &answer);
	assert_int_equal(run(host, OXH_TAP_IN, data, length, out), length);
	assert_int_equal(outcome(host, OXH_SENT_TOO_BIG), 0);
	assert_int_equal(outcome(host, OXH_DROP_TOO_BIG), 0);
	end_host(host);
}

RUN_TESTS(enter_host_namespace, NULL)
