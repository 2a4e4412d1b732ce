// SPDX-License-Identifier: Apache-2.0
/* A hypervisor's ports, rules and entries: refusals and lists. */
#include <errno.h>
#include <netinet/in.h>

#include "host_harness.h"

static const struct oxh_sizes small = {.entries = 3, .ports = 2};

static void expect_refused(const struct oxh_entry *entry, int status,
			   const char *text)
{
	memset(error, 0, sizeof(error));
	assert_int_equal(oxh_entry_set(host, entry, error), status);
	if (!strstr(error, text))
		fail_msg("\"%s\" does not say \"%s\"", error, text);
}

HOST_TEST(test_impossible_entries_are_refused)
{
	struct oxh_entry entry, good = entry_of(KEY, 1);

	fresh_host(&small);
	expect_refused(&good, -ENOENT, "key 5: no such port");
	set_open_port(1, 0);
	entry = good;
	entry.key = 0;
	expect_refused(&entry, -EINVAL, "0 is none");
	entry = good;
	entry.vip_port = 0;
	expect_refused(&entry, -EINVAL, "0 is none");
	entry = good;
	entry.port = 0;
	expect_refused(&entry, -EINVAL, "0 is none");
	entry = good;
	entry.protocol = IPPROTO_ICMP;
	expect_refused(&entry, -EPROTONOSUPPORT, "protocol 1");
	entry = good;
	entry.protocol = IPPROTO_SCTP;
	expect_refused(&entry, -EPROTONOSUPPORT, "are not rewritten");
	entry = good;
	entry.fixed = address("fd00:7::5");
	expect_refused(&entry, -EAFNOSUPPORT, "two families");
	assert_ok(oxh_entries_list(host, NULL, 0, error));
}

HOST_TEST(test_keys_and_listeners_belong_to_each_other)
{
	struct oxh_entry entry = entry_of(KEY, 1), other;

	fresh_listener(&small, 0);
	set_open_port(2, 0);
	set_entry(&entry);
	other = entry;
	other.key++;
	expect_refused(&other, -EEXIST, "has key 5");
	other = entry;
	other.port++;
	expect_refused(&other, -EEXIST, "another listener's or member's");
	/* the same fixed address of another tenant */
	other = entry_of(KEY + 1, 2);
	set_entry(&other);
	other = entry_of(KEY + 2, 1);
	other.vip_port++;
	set_entry(&other);
	other.key++;
	other.vip_port++;
	expect_refused(&other, -ENOSPC, "room for 3 entries");
	assert_int_equal(oxh_entries_list(host, NULL, 0, error), 3);
	assert_ok(oxh_entry_delete(host, KEY + 2, error));
	assert_int_equal(oxh_entry_delete(host, KEY + 2, error), 1);
	set_entry(&other);
}

HOST_TEST(test_macs_and_mss_may_change)
{
	struct oxh_entry entry = entry_of(KEY, 1), found;

	fresh_listener(&small, 0);
	entry.mac[5] = 77;
	entry.gateway_mac[5] = 78;
	entry.mss = 1300;
	set_entry(&entry);
	assert_int_equal(oxh_entries_list(host, &found, 1, error), 1);
	assert_memory_equal(&found, &entry, sizeof(entry));
}

static void expect_no_rule(const struct oxh_rule *rules, uint32_t count,
			   int status, const char *text)
{
	struct oxh_port port = port_of(1);

	assert_int_equal(oxh_port_set(host, &port, rules, count, error),
			 status);
	assert_non_null(strstr(error, text));
	assert_ok(oxh_ports_list(host, NULL, 0, error));
}

HOST_TEST(test_impossible_rules_are_refused)
{
	static struct oxh_rule many[OXH_RULES_MAX + 1];
	const struct oxh_rule good = {.remote = network("20.0.0.0", 8),
				      .port_max = 65535,
				      .family = 4};
	struct oxh_port port = port_of(1);
	struct oxh_rule rule;

	fresh_host(&small);
	for (int i = 0; i <= OXH_RULES_MAX; i++)
		many[i] = good;
	expect_no_rule(many, OXH_RULES_MAX + 1, -E2BIG,
		       "129 rules, the limit is 128");
	rule = good;
	rule.family = 5;
	expect_no_rule(&rule, 1, -EINVAL, "family is 5");
	rule = good;
	rule.remote.length = 33;
	expect_no_rule(&rule, 1, -EINVAL, "prefix length 33");
	rule = good;
	rule.port_min = 9;
	rule.port_max = 8;
	expect_no_rule(&rule, 1, -EINVAL, "ports 9 to 8");
	assert_ok(oxh_port_set(host, &port, many, OXH_RULES_MAX, error));
}

HOST_TEST(test_only_changed_ports_are_judged_again)
{
	struct oxh_rule rule = {.remote = network("20.0.0.0", 8),
				.port_max = 65535,
				.family = 4};
	struct oxh_port port = port_of(1), found;
	uint16_t before;

	fresh_host(&small);
	port.open = 0;
	assert_ok(oxh_port_set(host, &port, &rule, 1, error));
	assert_int_equal(oxh_ports_list(host, &found, 1, error), 1);
	before = found.generation;
	assert_int_equal(found.rules, 1);
	assert_ok(oxh_port_set(host, &port, &rule, 1, error));
	assert_int_equal(oxh_ports_list(host, &found, 1, error), 1);
	assert_int_equal(found.generation, before);
	rule.port_max--;
	assert_ok(oxh_port_set(host, &port, &rule, 1, error));
	port.open = 1;
	assert_ok(oxh_port_set(host, &port, &rule, 1, error));
	assert_int_equal(oxh_ports_list(host, &found, 1, error), 1);
	assert_int_equal(found.generation, before + 2);
}

HOST_TEST(test_ports_are_limited_and_removed_with_entries)
{
	struct oxh_entry entry = entry_of(KEY, 2);
	struct oxh_port third = port_of(3);

	fresh_host(&small);
	set_open_port(1, 0);
	set_open_port(2, 0);
	assert_int_equal(oxh_port_set(host, &third, NULL, 0, error), -ENOSPC);
	assert_non_null(strstr(error, "room for 2 ports"));
	set_entry(&entry);
	assert_ok(oxh_port_delete(host, entry.port_id, error));
	assert_int_equal(oxh_port_delete(host, entry.port_id, error), 1);
	assert_ok(oxh_entries_list(host, NULL, 0, error));
	assert_ok(oxh_port_set(host, &third, NULL, 0, error));
}

RUN_TESTS(enter_host_namespace, NULL)
