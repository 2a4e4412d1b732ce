// SPDX-License-Identifier: Apache-2.0
#include "test_interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "forward.skel.h"
#include "rooms.h"

int oxp_test_destroy(struct oxp_node *node, char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	status = detach_probes(error);
	if (status < 0) {
		unlock_node(node);
		return status;
	}
	remove_pins(node);
	/* for others that have the maps open */
	__atomic_store_n(&node->config->layout, 0, __ATOMIC_RELEASE);
	unlock_node(node);
	return 0;
}

/* The program of the last call, as loading one takes long. A node is identified
 * by its config map, whose id is never reused. */
static struct {
	pthread_mutex_t mutex;
	uint32_t map;
	int program;
	uint32_t id; /* of the attached program; 0: loaded here */
	uint32_t flags;
	bool nat;
} last = {.mutex = PTHREAD_MUTEX_INITIALIZER, .program = -1};

static uint32_t map_id(struct oxp_node *node)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);

	if (bpf_obj_get_info_by_fd(node->map[MAP_CONFIG], &info, &length))
		return 0;
	return info.id;
}

static void keep_program(struct oxp_node *node, int program, uint32_t id)
{
	if (last.program >= 0)
		close(last.program);
	last.program = program;
	last.id = id;
	last.map = map_id(node);
}

static int load_own(struct oxp_node *node, char *error)
{
	uint32_t flags = node->config->flags & OXP_NODE_FIB;
	bool nat = node->config->nat_addresses;
	struct forward *object;
	int status, program;

	if (last.program >= 0 && !last.id && last.flags == flags &&
	    last.nat == nat && last.map == map_id(node))
		return 0;
	status = load_program(node, flags, &object, error);
	if (status)
		return status;
	program = dup(bpf_program__fd(object->progs.oxp_forward));
	forward__destroy(object);
	if (program < 0)
		return failure(error, -errno, "cannot keep the program");
	keep_program(node, program, 0);
	last.flags = flags;
	last.nat = nat;
	return 0;
}

/* The attached program may have been replaced since the last call. */
static int find_program(struct oxp_node *node, char *error)
{
	uint32_t id;
	int program = attached_program(node, &id);

	if (program == -ENOENT)
		return load_own(node, error);
	if (program < 0)
		return failure(error, program, "cannot open the program");
	keep_program(node, program, id);
	return 0;
}

int oxp_test_run(struct oxp_node *node, struct oxp_frame *frames,
		 uint32_t count, char *error)
{
	uint32_t done = 0;
	int status;

	pthread_mutex_lock(&last.mutex);
	status = find_program(node, error);
	while (!status && done < count) {
		status = run_program(last.program, &frames[done], error);
		done += !status;
	}
	pthread_mutex_unlock(&last.mutex);
	return status && !done ? status : (int)done;
}

/* The slot of a flow. `source` is the client's address, which is changed. */
static uint32_t slot_of(const struct service_block *block,
			const struct oxp_key *key, __be32 source[4],
			uint16_t client_port)
{
	uint32_t ports = (uint32_t)htons(client_port) << 16 | htons(key->port);
	uint8_t protocol = key->protocol;
	bool v4 = is_v4(key->vip.bytes);
	__be32 vip[4];
	uint64_t hash;

	memcpy(vip, key->vip.bytes, sizeof(vip));
	if (block->flags & OXP_SERVICE_SOURCE) {
		int kept = v4 ? 96 + block->source_length_v4
			      : block->source_length_v6;

		for (int bit = kept; bit < 128; bit++)
			source[bit / 32] &= ~htonl(1U << (31 - bit % 32));
		ports = protocol = 0;
	}
	hash = v4 ? seeded_hash_v4(source[3], vip[3], ports, protocol,
				   FLOW_SEED)
		  : seeded_hash_v6(source, vip, ports, protocol, FLOW_SEED);
	return flow_slot(hash, block->slots);
}

int oxp_test_pick(struct oxp_node *node, const struct oxp_key *key,
		  const struct oxp_address *client, uint16_t client_port,
		  struct oxp_address *member, char *error)
{
	const struct service_block *block;
	__be32 source[4];
	int index, status = 0;
	uint16_t chosen;

	if (is_v4(client->bytes) != is_v4(key->vip.bytes))
		return failure(error, -EAFNOSUPPORT,
			       "client %s is not of the VIP's family",
			       address_text(client->bytes));
	index = lock_service(node, key, error);
	if (index < 0)
		return index;
	block = live_block(node, index);
	memcpy(source, client->bytes, sizeof(source));
	chosen = owner_at(block, slot_of(block, key, source, client_port));
	if (chosen != SLOT_NOBODY)
		memcpy(member->bytes, block->member[chosen].address,
		       sizeof(member->bytes));
	else
		status = failure(error, -ENETUNREACH,
				 "no member takes new flows");
	unlock_node(node);
	return status;
}

int oxp_test_verify(struct oxp_node *node, char *error)
{
	struct oxp_fault first;
	int count = oxp_faults_list(node, &first, 1, error);

	if (count <= 0 || !error)
		return count;
	if (first.key.protocol)
		snprintf(error, OXP_ERROR_LENGTH, "%s: %s",
			 key_text(first.key.vip.bytes, htons(first.key.port),
				  first.key.protocol),
			 first.text);
	else
		snprintf(error, OXP_ERROR_LENGTH, "%s", first.text);
	return count;
}

static int by_name(const void *left, const void *right)
{
	const struct eligible_member *a = left, *b = right;

	int order = memcmp(a->name, b->name, 16);

	return order ? order : a->port - b->port;
}

int oxp_test_maglev(const struct oxp_address *addresses,
		    const uint16_t *weights, uint32_t count, uint32_t slots,
		    uint16_t *out)
{
	return oxp_test_maglev_ports(addresses, NULL, weights, count, slots,
				     out);
}

int oxp_test_maglev_ports(const struct oxp_address *addresses,
			  const uint16_t *ports, const uint16_t *weights,
			  uint32_t count, uint32_t slots, uint16_t *out)
{
	struct eligible_member *eligible;
	uint32_t used = 0;
	int status;

	if (slots > OXP_SLOTS_LIMIT || !is_prime(slots) ||
	    count >= OXP_NO_MEMBER)
		return -EINVAL;
	eligible = calloc(count ? count : 1, sizeof(*eligible));
	if (!eligible)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (weights[i])
			eligible[used++] = (struct eligible_member){
				.name = addresses[i].bytes,
				.port = ports ? ports[i] : 0,
				.weight = weights[i],
				.value = i,
			};
	qsort(eligible, used, sizeof(*eligible), by_name);
	status = maglev_fill(eligible, used, slots, out);
	free(eligible);
	return status;
}

uint32_t oxp_test_quic_server_id(const struct oxp_address *member,
				 uint16_t port)
{
	return quic_server_id(member, port);
}
