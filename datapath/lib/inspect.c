// SPDX-License-Identifier: Apache-2.0
/* What holds for the node and what is attached, read back. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

static uint8_t count_bits(__be32 mask)
{
	return __builtin_popcount(mask);
}

void read_node_settings(struct oxp_node *node, struct oxp_node_settings *out)
{
	const struct node_config *config = node->config;

	*out = (struct oxp_node_settings){
		.entropy_v4 = count_bits(config->entropy_v4),
		.entropy_v6 = count_bits(config->entropy_v6),
		.flags = config->flags,
		.icmp_rate = config->icmp_rate,
	};
	if (config->source_v4) {
		memcpy(out->source_v4.bytes, v4_mapped, sizeof(v4_mapped));
		memcpy(out->source_v4.bytes + sizeof(v4_mapped),
		       &config->source_v4, sizeof(config->source_v4));
	}
	memcpy(out->source_v6.bytes, config->source_v6,
	       sizeof(config->source_v6));
}

int oxp_node_settings_get(struct oxp_node *node, struct oxp_node_settings *out,
			  char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	read_node_settings(node, out);
	unlock_node(node);
	return 0;
}

static uint16_t get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static void read_uplink(const struct uplink *uplink, struct oxp_uplink *out)
{
	*out = (struct oxp_uplink){
		.ifindex = uplink->ifindex,
		.mtu = uplink->mtu,
		.vlans = (uplink->link_length - 14) / 4,
	};
	memcpy(out->next_hop_mac_v4, uplink->link[0], 6);
	memcpy(out->next_hop_mac_v6, uplink->link[1], 6);
	memcpy(out->own_mac, uplink->link[0] + 6, 6);
	for (uint32_t i = 0; i < out->vlans && i < 2; i++)
		out->vlan[i] = get16(uplink->link[0] + 14 + 4 * i);
}

uint32_t read_uplinks(struct oxp_node *node, struct oxp_uplink *out,
		      uint32_t capacity, struct oxp_choices *choices)
{
	const struct uplink_set *live =
		&node->uplinks[node->config->active_uplinks & 1];
	uint32_t count = 0;

	for (; count < OXP_UPLINKS_MAX && live->uplink[count].ifindex; count++)
		if (count < capacity)
			read_uplink(&live->uplink[count], &out[count]);
	if (choices) {
		memcpy(choices->v4, live->choice[0], sizeof(choices->v4));
		memcpy(choices->v6, live->choice[1], sizeof(choices->v6));
	}
	return count;
}

int oxp_uplinks_list(struct oxp_node *node, struct oxp_uplink *out,
		     uint32_t capacity, struct oxp_choices *choices,
		     char *error)
{
	uint32_t count;
	int status = lock_node(node, error);

	if (status)
		return status;
	count = read_uplinks(node, out, capacity, choices);
	unlock_node(node);
	return count;
}

struct programs {
	struct oxp_program *out;
	uint32_t capacity;
	uint32_t count;
	char *error;
};

static int look_at_program(struct programs *programs, int link,
			   uint32_t ifindex)
{
	struct bpf_prog_info info = {};
	struct oxp_program *out;
	__u32 length = sizeof(info);
	int program = program_of_link(link), status;

	if (program < 0) /* replaced just now */
		return program == -ENOENT ? 0 : program;
	status = bpf_obj_get_info_by_fd(program, &info, &length);
	close(program);
	if (status || programs->count++ >= programs->capacity)
		return status;
	out = &programs->out[programs->count - 1];
	*out = (struct oxp_program){
		.ifindex = ifindex,
		.id = info.id,
		.loaded_ns = info.load_time,
		.runs = info.run_cnt,
		.run_time_ns = info.run_time_ns,
	};
	memcpy(out->tag, info.tag, sizeof(out->tag));
	memcpy(out->name, info.name, sizeof(out->name) - 1);
	return 0;
}

static int add_program(struct oxp_node *node, int link, uint32_t ifindex,
		       void *argument)
{
	struct programs *programs = argument;
	int status = look_at_program(programs, link, ifindex);

	(void)node;
	return status ? failure(programs->error, status,
				"cannot look at the program of interface "
				"%u%s",
				ifindex,
				status == -EPERM ? " (CAP_SYS_ADMIN is needed)"
						 : "")
		      : 0;
}

int oxp_programs_list(struct oxp_node *node, struct oxp_program *out,
		      uint32_t capacity, char *error)
{
	struct programs programs = {out, capacity, 0, error};
	int status = for_each_link(node, add_program, &programs, error);

	return status ? status : (int)programs.count;
}
