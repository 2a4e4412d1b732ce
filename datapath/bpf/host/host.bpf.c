/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A hypervisor's programs, for members that know nothing of them:
 *
 *   LB node -> [tunnel with key] -> oxp_host_nic -> tap -> VM
 *   client <--------------------- oxp_host_tap_in <- tap <- VM
 *
 * oxp_host_tap_out watches the other packets to a VM that has just come from
 * another hypervisor, so that replies to them can be told from those of flows
 * that are not known here yet.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "host/second_chance.h"
#include "host/take_in.h"
#include "host/take_out.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* NIC, ingress. All other traffic of the hypervisor passes here, too, and is
 * sorted out by a few comparisons. */
SEC("tc")
int oxp_host_nic(struct __sk_buff *skb)
{
	const struct host_settings *node = &settings;
	struct chance chance = {};
	int action;

	if (skb->data_end - skb->data < ARRIVE_PEEKED &&
	    skb->len >= ARRIVE_PEEKED)
		bpf_skb_pull_data(skb, ARRIVE_PEEKED);
	if (!may_be_ours(skb, node))
		return TC_ACT_UNSPEC;
	action = take_usual_in(skb);
	if (action == TO_BE_DECIDED)
		action = second_chance(skb, &chance);
	return action == TO_BE_DECIDED ? take_in(skb, &chance) : action;
}

/* A tap's ingress: packets from the VM. */
SEC("tc")
int oxp_host_tap_in(struct __sk_buff *skb)
{
	return take_out(skb);
}

/* A tap's egress: packets to the VM. */
SEC("tc")
int oxp_host_tap_out(struct __sk_buff *skb)
{
	struct host_packet packet = {};
	__u32 place;

	if (skb->mark == HOST_MARK || skb->vlan_present)
		return TC_ACT_UNSPEC;
	if (!read_usual(skb, ETH_HLEN, &packet)) {
		__builtin_memset(&packet, 0, sizeof(packet));
		if ((skb->protocol != bpf_htons(ETH_P_IP) &&
		     skb->protocol != bpf_htons(ETH_P_IPV6)) ||
		    read_any(skb, ETH_HLEN, &packet))
			return TC_ACT_UNSPEC;
	}
	/* the flag is only used for TCP */
	if (packet.transport.protocol != IPPROTO_TCP || !packet.has_ports)
		return TC_ACT_UNSPEC;
	place = place_of_listener(skb->ifindex, IPPROTO_TCP,
				  packet.destination_port,
				  &packet.transport.destination);
	if (place != HOST_NO_PLACE)
		note_direct(&packet, place);
	return TC_ACT_UNSPEC;
}
