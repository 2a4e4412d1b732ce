// SPDX-License-Identifier: Apache-2.0
#include "host_harness.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LINK 14
#define GENEVE (LINK + 20 + 8 + HOST_GENEVE_HEADER)
#define REDIRECT 7 /* TC_ACT_REDIRECT */

char error[OXH_ERROR_LENGTH];
struct oxh_host *host;

static int set_up_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int handle = socket(AF_INET, SOCK_DGRAM, 0);
	int status = handle < 0 ? -1 : ioctl(handle, SIOCSIFFLAGS, &request);

	close(handle);
	return status;
}

int enter_host_namespace(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNS | CLONE_NEWNET) || set_up_loopback() ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", "/mnt", "tmpfs", 0, NULL) ||
	    mkdir("/mnt/bpf", 0700) ||
	    mount("bpf", "/mnt/bpf", "bpf", 0, NULL)) {
		perror("private mounts (are you root?)");
		return -1;
	}
	return 0;
}

bool has_tcx(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	assert_int_equal(uname(&name), 0);
	assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 6);
}

void skipped(void **state)
{
	(void)state;
	skip();
}

struct oxh_address address(const char *text)
{
	struct oxh_address out = {.bytes = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, out.bytes + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, out.bytes), 1);
	return out;
}

struct oxh_network network(const char *text, uint8_t length)
{
	return (struct oxh_network){.address = address(text), .length = length};
}

int end_host(void **state)
{
	(void)state;
	if (host)
		oxh_close(host);
	host = NULL;
	assert_in_range(oxh_remove(FOLDER, error), 0, 1);
	return 0;
}

void fresh_host(const struct oxh_sizes *sizes)
{
	const struct oxh_settings settings = {.reply_ifindex = LO,
					      .local_v4 = address(LOCAL)};
	const struct oxh_network nodes = network("10.0.0.0", 24);

	end_host(NULL);
	assert_int_equal(oxh_create(FOLDER, sizes, error), 1);
	assert_ok(oxh_open(FOLDER, &host, error));
	assert_ok(oxh_settings_set(host, &settings, error));
	assert_ok(oxh_networks_set(host, &nodes, 1, error));
}

void fresh_listener(const struct oxh_sizes *sizes, uint32_t flows_max)
{
	const struct oxh_entry entry = entry_of(KEY, 1);

	fresh_host(sizes);
	set_open_port(1, flows_max);
	set_entry(&entry);
}

struct oxh_port port_of(uint8_t number)
{
	struct oxh_port out = {.ifindex = LO, .open = 1};

	memset(out.id, number, sizeof(out.id));
	return out;
}

void set_open_port(uint8_t number, uint32_t flows_max)
{
	struct oxh_port port = port_of(number);

	port.flows_max = flows_max;
	assert_ok(oxh_port_set(host, &port, NULL, 0, error));
}

struct oxh_entry entry_of(uint32_t key, uint8_t port)
{
	struct oxh_entry out = {
		.key = key,
		.vip = address(VIP),
		.fixed = address(FIXED),
		.vip_port = LISTENER,
		.port = MEMBER_PORT,
		.protocol = IPPROTO_TCP,
		.mac = {2, 0, 0, 0, 0, 5},
		.gateway_mac = {2, 0, 0, 0, 0, 6},
	};

	memset(out.port_id, port, sizeof(out.port_id));
	return out;
}

void set_entry(const struct oxh_entry *entry)
{
	assert_ok(oxh_entry_set(host, entry, error));
}

uint16_t sum_of(const uint8_t *data, size_t length, uint32_t begin)
{
	for (size_t i = 0; i < length; i++)
		begin += i % 2 ? data[i] : data[i] << 8;
	while (begin >> 16)
		begin = (begin & 0xffff) + (begin >> 16);
	return begin;
}

uint16_t transport_sum(const uint8_t *ip, size_t length)
{
	return sum_of(ip + 20, length - 20,
		      sum_of(ip + 12, 8, ip[9] + length - 20));
}

static void put16(uint8_t *to, uint16_t value)
{
	to[0] = value >> 8;
	to[1] = value;
}

static void put_ip(uint8_t *ip, const char *from, const char *to,
		   uint8_t protocol, size_t length)
{
	memset(ip, 0, 20);
	ip[0] = 0x45;
	put16(ip + 2, length);
	ip[8] = 64;
	ip[9] = protocol;
	assert_int_equal(inet_pton(AF_INET, from, ip + 12), 1);
	assert_int_equal(inet_pton(AF_INET, to, ip + 16), 1);
	put16(ip + 10, ~sum_of(ip, 20, 0));
}

/* UDP and TCP packets have the same length. */
static size_t put_segment(uint8_t *ip, const struct segment *segment,
			  const char *from, const char *to, uint16_t from_port,
			  uint16_t to_port)
{
	uint8_t protocol = segment->protocol ? segment->protocol : IPPROTO_TCP;
	uint8_t *l4 = ip + 20;
	size_t length = 42;
	uint16_t sum;

	put_ip(ip, from, to, protocol, length);
	memset(l4, 0, 20);
	put16(l4, from_port);
	put16(l4 + 2, to_port);
	memcpy(l4 + 20, segment->payload, 2);
	if (protocol == IPPROTO_UDP) {
		put16(l4 + 4, length - 20);
		sum = ~transport_sum(ip, length);
		put16(l4 + 6, sum ? sum : 0xffff);
		return length;
	}
	l4[12] = 0x50;
	l4[13] = segment->flags;
	put16(l4 + 16, ~transport_sum(ip, length));
	return length;
}

static const char *either(const char *given, const char *otherwise)
{
	return given ? given : otherwise;
}

static uint16_t client_port(const struct segment *segment)
{
	return segment->client_port ? segment->client_port : CLIENT_PORT;
}

size_t make_in(uint8_t *out, uint32_t key, const struct segment *segment)
{
	size_t length = put_segment(
		out + GENEVE, segment, either(segment->client, CLIENT),
		either(segment->vip, VIP), client_port(segment), LISTENER);

	memset(out, 0, GENEVE);
	put16(out + 12, 0x0800);
	put_ip(out + LINK, NODE, LOCAL, IPPROTO_UDP, length + GENEVE - LINK);
	put16(out + LINK + 20, 0xc001);
	put16(out + LINK + 22, HOST_GENEVE_PORT);
	put16(out + LINK + 24, length + 16);
	put16(out + LINK + 30, 0x0800);
	out[LINK + 32] = key >> 16;
	put16(out + LINK + 33, key);
	return GENEVE + length;
}

size_t make_out(uint8_t *out, const struct segment *segment)
{
	memset(out, 0, LINK);
	put16(out + 12, 0x0800);
	return LINK + put_segment(out + LINK, segment,
				  either(segment->fixed, FIXED),
				  either(segment->client, CLIENT), MEMBER_PORT,
				  client_port(segment));
}

size_t make_direct(uint8_t *out, const struct segment *segment)
{
	memset(out, 0, LINK);
	put16(out + 12, 0x0800);
	return LINK + put_segment(out + LINK, segment,
				  either(segment->client, CLIENT),
				  either(segment->fixed, FIXED),
				  client_port(segment), MEMBER_PORT);
}

size_t run(uint32_t hook, const uint8_t *data, size_t length, uint8_t *out)
{
	struct oxh_frame frame = {
		.data = data, .length = length, .ifindex = LO, .out = out};

	assert_ok(oxh_run(host, hook, &frame, error));
	return frame.action == REDIRECT ? frame.out_length : 0;
}

size_t send_in(uint32_t key, const struct segment *segment, uint8_t *out)
{
	static uint8_t in[OXH_FRAME_MAX], unused[OXH_FRAME_MAX];

	return run(OXH_NIC, in, make_in(in, key, segment), out ? out : unused);
}

size_t send_out(const struct segment *segment, uint8_t *out)
{
	static uint8_t in[OXH_FRAME_MAX], unused[OXH_FRAME_MAX];

	return run(OXH_TAP_IN, in, make_out(in, segment), out ? out : unused);
}

void establish(const struct segment *segment)
{
	establish_with(KEY, segment);
}

void establish_with(uint32_t key, const struct segment *segment)
{
	struct segment one = *segment;

	one.flags = SYN;
	assert_true(send_in(key, &one, NULL));
	one.flags = SYN | ACK;
	assert_true(send_out(&one, NULL));
	one.flags = ACK;
	assert_true(send_in(key, &one, NULL));
}

static struct host_flow_set *set_at(int32_t place)
{
	return (struct host_flow_set *)host->memory[MAP_FLOWS] +
	       place / HOST_FLOW_WAYS;
}

__u64 *state_at(int32_t place)
{
	return host_state(set_at(place), place % HOST_FLOW_WAYS);
}

__u64 *tag_at(int32_t place)
{
	return host_tag(set_at(place), place % HOST_FLOW_WAYS);
}

int32_t next_flow(int32_t place)
{
	for (; place < (int32_t)host->count[MAP_FLOWS] * HOST_FLOW_WAYS;
	     place++)
		if (*state_at(place))
			return place;
	return -1;
}

uint64_t outcome(uint32_t which)
{
	uint64_t packets[OXH_OUTCOMES];

	assert_int_equal(oxh_outcomes_list(host, packets, OXH_OUTCOMES, error),
			 OXH_OUTCOMES);
	return packets[which];
}
