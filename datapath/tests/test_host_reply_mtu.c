// SPDX-License-Identifier: Apache-2.0
/* The MTU of the interface for answers, as recorded in entries. */
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_harness.h"

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

static void reply_by(uint32_t ifindex)
{
	struct oxh_settings settings;

	assert_ok(oxh_settings_get(host, &settings, error));
	settings.reply_ifindex = ifindex;
	assert_ok(oxh_settings_set(host, &settings, error));
}

static uint32_t mtu_of(uint32_t place)
{
	return entries_of(host)[place].reply_mtu;
}

HOST_TEST(test_new_entries_have_the_mtu)
{
	struct oxh_entry entry;

	set_mtu(65536);
	fresh_listener(NULL, 0);
	assert_int_equal(mtu_of(0), LARGEST);
	set_mtu(1400);
	entry = entry_of(KEY + 1, 1);
	entry.port++;
	set_entry(&entry);
	assert_int_equal(mtu_of(1), 1400);
	entry = entry_of(KEY, 1);
	set_entry(&entry);
	assert_int_equal(mtu_of(0), 1400);
}

HOST_TEST(test_settings_update_the_mtu_of_all_entries)
{
	set_mtu(1500);
	fresh_listener(NULL, 0);
	set_mtu(9000);
	assert_int_equal(mtu_of(0), 1500);
	reply_by(LO);
	assert_int_equal(mtu_of(0), 9000);
	reply_by(NOWHERE);
	assert_int_equal(mtu_of(0), 0);
	reply_by(0);
	assert_int_equal(mtu_of(0), 0);
	/* free places stay empty */
	assert_int_equal(mtu_of(1), 0);
}

/* An older library writes no MTU: the kernel is asked for each packet. */
HOST_TEST(test_entries_without_mtu_are_served)
{
	const struct segment answer = {.flags = ACK};

	set_mtu(1500);
	fresh_listener(NULL, 0);
	entries_of(host)[0].reply_mtu = 0;
	establish(&answer);
	assert_int_equal(send_out(&answer, NULL), 14 + 42);
	assert_int_equal(outcome(OXH_SENT_TOO_BIG), 0);
	assert_int_equal(outcome(OXH_DROP_TOO_BIG), 0);
}

RUN_TESTS(enter_host_namespace, NULL)
