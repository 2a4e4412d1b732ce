// SPDX-License-Identifier: Apache-2.0
/*
 * Query a driver's XDP features by generic netlink (libmnl): the family
 * "netdev", Documentation/netlink/specs/netdev.yaml of Linux. The numbers are
 * defined here because headers before Linux 6.3 lack them.
 */
#include "node/xdp_features.h"

#include <linux/genetlink.h>

#include <libmnl/libmnl.h>

#define NETDEV_FAMILY "netdev"
#define NETDEV_VERSION 1
#define NETDEV_DEV_GET 1
#define NETDEV_DEV_IFINDEX 1
#define NETDEV_DEV_XDP_FEATURES 3
#define NETDEV_XDP_NDO_XMIT_SG 64

#define MESSAGE_MAX 256
#define ANSWER_MAX 8192

struct wanted {
	uint16_t attribute;
	enum mnl_attr_data_type type;
	uint64_t value; /* out */
};

static int take(const struct nlattr *attribute, void *data)
{
	struct wanted *wanted = data;

	if (mnl_attr_get_type(attribute) != wanted->attribute ||
	    mnl_attr_validate(attribute, wanted->type) < 0)
		return MNL_CB_OK;
	wanted->value = wanted->type == MNL_TYPE_U64
				? mnl_attr_get_u64(attribute)
				: mnl_attr_get_u16(attribute);
	return MNL_CB_STOP;
}

static int read_answer(const struct nlmsghdr *message, void *wanted)
{
	mnl_attr_parse(message, sizeof(struct genlmsghdr), take, wanted);
	return MNL_CB_OK;
}

static struct nlmsghdr *begin(char *buffer, uint16_t family, uint8_t command,
			      uint8_t version)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *header;

	message->nlmsg_type = family;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->cmd = command;
	header->version = version;
	return message;
}

/* Returns false if the kernel refuses the request. */
static bool ask(struct mnl_socket *handle, struct nlmsghdr *message,
		struct wanted *wanted)
{
	unsigned int port = mnl_socket_get_portid(handle);
	char answer[ANSWER_MAX];
	int status = 1;

	if (mnl_socket_sendto(handle, message, message->nlmsg_len) < 0)
		return false;
	while (status > 0) {
		int length =
			mnl_socket_recvfrom(handle, answer, sizeof(answer));

		if (length < 0)
			return false;
		status = mnl_cb_run(answer, length, 0, port, read_answer,
				    wanted);
	}
	return !status;
}

bool sends_split_frames(uint32_t ifindex)
{
	struct wanted family = {CTRL_ATTR_FAMILY_ID, MNL_TYPE_U16, 0};
	struct wanted features = {NETDEV_DEV_XDP_FEATURES, MNL_TYPE_U64, 0};
	struct mnl_socket *handle = mnl_socket_open(NETLINK_GENERIC);
	char buffer[MESSAGE_MAX];
	struct nlmsghdr *message;

	if (!handle)
		return false;
	message = begin(buffer, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	mnl_attr_put_strz(message, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY);
	if (mnl_socket_bind(handle, 0, MNL_SOCKET_AUTOPID) >= 0 &&
	    ask(handle, message, &family) && family.value) {
		message = begin(buffer, family.value, NETDEV_DEV_GET,
				NETDEV_VERSION);
		mnl_attr_put_u32(message, NETDEV_DEV_IFINDEX, ifindex);
		if (!ask(handle, message, &features))
			features.value = 0;
	}
	mnl_socket_close(handle);
	return features.value & NETDEV_XDP_NDO_XMIT_SG;
}
