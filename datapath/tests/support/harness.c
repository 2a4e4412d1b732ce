// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "load/load.h"

#define ROOT "/mnt"

static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t next_hop_mac[6] = {2, 0, 0, 0, 0, 2};
static const uint8_t router_mac[6] = {2, 0, 0, 0, 0, 3};

char error[OXP_ERROR_LENGTH];
bool wait_for_packets = true;
void (*when_waiting)(void);

int __real_synchronize(char *text);
int __wrap_synchronize(char *text);

int __wrap_synchronize(char *text)
{
	if (when_waiting)
		when_waiting();
	return wait_for_packets ? __real_synchronize(text) : 0;
}

/* While states are created: only their maps are needed, so the kernel need not
 * verify programs that never run. */
static bool only_maps;

int __real_load_skeleton(const struct load *load,
			 struct bpf_object_skeleton *skeleton, int status,
			 char *text, size_t length);
int __wrap_load_skeleton(const struct load *load,
			 struct bpf_object_skeleton *skeleton, int status,
			 char *text, size_t length);

int __wrap_load_skeleton(const struct load *load,
			 struct bpf_object_skeleton *skeleton, int status,
			 char *text, size_t length)
{
	struct bpf_program *program;

	if (only_maps)
		bpf_object__for_each_program(program, *skeleton->obj)
			bpf_program__set_autoload(program, false);
	return __real_load_skeleton(load, skeleton, status, text, length);
}

bool is_quick(void)
{
	const char *kind = getenv("OCTAVIA_XDP_PACKETS");

	return kind && !strcmp(kind, "quick");
}

/* OXP_TESTS, a pattern with * and ?, selects the tests to run. */
static void __attribute__((constructor)) select_tests(void)
{
	const char *pattern = getenv("OXP_TESTS");

	if (pattern)
		cmocka_set_test_filter(pattern);
}

int enter_namespace(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", ROOT, "tmpfs", 0, NULL) ||
	    mkdir(ROOT "/bpf", 0700) ||
	    mount("bpf", ROOT "/bpf", "bpf", 0, NULL)) {
		perror("private mounts (are you root?)");
		return -1;
	}
	return 0;
}

unsigned long available_kb(void)
{
	unsigned long found = 0;
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lu kB", &found) == 1)
			break;
	if (file)
		fclose(file);
	return found;
}

static struct oxp_node *open_maps(const char *name, struct oxp_options options)
{
	struct oxp_node *node;
	char pins[64], lock[64];

	snprintf(pins, sizeof(pins), ROOT "/bpf/%s", name);
	snprintf(lock, sizeof(lock), ROOT "/lock-%s", name);
	options.pin_directory = pins;
	options.lock_file = lock;
	options.create = 1;
	only_maps = true;
	assert_ok(oxp_open(&options, &node, error));
	only_maps = false;
	return node;
}

static void configure(struct oxp_node *node,
		      const struct oxp_node_settings *settings)
{
	struct oxp_uplink uplink = {.ifindex = 1, .mtu = 1500};

	memcpy(uplink.own_mac, own_mac, sizeof(own_mac));
	memcpy(uplink.next_hop_mac_v4, next_hop_mac, sizeof(next_hop_mac));
	memcpy(uplink.next_hop_mac_v6, next_hop_mac, sizeof(next_hop_mac));
	assert_ok(oxp_uplinks_set(node, &uplink, 1, error));
	assert_ok(oxp_node_settings_set(node, settings, error));
}

struct oxp_node *open_sized(const char *name, struct oxp_options sizes)
{
	const struct oxp_node_settings settings = {.source_v4 = address(NODE)};
	struct oxp_node *node = open_maps(name, sizes);

	configure(node, &settings);
	return node;
}

void remove_state(struct oxp_node *node)
{
	assert_ok(oxp_test_verify(node, error));
	assert_ok(oxp_test_destroy(node, error));
	oxp_close(node);
}

struct oxp_node *open_state(void)
{
	return open_maps("node", (struct oxp_options){.services_max = 16,
						      .members_max = 512,
						      .slots_max = TEST_SLOTS});
}

struct oxp_node *fresh_state(void)
{
	const struct oxp_node_settings settings = {
		.source_v4 = address(NODE),
		.source_v6 = address(NODE_V6),
		.flags = OXP_NODE_ECHO | OXP_NODE_CLAMP_MSS,
		.icmp_rate = 1000000,
	};
	struct oxp_node *node = open_state();

	assert_ok(oxp_test_destroy(node, error));
	oxp_close(node);
	node = open_state();
	configure(node, &settings);
	return node;
}

int forward_program(struct oxp_node *node)
{
	struct forward *object;
	int program;

	assert_ok(load_program(node, node->config->flags, &object, error));
	program = dup(bpf_program__fd(object->progs.oxp_forward));
	forward__destroy(object);
	return program;
}

struct oxp_address address(const char *text)
{
	struct oxp_address out = {.bytes = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, out.bytes + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, out.bytes), 1);
	return out;
}

static struct oxp_key key(const char *vip, uint16_t port, uint8_t protocol)
{
	return (struct oxp_key){
		.vip = address(vip), .port = port, .protocol = protocol};
}

struct oxp_key tcp_key(const char *vip, uint16_t port)
{
	return key(vip, port, IPPROTO_TCP);
}

struct oxp_key udp_key(const char *vip, uint16_t port)
{
	return key(vip, port, IPPROTO_UDP);
}

struct oxp_key key_of(const struct flow *flow)
{
	return key(flow->destination, flow->destination_port, flow->protocol);
}

void make_members(struct oxp_member *out, uint32_t count, uint8_t group,
		  uint64_t check)
{
	for (uint32_t i = 0; i < count; i++) {
		out[i] = (struct oxp_member){
			.address = address("10.1.0.0"),
			.check = check ? check + i : 0,
			.weight = 1,
			.admin_up = 1,
		};
		out[i].address.bytes[14] = group;
		out[i].address.bytes[15] = i + 1;
	}
}

void set_service(struct oxp_node *node, const struct oxp_key *service,
		 const struct oxp_member *members, uint32_t count)
{
	struct oxp_service_settings settings = {.slots = TEST_SLOTS};

	set_service_as(node, service, &settings, members, count);
}

void set_service_as(struct oxp_node *node, const struct oxp_key *service,
		    const struct oxp_service_settings *settings,
		    const struct oxp_member *members, uint32_t count)
{
	assert_ok(oxp_service_set(node, service, settings, members, count, NULL,
				  error));
}

void set_with_one_member(struct oxp_node *node, struct oxp_key service,
			 struct oxp_service_settings settings)
{
	struct oxp_member member;

	settings.slots = TEST_SLOTS;
	make_members(&member, 1, 0, 0);
	set_service_as(node, &service, &settings, &member, 1);
}

/* RFC 1071, literally: the program computes it in another way. */
uint16_t checksum(const void *data, size_t length)
{
	const uint8_t *byte = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < length; i += 2)
		sum += byte[i] << 8 | byte[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void fix_checksum(uint8_t *ip)
{
	put16(ip + 10, 0);
	put16(ip + 10, checksum(ip, (ip[0] & 15) * 4));
}

void make_frame(struct frame *out, const struct flow *flow, size_t payload,
		const struct variation *variation)
{
	static const struct variation usual;
	const struct variation *with = variation ? variation : &usual;
	size_t header = 20 + 4 * with->options;
	size_t l4 = flow->protocol == IPPROTO_TCP ? 20 : 8;
	uint8_t *ip = out->data + 14, *ports = ip + header;
	size_t length = header + l4 + payload;

	memset(out, 0, sizeof(*out));
	memcpy(out->data, own_mac, 6);
	memcpy(out->data + 6, router_mac, 6);
	put16(out->data + 12, 0x0800);
	ip[0] = 0x40 | header / 4;
	ip[1] = with->tos;
	put16(ip + 2, length);
	put16(ip + 4, with->id);
	put16(ip + 6, with->fragment);
	ip[8] = 57;
	ip[9] = flow->protocol;
	inet_pton(AF_INET, flow->source, ip + 12);
	inet_pton(AF_INET, flow->destination, ip + 16);
	memset(ip + 20, 1, 4 * with->options); /* no operation */
	fix_checksum(ip);
	put16(ports, flow->source_port);
	put16(ports + 2, flow->destination_port);
	if (flow->protocol == IPPROTO_TCP) {
		ports[12] = 0x50;
		ports[13] = with->tcp_flags ? with->tcp_flags : 0x10;
	} else {
		put16(ports + 4, l4 + payload);
	}
	for (size_t i = 0; i < payload + with->padding; i++)
		ports[l4 + i] = i * 7;
	out->length = 14 + length + with->padding;
}

void to_v6(struct frame *frame, const char *source, const char *destination)
{
	uint8_t *ip = frame->data + 14, protocol = ip[9];
	size_t payload = frame->length - 14 - 20;

	memmove(ip + 40, ip + 20, payload);
	memset(ip, 0, 40);
	put16(frame->data + 12, 0x86dd);
	put16(ip, 0x6000 | 0x0b8); /* traffic class */
	put16(ip + 4, payload);
	ip[6] = protocol;
	ip[7] = 57;
	inet_pton(AF_INET6, source, ip + 8);
	inet_pton(AF_INET6, destination, ip + 24);
	frame->length += 20;
}

int run(int program, const struct frame *in, struct frame *out)
{
	struct frame unused;
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in->data,
		    .data_size_in = in->length,
		    .data_out = out ? out->data : unused.data,
		    .data_size_out = FRAME_MAX);
	int status = bpf_prog_test_run_opts(program, &options);

	if (status)
		fail_msg("test run of %zu bytes: %s", in->length,
			 strerror(-status));
	if (out)
		out->length = options.data_size_out;
	return options.retval;
}

void expect_encapsulated(const struct frame *in, const struct frame *out,
			 const char *member)
{
	const uint8_t *inner = in->data + 14;
	struct frame expected = {.length = in->length + 20};
	uint8_t *outer = expected.data + 14;

	memcpy(expected.data, next_hop_mac, 6);
	memcpy(expected.data + 6, own_mac, 6);
	put16(expected.data + 12, 0x0800);
	outer[0] = 0x45;
	outer[1] = inner[1];
	put16(outer + 2, (inner[2] << 8 | inner[3]) + 20);
	memcpy(outer + 4, inner + 4, 2);
	outer[6] = inner[6] & 0x40;
	outer[8] = 64;
	outer[9] = IPPROTO_IPIP;
	inet_pton(AF_INET, NODE, outer + 12);
	inet_pton(AF_INET, member, outer + 16);
	fix_checksum(outer);
	memcpy(outer + 20, inner, in->length - 14);
	assert_int_equal(out->length, expected.length);
	assert_memory_equal(out->data, expected.data, expected.length);
}
