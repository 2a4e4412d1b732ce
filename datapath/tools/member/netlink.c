// SPDX-License-Identifier: Apache-2.0
/* Addresses and tc filters, through rtnetlink (libmnl). */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <time.h>

#include <libmnl/libmnl.h>

#include "tool.h"

/* IFA_PROTO, the origin of an address, since Linux 5.18; 0 to 3 are the
 * kernel's. */
#define ADDRESS_PROTOCOL 88
#define REQUEST_MAX 256
#define ANSWER_MAX 32768 /* maximum that the kernel fills */

/* Sends a message and calls a function for each reply. 0 or a negative errno.
 */
static int send_request(struct nlmsghdr *message, mnl_cb_t callback, void *data)
{
	struct mnl_socket *handle = mnl_socket_open(NETLINK_ROUTE);
	char answer[ANSWER_MAX];
	unsigned int port;
	int length, status = 1;

	if (!handle)
		return -errno;
	message->nlmsg_seq = time(NULL);
	if (mnl_socket_bind(handle, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(handle, message, message->nlmsg_len) < 0)
		status = -1;
	port = mnl_socket_get_portid(handle);
	while (status > 0) {
		length = mnl_socket_recvfrom(handle, answer, sizeof(answer));
		status = length < 0 ? -1
				    : mnl_cb_run(answer, length,
						 message->nlmsg_seq, port,
						 callback, data);
	}
	if (status < 0)
		status = -errno;
	mnl_socket_close(handle);
	return status;
}

/* Builds a dump request for all families in a buffer of REQUEST_MAX zeroes. Its
 * header has `length` bytes, zeroes. */
static struct nlmsghdr *put_dump_request(char *buffer, uint16_t type,
					 size_t length)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(message, length);
	return message;
}

struct address_list {
	struct host_address *out;
	int count, max;
};

static int take_attribute(const struct nlattr *attribute, void *data)
{
	const struct nlattr **table = data;
	int type = mnl_attr_get_type(attribute);

	if (type <= IFA_MAX)
		table[type] = attribute;
	return MNL_CB_OK;
}

static int take_address(const struct nlmsghdr *message, void *data)
{
	const struct ifaddrmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *table[IFA_MAX + 1] = {}, *address;
	struct address_list *list = data;
	struct host_address *out = &list->out[list->count];

	if (header->ifa_family != AF_INET && header->ifa_family != AF_INET6)
		return MNL_CB_OK;
	if (list->count == list->max) {
		errno = E2BIG;
		return MNL_CB_ERROR;
	}
	mnl_attr_parse(message, sizeof(*header), take_attribute, table);
	/* On point-to-point links IFA_ADDRESS is the peer's. */
	address = table[IFA_LOCAL] ? table[IFA_LOCAL] : table[IFA_ADDRESS];
	if (!address)
		return MNL_CB_OK;
	memset(out, 0, sizeof(*out));
	if (header->ifa_family == AF_INET) {
		out->address.bytes[10] = out->address.bytes[11] = 0xff;
		memcpy(out->address.bytes + 12, mnl_attr_get_payload(address),
		       4);
	} else {
		memcpy(out->address.bytes, mnl_attr_get_payload(address), 16);
	}
	out->interface = header->ifa_index;
	out->link_local = header->ifa_scope == RT_SCOPE_LINK ||
			  header->ifa_scope == RT_SCOPE_HOST;
	out->ours = table[IFA_PROTO] &&
		    mnl_attr_get_u8(table[IFA_PROTO]) == ADDRESS_PROTOCOL;
	list->count++;
	return MNL_CB_OK;
}

int list_addresses(struct host_address *out, int max)
{
	struct address_list list = {.out = out, .max = max};
	char buffer[REQUEST_MAX] = {};
	struct nlmsghdr *message =
		put_dump_request(buffer, RTM_GETADDR, sizeof(struct ifaddrmsg));
	int status = send_request(message, take_address, &list);

	if (status)
		return complain_status(status, "the host's addresses");
	return list.count;
}

static int change_address(uint16_t type, uint16_t flags,
			  const struct ip_address *address)
{
	char buffer[REQUEST_MAX] = {};
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct ifaddrmsg *header;
	bool v4 = is_v4(address);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->ifa_family = v4 ? AF_INET : AF_INET6;
	header->ifa_prefixlen = v4 ? 32 : 128;
	header->ifa_flags = v4 ? 0 : IFA_F_NODAD;
	header->ifa_scope = RT_SCOPE_UNIVERSE;
	header->ifa_index = if_nametoindex("lo");
	mnl_attr_put(message, IFA_LOCAL, v4 ? 4 : 16,
		     address->bytes + (v4 ? 12 : 0));
	mnl_attr_put(message, IFA_ADDRESS, v4 ? 4 : 16,
		     address->bytes + (v4 ? 12 : 0));
	mnl_attr_put_u8(message, IFA_PROTO, ADDRESS_PROTOCOL);
	return send_request(message, NULL, NULL);
}

static int read_route_type(const struct nlmsghdr *message, void *data)
{
	const struct rtmsg *header = mnl_nlmsg_get_payload(message);

	*(bool *)data = header->rtm_type == RTN_LOCAL;
	return MNL_CB_OK;
}

bool is_local(const struct ip_address *address)
{
	char buffer[REQUEST_MAX] = {};
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct rtmsg *header;
	bool v4 = is_v4(address), local = false;

	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->rtm_family = v4 ? AF_INET : AF_INET6;
	header->rtm_dst_len = v4 ? 32 : 128;
	mnl_attr_put(message, RTA_DST, v4 ? 4 : 16,
		     address->bytes + (v4 ? 12 : 0));
	return !send_request(message, read_route_type, &local) && local;
}

int add_vip_address(const struct ip_address *address)
{
	int status =
		change_address(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address);
	char text[ADDRESS_TEXT];

	if (!status || status == -EEXIST)
		return 0;
	return complain_status(status, "VIP %s can't be put on lo%s",
			       address_text(address, text),
			       is_v4(address) ? ""
					      : " (is IPv6 switched off by "
						"net.ipv6.conf.lo."
						"disable_ipv6?)");
}

int delete_vip_address(const struct ip_address *address)
{
	int status = change_address(RTM_DELADDR, 0, address);
	char text[ADDRESS_TEXT];

	if (!status || status == -EADDRNOTAVAIL)
		return 0;
	return complain_status(status, "VIP %s can't be taken from lo",
			       address_text(address, text));
}

static int count_filter(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *header = mnl_nlmsg_get_payload(message);

	/* Entries without a handle represent a chain. */
	if (message->nlmsg_type == RTM_NEWTFILTER && header->tcm_handle)
		++*(int *)data;
	return MNL_CB_OK;
}

int count_filters(unsigned int ifindex)
{
	static const uint32_t parents[] = {
		TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
		TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS),
	};
	int count = 0;

	for (int i = 0; i < 2; i++) {
		char buffer[REQUEST_MAX] = {};
		struct nlmsghdr *message = put_dump_request(
			buffer, RTM_GETTFILTER, sizeof(struct tcmsg));
		struct tcmsg *header = mnl_nlmsg_get_payload(message);
		int status;

		header->tcm_ifindex = ifindex;
		header->tcm_parent = parents[i];
		status = send_request(message, count_filter, &count);
		if (status)
			return complain_status(status, "tc filters");
	}
	return count;
}

struct qdisc_search {
	unsigned int ifindex;
	bool found;
};

static int match_qdisc(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *header = mnl_nlmsg_get_payload(message);
	struct qdisc_search *search = data;
	const struct nlattr *attribute;

	if (header->tcm_ifindex != (int)search->ifindex)
		return MNL_CB_OK;
	mnl_attr_for_each(attribute, message, sizeof(*header))
		if (mnl_attr_get_type(attribute) == TCA_KIND &&
		    !strcmp(mnl_attr_get_str(attribute), "clsact"))
			search->found = true;
	return MNL_CB_OK;
}

int has_clsact(unsigned int ifindex)
{
	struct qdisc_search search = {.ifindex = ifindex};
	char buffer[REQUEST_MAX] = {};
	struct nlmsghdr *message =
		put_dump_request(buffer, RTM_GETQDISC, sizeof(struct tcmsg));
	struct tcmsg *header = mnl_nlmsg_get_payload(message);
	int status;

	header->tcm_ifindex = ifindex;
	status = send_request(message, match_qdisc, &search);
	if (status)
		return complain_status(status, "tc qdiscs");
	return search.found;
}
