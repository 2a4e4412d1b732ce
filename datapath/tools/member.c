// SPDX-License-Identifier: Apache-2.0
/*
 * Puts the decapsulation program on a member's interface:
 *   octavia-xdp-member attach [--fallback] [--address A]... IFACE
 *   octavia-xdp-member detach IFACE
 *   octavia-xdp-member show IFACE
 * Without --address: packets to the IPv4 addresses that the interface has now.
 * The attachment stays until it is detached or the interface goes; attaching
 * again replaces it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "member.h"
#include "member.skel.h"

struct arguments {
	const char *interface;
	unsigned int ifindex;
	bool fallback;
	struct in_addr address[MEMBER_ADDRESSES_MAX];
	unsigned int addresses;
};

static int complain(const char *what, int status)
{
	fprintf(stderr, "octavia-xdp-member: %s: %s\n", what,
		strerror(-status));
	return 1;
}

static int usage(void)
{
	fputs("usage: octavia-xdp-member attach [--fallback] [--address A]... "
	      "IFACE\n"
	      "       octavia-xdp-member detach IFACE\n"
	      "       octavia-xdp-member show IFACE\n",
	      stderr);
	return 2;
}

/* The interface's program: its id and how it is attached, if it is ours. */
static int find_ours(unsigned int ifindex, __u32 *id, __u32 *flags, int *fd)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int status;

	*fd = -1;
	status = bpf_xdp_query(ifindex, 0, &query);
	if (status)
		return status;
	*id = query.prog_id;
	if (!*id)
		return -ENOENT;
	*flags = query.attach_mode == XDP_ATTACHED_SKB ? XDP_FLAGS_SKB_MODE
						       : XDP_FLAGS_DRV_MODE;
	*fd = bpf_prog_get_fd_by_id(*id);
	if (*fd < 0)
		return *fd;
	status = bpf_obj_get_info_by_fd(*fd, &info, &length);
	if (!status && strcmp(info.name, MEMBER_PROGRAM))
		status = -EBUSY;
	return status;
}

static int own_addresses(struct arguments *arguments)
{
	struct ifaddrs *all, *one;

	if (getifaddrs(&all))
		return -errno;
	for (one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
		    strcmp(one->ifa_name, arguments->interface) ||
		    arguments->addresses == MEMBER_ADDRESSES_MAX)
			continue;
		arguments->address[arguments->addresses++] =
			((struct sockaddr_in *)one->ifa_addr)->sin_addr;
	}
	freeifaddrs(all);
	return arguments->addresses ? 0 : -EADDRNOTAVAIL;
}

static int attach_program(const struct arguments *arguments, int program)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, options);
	__u32 id, current = 0, flags = XDP_FLAGS_DRV_MODE;
	int old, status;

	status = find_ours(arguments->ifindex, &id, &current, &old);
	if (!status) {
		options.old_prog_fd = old;
		flags = current | XDP_FLAGS_REPLACE;
	} else if (status == -ENOENT) {
		flags |= XDP_FLAGS_UPDATE_IF_NOEXIST;
	} else {
		return status;
	}
	status = bpf_xdp_attach(arguments->ifindex, program, flags, &options);
	if (status && current == 0 && arguments->fallback)
		status = bpf_xdp_attach(arguments->ifindex, program,
					XDP_FLAGS_SKB_MODE |
						XDP_FLAGS_UPDATE_IF_NOEXIST,
					&options);
	if (old >= 0)
		close(old);
	return status;
}

static int attach(struct arguments *arguments)
{
	struct member *object;
	int status = 0;

	if (!arguments->addresses)
		status = own_addresses(arguments);
	if (status)
		return complain("addresses", status);
	object = member__open_and_load();
	if (!object)
		return complain("load", -errno);
	for (unsigned int i = 0; i < arguments->addresses && !status; i++) {
		__u8 one = 1;

		status = bpf_map_update_elem(
			bpf_map__fd(object->maps.addresses),
			&arguments->address[i].s_addr, &one, BPF_ANY);
	}
	if (!status)
		status = attach_program(
			arguments, bpf_program__fd(object->progs.oxp_member));
	member__destroy(object);
	return status ? complain(arguments->interface, status) : 0;
}

static int detach(const struct arguments *arguments)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, options);
	__u32 id, flags;
	int status;

	status = find_ours(arguments->ifindex, &id, &flags,
			   &options.old_prog_fd);
	if (!status)
		status = bpf_xdp_detach(arguments->ifindex,
					flags | XDP_FLAGS_REPLACE, &options);
	return status ? complain(arguments->interface, status) : 0;
}

static int read_counters(int map)
{
	static const char *const names[MEMBER_COUNTERS] = {
		[MEMBER_DECAPSULATED] = "decapsulated",
		[MEMBER_MALFORMED] = "malformed",
	};
	int cpus = libbpf_num_possible_cpus();
	__u64 *values = cpus > 0 ? calloc(cpus, sizeof(*values)) : NULL;
	int status = values ? 0 : -ENOMEM;

	for (__u32 i = 0; i < MEMBER_COUNTERS && !status; i++) {
		uint64_t sum = 0;

		status = bpf_map_lookup_elem(map, &i, values);
		for (int cpu = 0; cpu < cpus; cpu++)
			sum += values[cpu];
		printf("%s %" PRIu64 "\n", names[i], sum);
	}
	free(values);
	return status;
}

static int show(const struct arguments *arguments)
{
	struct bpf_prog_info info = {};
	__u32 id, flags, maps[8], length = sizeof(info);
	int program, status;

	status = find_ours(arguments->ifindex, &id, &flags, &program);
	info.map_ids = (uintptr_t)maps;
	info.nr_map_ids = sizeof(maps) / sizeof(*maps);
	if (!status)
		status = bpf_obj_get_info_by_fd(program, &info, &length);
	if (status)
		return complain(arguments->interface, status);
	printf("mode %s\n", flags == XDP_FLAGS_SKB_MODE ? "generic" : "native");
	for (__u32 i = 0; i < info.nr_map_ids && !status; i++) {
		struct bpf_map_info map_info = {};
		int map = bpf_map_get_fd_by_id(maps[i]);

		length = sizeof(map_info);
		if (map < 0 || bpf_obj_get_info_by_fd(map, &map_info, &length))
			status = -errno;
		else if (!strcmp(map_info.name, "counters"))
			status = read_counters(map);
		if (map >= 0)
			close(map);
	}
	close(program);
	return status ? complain("counters", status) : 0;
}

int main(int count, char **words)
{
	static const struct option options[] = {
		{"fallback", no_argument, NULL, 'f'},
		{"address", required_argument, NULL, 'a'},
		{},
	};
	struct arguments arguments = {};
	int option;

	while ((option = getopt_long(count, words, "", options, NULL)) != -1) {
		struct in_addr *next = &arguments.address[arguments.addresses];

		if (option == 'f')
			arguments.fallback = true;
		else if (option != 'a' ||
			 arguments.addresses == MEMBER_ADDRESSES_MAX ||
			 inet_pton(AF_INET, optarg, next) != 1)
			return usage();
		else
			arguments.addresses++;
	}
	if (count - optind != 2)
		return usage();
	arguments.interface = words[optind + 1];
	arguments.ifindex = if_nametoindex(arguments.interface);
	if (!arguments.ifindex)
		return complain(arguments.interface, -errno);
	if (!strcmp(words[optind], "attach"))
		return attach(&arguments);
	if (!strcmp(words[optind], "detach"))
		return detach(&arguments);
	if (!strcmp(words[optind], "show"))
		return show(&arguments);
	return usage();
}
