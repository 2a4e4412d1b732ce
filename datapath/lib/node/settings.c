// SPDX-License-Identifier: Apache-2.0
/* Settings of the whole node. */
#include "node/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "address.h"
#include "error.h"
#include "forward.skel.h"
#include "node/lock.h"
#include "program/load.h"
#include "program/replace.h"
#include "state.h"

static int check_source(const struct oxp_address *source, bool v4,
			const char *family, char *error)
{
	const uint8_t *bytes = source->bytes;

	if (is_zero(bytes))
		return 0;
	if (is_v4(bytes) != v4)
		return failure(error, -EAFNOSUPPORT,
			       "outer source %s is not an %s address",
			       address_text(bytes), family);
	if (v4 ? bytes[12] >= 224 : bytes[0] == 0xff)
		return failure(error, -EINVAL,
			       "outer source %s is a multicast address",
			       address_text(bytes));
	return 0;
}

static int check(const struct oxp_node_settings *settings, char *error)
{
	const uint32_t known = OXP_NODE_ECHO | OXP_NODE_CLAMP_MSS |
			       OXP_NODE_PASS_TOO_BIG | OXP_NODE_FIB;
	int status = check_source(&settings->source_v4, true, "IPv4", error);

	if (!status)
		status = check_source(&settings->source_v6, false, "IPv6",
				      error);
	if (status)
		return status;
	if (settings->entropy_v4 > 16 || settings->entropy_v6 > 32)
		return failure(error, -EINVAL,
			       "%u and %u bits of entropy, the limits are 16 "
			       "and 32",
			       settings->entropy_v4, settings->entropy_v6);
	if (settings->flags & ~known)
		return failure(error, -EINVAL, "flags 0x%x are unknown",
			       settings->flags & ~known);
	return 0;
}

static __be32 low_bits(uint8_t count)
{
	return htonl((uint32_t)((1ULL << count) - 1));
}

static void write_settings(struct node_config *config,
			   const struct oxp_node_settings *settings)
{
	__be32 source_v4;

	memcpy(&source_v4, settings->source_v4.bytes + 12, sizeof(source_v4));
	__atomic_store_n(&config->entropy_v4, low_bits(settings->entropy_v4),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&config->entropy_v6, low_bits(settings->entropy_v6),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&config->icmp_rate, settings->icmp_rate,
			 __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++) {
		__be32 word;

		memcpy(&word, settings->source_v6.bytes + 4 * i, sizeof(word));
		/* ::ffff:0.0.0.0 means none as well */
		if (is_v4(settings->source_v6.bytes))
			word = 0;
		__atomic_store_n(&config->source_v6[i], word, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&config->source_v4, source_v4, __ATOMIC_RELEASE);
	__atomic_store_n(&config->flags, settings->flags, __ATOMIC_RELEASE);
}

int write_first_settings(struct oxp_node *node,
			 const struct oxp_node_settings *settings, char *error)
{
	int status = check(settings, error);

	if (!status)
		write_settings(node->config, settings);
	return status;
}

int oxp_node_settings_set(struct oxp_node *node,
			  const struct oxp_node_settings *settings, char *error)
{
	int status = check(settings, error);

	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	/* a constant of the program: replace the program first */
	if ((settings->flags ^ node->config->flags) & OXP_NODE_FIB) {
		struct forward *object;

		status = load_program(node, settings->flags, &object, error);
		if (!status) {
			status = replace_programs(node, object, error);
			forward__destroy(object);
		}
	}
	if (!status)
		write_settings(node->config, settings);
	unlock_node(node);
	return status;
}

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
