// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens. While the tables change, a token's mark may be that of another target
 * for a moment: the program drops a packet whose destination is not its
 * target's VIP, so that no packet reaches another tenant's member.
 */
#include "probe/tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "address.h"
#include "error.h"
#include "node/lock.h"
#include "probe/create.h"
#include "probe/maps.h"
#include "state.h"

struct token {
	struct oxp_address address;
	uint32_t mark;
};

static int by_address(const void *left, const void *right)
{
	return memcmp(left, right, sizeof(struct oxp_address));
}

/* Returns the wanted tokens, sorted by address; NULL: no memory. */
static struct token *tokens_of(const struct probe_entry *wanted, uint32_t count,
			       uint32_t *found)
{
	struct token *tokens = calloc(count + 1, sizeof(*tokens));

	*found = 0;
	for (uint32_t i = 0; tokens && i < count; i++) {
		if (!wanted[i].target.is_token)
			continue;
		memcpy(tokens[*found].address.bytes, wanted[i].target.vip,
		       sizeof(tokens->address));
		tokens[(*found)++].mark = wanted[i].mark;
	}
	if (tokens)
		qsort(tokens, *found, sizeof(*tokens), by_address);
	return tokens;
}

int check_tokens(const struct probe_entry *wanted, uint32_t count, char *error)
{
	uint32_t found;
	struct token *tokens = tokens_of(wanted, count, &found);
	int status = tokens ? 0 : failure(error, -ENOMEM, "cannot sort tokens");

	for (uint32_t i = 1; !status && i < found; i++)
		if (!by_address(&tokens[i - 1], &tokens[i]))
			status = failure(error, -EEXIST,
					 "token %s is there twice",
					 address_text(tokens[i].address.bytes));
	free(tokens);
	return status;
}

int remove_tokens(int map, const struct probe_entry *wanted, uint32_t count,
		  char *error)
{
	uint32_t found;
	struct token *tokens = tokens_of(wanted, count, &found);
	struct oxp_address key, last, *previous = NULL;
	int status = 0;

	if (!tokens)
		return failure(error, -ENOMEM, "cannot sort tokens");
	while (!status && !bpf_map_get_next_key(map, previous, &key)) {
		if (bsearch(&key, tokens, found, sizeof(*tokens), by_address)) {
			last = key;
			previous = &last;
		} else if (bpf_map_delete_elem(map, &key)) {
			status =
				failure(error, -errno, "cannot remove token %s",
					address_text(key.bytes));
		}
	}
	free(tokens);
	return status;
}

int put_tokens(int map, const struct probe_entry *wanted, uint32_t count,
	       char *error)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct probe_target *target = &wanted[i].target;
		uint32_t mark;

		if (!target->is_token ||
		    (!bpf_map_lookup_elem(map, target->vip, &mark) &&
		     mark == wanted[i].mark))
			continue;
		if (bpf_map_update_elem(map, target->vip, &wanted[i].mark,
					BPF_ANY))
			return failure(error, -errno, "cannot set token %s",
				       address_text((void *)target->vip));
	}
	return 0;
}

static int parse_networks(const struct oxp_network *networks, uint32_t count,
			  struct token_network *out, char *error)
{
	if (count > OXP_TOKEN_NETWORKS_MAX)
		return failure(error, -E2BIG,
			       "%u networks of tokens, the limit is %d", count,
			       OXP_TOKEN_NETWORKS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *bytes = networks[i].address.bytes;
		uint32_t bits = networks[i].length + (is_v4(bytes) ? 96 : 0);

		for (uint32_t bit = bits; bit < 128; bit++)
			if (bytes[bit / 8] & 0x80 >> bit % 8)
				bits = 129;
		if (bits > 128)
			return failure(error, -EINVAL,
				       "network of tokens %s/%u",
				       address_text(bytes), networks[i].length);
		out[i].bits = bits;
		memcpy(out[i].address, bytes, sizeof(out[i].address));
	}
	return 0;
}

static bool has_network(const struct token_network *networks, uint32_t count,
			const struct token_network *network)
{
	for (uint32_t i = 0; i < count; i++)
		if (!memcmp(&networks[i], network, sizeof(*network)))
			return true;
	return false;
}

/* New networks come first, so that their tokens are never sent as they are. */
static int write_networks(int map, const struct token_network *networks,
			  uint32_t count, char *error)
{
	struct token_network key, last, *previous = NULL;
	const uint8_t used = 1;

	for (uint32_t i = 0; i < count; i++)
		if (bpf_map_update_elem(map, &networks[i], &used, BPF_ANY))
			return failure(error, -errno,
				       "cannot set the networks of tokens");
	while (!bpf_map_get_next_key(map, previous, &key)) {
		if (has_network(networks, count, &key)) {
			last = key;
			previous = &last;
		} else if (bpf_map_delete_elem(map, &key)) {
			return failure(error, -errno,
				       "cannot remove a network of tokens");
		}
	}
	return 0;
}

int oxp_token_networks_set(struct oxp_node *node,
			   const struct oxp_network *networks, uint32_t count,
			   char *error)
{
	struct token_network wanted[OXP_TOKEN_NETWORKS_MAX] = {};
	struct probe_maps maps;
	int status = parse_networks(networks, count, wanted, error);

	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	status = open_or_create_probe_maps(node, &maps, error);
	if (!status) {
		status = write_networks(maps.token_networks, wanted, count,
					error);
		close_probe_maps(&maps);
	}
	unlock_node(node);
	return status;
}
