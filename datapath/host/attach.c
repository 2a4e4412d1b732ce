// SPDX-License-Identifier: Apache-2.0
/* Pinned tcx links, which hold the programs without a process. Debian 12's
 * libbpf and headers do not support them: this uses system calls. */
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "load/load.h"
#include "pin_path.h"
#include "state.h"

/* From linux/bpf.h since Linux 6.6. */
#define TCX_INGRESS 46
#define TCX_EGRESS 47
#define LINK_TYPE_TCX 11
#define BEFORE (1U << 3)

static const char *const hook_names[HOST_HOOKS] = {"nic", "tap-in", "tap-out"};

static char *link_path(const struct oxh_host *host, uint32_t hook,
		       uint32_t ifindex)
{
	char name[32];

	snprintf(name, sizeof(name), "%s-%u", hook_names[hook], ifindex);
	return path_below(host->folder, "links", name);
}

static int check_hook(uint32_t hook, char *error)
{
	return hook < HOST_HOOKS
		       ? 0
		       : failure(error, -EINVAL, "unknown hook %u", hook);
}

/* Packets must have an Ethernet header. */
static int check_interface(uint32_t ifindex, char *error)
{
	struct ifreq request = {};
	int handle, status;

	if (!if_indextoname(ifindex, request.ifr_name))
		return failure(error, -ENODEV, "there is no interface %u",
			       ifindex);
	handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	status = handle < 0 || ioctl(handle, SIOCGIFHWADDR, &request) ? -errno
								      : 0;
	if (handle >= 0)
		close(handle);
	if (status)
		return failure(error, status, "cannot look at %s",
			       request.ifr_name);
	if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER &&
	    request.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK)
		return failure(error, -EOPNOTSUPP, "%s is no Ethernet device",
			       request.ifr_name);
	return 0;
}

/* Returns a descriptor of the pinned link if it still holds its interface;
 * -ENODEV if it does not. */
static int find_link(const char *path, uint32_t ifindex,
		     struct bpf_link_info *info)
{
	__u32 length = sizeof(*info);
	int link = bpf_obj_get(path), status;

	if (link < 0)
		return -errno;
	memset(info, 0, sizeof(*info));
	status = bpf_obj_get_info_by_fd(link, info, &length);
	/* the tcx struct also starts with the interface, as that of XDP */
	if (!status && info->type == LINK_TYPE_TCX &&
	    info->xdp.ifindex == ifindex)
		return link;
	close(link);
	return status ? status : -ENODEV;
}

/* The same, but removes a pin that has outlived its interface, whose number may
 * have been reused. */
static int open_link(const char *path, uint32_t ifindex,
		     struct bpf_link_info *info)
{
	int link = find_link(path, ifindex, info);

	if (link != -ENODEV)
		return link;
	return unlink(path) ? -errno : -ENOENT;
}

static int tag_of_program(int program, __u8 tag[8])
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int status = bpf_obj_get_info_by_fd(program, &info, &length);

	memcpy(tag, info.tag, sizeof(info.tag));
	return status;
}

/* Whether the link has the same program, maybe from another load. */
static bool has_same_code(__u32 id, int program)
{
	int other = bpf_prog_get_fd_by_id(id);
	__u8 one[8], another[8];
	bool same = other >= 0 && !tag_of_program(other, one) &&
		    !tag_of_program(program, another) &&
		    !memcmp(one, another, sizeof(one));

	if (other >= 0)
		close(other);
	return same;
}

static int make_link(int program, uint32_t hook, uint32_t ifindex,
		     const char *path)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = BEFORE);
	int link = bpf_link_create(
		program, ifindex,
		hook == HOST_TAP_OUT ? TCX_EGRESS : TCX_INGRESS, &options);
	int status;

	if (link < 0)
		return -errno;
	status = bpf_obj_pin(link, path);
	close(link);
	return status;
}

static int attach_locked(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
			 const char *path, char *error)
{
	struct bpf_link_info info;
	int program = program_of(host, hook), link, status;

	link = open_link(path, ifindex, &info);
	if (link == -ENOENT) {
		status = make_link(program, hook, ifindex, path);
		if (status)
			return failure(error, status,
				       "cannot attach %s to interface %u",
				       hook_names[hook], ifindex);
		return 1;
	}
	if (link < 0)
		return failure(error, link, "cannot open %s", path);
	if (has_same_code(info.prog_id, program)) {
		close(link);
		return 0;
	}
	status = bpf_link_update(link, program, NULL);
	close(link);
	return status ? failure(error, status,
				"cannot replace %s of interface %u",
				hook_names[hook], ifindex)
		      : 1;
}

int oxh_attach(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
	       char *error)
{
	int status = check_hook(hook, error);
	char *path;

	if (!status)
		status = check_interface(ifindex, error);
	if (!status)
		status = load_programs(host, error);
	if (!status)
		status = lock_host(host, error);
	if (status)
		return status;
	path = link_path(host, hook, ifindex);
	status = path ? attach_locked(host, hook, ifindex, path, error)
		      : failure(error, -ENOMEM, "cannot attach");
	free(path);
	unlock_host(host);
	return status;
}

int oxh_detach(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
	       char *error)
{
	int status = check_hook(hook, error);
	char *path;

	if (!status)
		status = lock_host(host, error);
	if (status)
		return status;
	path = link_path(host, hook, ifindex);
	if (!path)
		status = failure(error, -ENOMEM, "cannot detach");
	else if (unlink(path))
		status = errno == ENOENT ? 1
					 : failure(error, -errno,
						   "cannot remove %s", path);
	free(path);
	unlock_host(host);
	return status;
}

/* Parses the name of a pin, as in link_path(). */
static bool parse_name(const char *name, struct oxh_program *out)
{
	for (uint32_t hook = 0; hook < HOST_HOOKS; hook++) {
		size_t length = strlen(hook_names[hook]);
		unsigned int ifindex;
		char end;

		if (strncmp(name, hook_names[hook], length) ||
		    sscanf(name + length, "-%u%c", &ifindex, &end) != 1)
			continue;
		*out = (struct oxh_program){.hook = hook, .ifindex = ifindex};
		return true;
	}
	return false;
}

static void read_link_state(struct oxh_host *host, struct oxh_program *out)
{
	char *path = link_path(host, out->hook, out->ifindex);
	struct bpf_link_info info;
	int link = path ? find_link(path, out->ifindex, &info) : -ENOMEM;

	free(path);
	if (link < 0)
		return;
	close(link);
	out->attached = 1;
	out->current = has_same_code(info.prog_id, program_of(host, out->hook));
}

int oxh_programs_list(struct oxh_host *host, struct oxh_program *out,
		      uint32_t capacity, char *error)
{
	int status = load_programs(host, error);
	char *path = path_below(host->folder, "links", "");
	DIR *folder = path ? opendir(path) : NULL;
	struct oxh_program program;
	struct dirent *entry;
	uint32_t count = 0;

	if (!status && !folder)
		status = failure(error, -errno, "cannot read %s/links",
				 host->folder);
	while (!status && (entry = readdir(folder)))
		if (parse_name(entry->d_name, &program) && count++ < capacity) {
			read_link_state(host, &program);
			out[count - 1] = program;
		}
	if (folder)
		closedir(folder);
	free(path);
	return status ? status : (int)count;
}
