// SPDX-License-Identifier: Apache-2.0
/* oxp_test_verify() detects and names each kind of damage, and only that. */
#include <netinet/in.h>

#include <bpf/bpf.h>

#include "service_fixture.h"
#include "table/heads.h"

static struct service_block *block; /* of HTTP, whose slots are open */
static struct service_entry *entry; /* of HTTP */

static int set_up_two(void **state)
{
	struct oxp_network networks[] = {{address("10.0.0.0"), 8},
					 {address("2001:db8::"), 32}};
	struct oxp_service_settings quic = {.slots = TEST_SLOTS,
					    .flags = OXP_SERVICE_QUIC};
	struct oxp_service_settings limited = {
		.slots = TEST_SLOTS, .allowed = networks, .allowed_count = 2};
	struct oxp_key udp = udp_key(VIP, 443);
	struct oxp_member members[4];

	set_up(state);
	make_members(members, 4, 0, 0);
	set_service_as(node, &udp, &quic, members, 3);
	set_service_as(node, &http, &limited, members, 3);
	set_service_as(node, &http, &limited, members, 4);
	assert_true(show().open_slots > 0);
	block = live_block(node, show().index);
	entry = entry_of(node, show().index);
	return 0;
}

static void expect_fault(const char *text)
{
	error[0] = '\0';
	assert_int_equal(oxp_test_verify(node, error), 1);
	if (!strstr(error, text))
		fail_msg("\"%s\" instead of \"%s\"", error, text);
}

static void expect_sound(void)
{
	assert_ok(oxp_test_verify(node, error));
}

/* Replace what is at `at` by `with`, for one call. */
static void damage(void *at, size_t size, const void *with, const char *text)
{
	char before[8];

	assert_true(size <= sizeof(before));
	assert_memory_not_equal(at, with, size);
	memcpy(before, at, size);
	memcpy(at, with, size);
	expect_fault(text);
	memcpy(at, before, size);
	expect_sound();
}

#define DAMAGE(place, value, text)                                             \
	do {                                                                   \
		__typeof__(place) with = (value);                              \
		damage(&(place), sizeof(place), &with, text);                  \
	} while (0)

#undef TEST
#define TEST(name) TEST_WITH(name, set_up_two, tear_down)

TEST(test_damaged_blocks_are_found)
{
	uint32_t open = 0, closed = 0;
	uint8_t *before = (uint8_t *)before_of(block);
	uint8_t *slot = (uint8_t *)slots_of(block);
	struct member_head *head = (struct member_head *)heads_of(block);

	expect_sound();
	while (!slot_is_open(block, open))
		open++;
	while (slot_is_open(block, closed))
		closed++;
	DAMAGE(block->slots, 1008, "its table has an impossible size");
	DAMAGE(block->slots, 1013, "its table has an impossible size");
	DAMAGE(block->members, 257, "its table has an impossible size");
	DAMAGE(block->enabled, 3, "flags contradict each other");
	DAMAGE(block->member[2].flags,
	       block->member[2].flags & ~MEMBER_TAKES_FLOWS,
	       "flags contradict each other");
	DAMAGE(slot[closed], slot[closed] ^ 1,
	       "its table is not the one of its members");
	DAMAGE(block->member[1].weight, 7,
	       "its table is not the one of its members");
	DAMAGE(block->member[1].outer[3], htonl(10 << 24 | 9),
	       "its packets do not go to its members");
	DAMAGE(block->member[1].outer_type, OUTER_GRE_V4,
	       "its packets do not go to its members");
	DAMAGE(block->member[1].outer_type, OUTER_IPIP_V4 | OUTER_PORT,
	       "its packets do not go to its members");
	DAMAGE(head[1].outer[3], htonl(10 << 24 | 9), "packets read something");
	DAMAGE(head[1].counter, head[0].counter, "packets read something");
	DAMAGE(head[1].flags, head[1].flags & ~MEMBER_TAKES_FLOWS,
	       "packets read something");
	DAMAGE(head[1].key, 1, "packets read something");
	DAMAGE(block->member[1].port, htons(80),
	       "its packets do not go to its members");
	DAMAGE(block->encapsulation, OXP_GUE,
	       "its packets do not go to its members");
	DAMAGE(block->member[1].counter, block->member[0].counter,
	       "is another one's, too");
	DAMAGE(block->member[1].counter, node->config->members_max,
	       "is another one's, too");
	DAMAGE(before[open], 9, "an open slot leads to nobody");
	DAMAGE(block->open, 1, "it has more open slots than it says");
}

static void expect_damage_is_survived(uint32_t *word)
{
	uint32_t before = *word;
	struct oxp_service services[4];
	struct oxp_info info;

	*word = UINT32_MAX;
	expect_fault("its key does not lead to it");
	assert_ok(oxp_info_get(node, &info, error));
	assert_int_equal(oxp_services_list(node, services, 4, error), 2);
	*word = before;
	expect_sound();
}

TEST(test_damaged_keys_are_found)
{
	struct lookup_key key = entry_key(entry);
	struct lookup_key vip = lookup_key(entry->vip, 0, 0);
	struct lookup_key stray = lookup_key(entry->vip, htons(9), IPPROTO_TCP);
	uint32_t *value = lookup_value(node, false, entry->place);
	int64_t place = lookup_find(node, &vip);
	struct vip_entry *one = &node->vips[entry->vip_index];

	assert_int_equal(lookup_find(node, &key), entry->place);
	/* to the other service, which still has its key */
	DAMAGE(*value, *value ^ 2, "its key does not lead to it");
	DAMAGE(one->services, 1, "a VIP has another number of services");
	DAMAGE(one->fragment_port_tcp, htons(81),
	       "fragments to a VIP go to another port");
	DAMAGE(one->fragment_port_sctp, htons(80),
	       "fragments to a VIP go to another port");
	DAMAGE(node->lookup_v4[3].overflow, 5, "wrong counts");
	DAMAGE(node->lookup_v6[3].overflow, 5, "wrong counts");
	place = lookup_insert(node, &stray, 0);
	assert_true(place >= 0);
	expect_fault("keys of nobody");
	lookup_erase(node, &stray, place);
	expect_sound();
	/* unbounded indices are not followed */
	expect_damage_is_survived(&entry->place);
	expect_damage_is_survived(value);
	/* affects both services */
	one->address[15] ^= 1;
	assert_int_equal(oxp_test_verify(node, error), 2);
	assert_non_null(strstr(error, "its VIP is not known"));
	one->address[15] ^= 1;
	place = lookup_find(node, &vip);
	value = lookup_value(node, false, place);
	*value ^= 1;
	assert_int_equal(oxp_test_verify(node, error), 2);
	assert_non_null(strstr(error, "its VIP is not known"));
	*value ^= 1;
	expect_sound();
}

TEST(test_missing_and_stray_quic_servers_are_found)
{
	struct oxp_address member = address("10.1.0.2");
	struct quic_key key = {.server_id = htonl(quic_server_id(&member, 0))};
	struct quic_key stray = {.service = 9};
	int map = node->map[MAP_QUIC_SERVERS];
	__u32 value, wrong = 2;

	while (bpf_map_lookup_elem(map, &key, &value))
		assert_true(++key.service < 16);
	bpf_map_update_elem(map, &key, &wrong, BPF_ANY);
	expect_fault("its QUIC servers are not those of its members");
	bpf_map_update_elem(map, &key, &value, BPF_ANY);
	expect_sound();
	bpf_map_update_elem(map, &stray, &value, BPF_ANY);
	expect_fault("there are QUIC servers of nobody");
	bpf_map_delete_elem(map, &stray);
	expect_sound();
}

static void expect_damaged_networks(uint32_t *number)
{
	uint32_t right = *number;

	*number ^= 1;
	expect_fault("its allowed networks are not those it was given");
	*number = UINT32_MAX;
	expect_fault("its allowed networks are not those it was given");
	*number = right;
	expect_sound();
}

TEST(test_damaged_networks_are_found)
{
	struct network_list *list = at_line(node, block->networks);

	expect_damaged_networks(&list->count);
	expect_damaged_networks(&list->steps_v4);
	expect_damaged_networks(&list->inside_v6);
	expect_damaged_networks(&list->bounds_v6);
	expect_damaged_networks(&list->networks);
	/* bounds, and the networks they come from */
	expect_damaged_networks((void *)((char *)list + BOUNDS_V4));
	expect_damaged_networks((void *)((char *)list + list->networks));
}

RUN_TESTS(enter_namespace, NULL)
