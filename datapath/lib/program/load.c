// SPDX-License-Identifier: Apache-2.0
/* Loading the forwarding program over a node's maps. */
#include "program/load.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "load/load.h"
#include "state.h"

/* Whether the kernel's BTF has the function; the program works without it. */
static bool kernel_has(const char *function)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has =
		btf && btf__find_by_name_kind(btf, function, BTF_KIND_FUNC) > 0;

	btf__free(btf);
	return has;
}

void configure_program(struct forward *object, const struct node_config *config,
		       uint32_t flags)
{
	object->rodata->lookup_mask = config->lookup_mask;
	object->rodata->flow_sets_mask = config->flows_max / FLOW_SET_WAYS - 1;
	object->rodata->services_part = part_of_slice(config->services_max);
	object->rodata->members_part = part_of_slice(config->members_max);
	object->rodata->node_seed = config->seed;
	object->rodata->feature_fib = !!(flags & OXP_NODE_FIB);
	object->rodata->feature_nat = !!config->nat_addresses;
	object->rodata->feature_pull = kernel_has("bpf_xdp_pull_data");
}

int load_program(struct oxp_node *node, uint32_t flags, struct forward **out,
		 char *error)
{
	static const struct load load = {.what = "the program"};
	struct forward *object;
	int status = 0;

	forget_libbpf_messages();
	object = forward__open();
	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	for (int i = 0; i < MAPS && !status; i++)
		status = bpf_map__reuse_fd(find_map(object->obj, map_names[i]),
					   node->map[i]);
	configure_program(object, node->config, flags);
	status = load_skeleton(&load, object->skeleton, status, error,
			       OXP_ERROR_LENGTH);
	if (status) {
		forward__destroy(object);
		return status;
	}
	*out = object;
	return 0;
}
