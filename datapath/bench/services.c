// SPDX-License-Identifier: Apache-2.0
/* The cost of packets with many services: at one VIP, and at one VIP each. */
#include "cases.h"

#include <netinet/in.h>

#include "node/uplinks.h"

/* Tick as the agent does every second. A busy node watches no flows. */
static void tick(void)
{
	if (oxp_slots_age(node, error) < 0)
		fail_msg("age: %s", error);
	node->config->watched = 0;
	assert_int_equal(watch_uplinks(node, error), 0);
}

void measure_ports(void)
{
	static struct oxp_wanted_service wanted[SERVICES_MAX];
	struct oxp_service_settings settings = {.slots = TEST_SLOTS};
	struct oxp_member members[MEMBERS];
	struct traffic one = {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 10,
			      .port = 0x4000};
	struct traffic all = one;

	all.ports = 8191;
	members_like(members, "10.1.0.1");
	set(tcp_key(VIP, one.port), &settings, "10.1.0.1", 1);
	run_case("1 service", one);
	for (int i = 0; i < SERVICES_MAX; i++)
		wanted[i] = (struct oxp_wanted_service){
			.key = tcp_key(VIP, one.port + i),
			.settings = &settings,
			.members = members,
			.count = 1,
		};
	if (oxp_services_set(node, wanted, SERVICES_MAX, error) < 0)
		fail_msg("services: %s", error);
	tick();
	run_case("10,000 services, packets to one of them", one);
	run_case("10,000 services, packets to 8192 of them at random", all);
}

#define VIPS 8192

/* One service at each VIP, as with many tenants. */
static void set_vips(void)
{
	static struct oxp_wanted_service services[VIPS];
	static struct oxp_member members[VIPS][MEMBERS];

	for (int i = 0; i < VIPS; i++) {
		members_like(members[i], "10.1.0.1");
		for (int j = 0; j < MEMBERS; j++) {
			members[i][j].address.bytes[13] = 1 + i / 250;
			members[i][j].address.bytes[14] = i % 250;
		}
		services[i] = (struct oxp_wanted_service){
			.key = tcp_key("198.18.0.0", 80),
			.members = members[i],
			.count = MEMBERS,
		};
		services[i].key.vip.bytes[14] += i >> 8;
		services[i].key.vip.bytes[15] = i;
	}
	if (oxp_services_set(node, services, VIPS, error) < 0)
		fail_msg("VIPs: %s", error);
	tick();
}

/* The floor reads one random line of memory, so the ratio tells the cost of a
 * packet in such reads. */
void measure_vips(void)
{
	static const struct {
		const char *name;
		uint16_t vips;
	} cases[] = {
		{"16 Ki flows over 100 VIPs, beside one random line", 100},
		{"16 Ki flows over 1,000 VIPs, beside one random line", 1000},
		{"16 Ki flows over 3,000 VIPs, beside one random line", 3000},
		{"16 Ki flows over 8,192 VIPs, beside one random line", VIPS},
	};
	struct traffic traffic = {"198.18.0.0", IPPROTO_TCP, 0x10,
				  .flows = 1 << 14, .reads_a_line = true};

	set_vips();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		traffic.vips = cases[i].vips;
		run_case(cases[i].name, traffic);
	}
}
