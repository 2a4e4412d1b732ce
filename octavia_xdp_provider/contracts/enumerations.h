/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/*
 * Outcomes of packets, decisions on them, and encapsulations: the only list of
 * each, which C includes (octavia_xdp.h) and Python parses
 * (contracts/enumerations.py). Each entry begins on a new line; numbers count from 0, without gaps. Texts are in
 * reStructuredText, for the documentation. Files that include this define the
 * macros of the lists that they need; all macros are undefined at the end.
 */
#ifndef OXP_OUTCOME
#define OXP_OUTCOME(name, number, kind, text)
#endif
#ifndef OXP_PROBE_OUTCOME
#define OXP_PROBE_OUTCOME(name, number, text)
#endif
#ifndef OXP_HOST_OUTCOME
#define OXP_HOST_OUTCOME(name, number, kind, text)
#endif
#ifndef OXP_DECISION
#define OXP_DECISION(name, number, arguments, text)
#endif
#ifndef OXP_ENCAPSULATION
#define OXP_ENCAPSULATION(name, number, shim, option, text)
#endif

/*
 * What happened to a packet to a VIP; the text describes it. Kinds: uncounted
 * (forwarded packets are counted by service and member, and packets that are
 * not ours must cost nothing), answered by the node, remark (on packets that
 * were forwarded or passed nevertheless), dropped.
 */
OXP_OUTCOME(PASS, 0, uncounted, "not ours, left untouched")
OXP_OUTCOME(FORWARDED, 1, uncounted,
	    "encapsulated and sent to the next hop")
OXP_OUTCOME(ECHO_REPLY, 2, answered, "echo requests that the node answered")
OXP_OUTCOME(SENT_TOO_BIG, 3, answered,
	    "that did not fit the path to the member; ICMP sent the client the "
	    "MTU. See *MTU* in :doc:`/install/installation`")
OXP_OUTCOME(FRAGMENT_GUESSED, 4, remark,
	    "later fragments whose first one was not seen here: forwarded by "
	    "addresses alone, likely to another member than the first. Seen "
	    "when fragments of a packet arrive out of order, or at different "
	    "nodes")
OXP_OUTCOME(FLOW_TABLE_FULL, 5, remark,
	    "new flows that could not be remembered while their slot changed "
	    "members: they go where their next packets will go, which is the "
	    "member from before unless there is a second chance, even if that "
	    "member drains. See ``[datapath] flows_max``")
OXP_OUTCOME(PASSED_TOO_BIG, 6, remark,
	    "left to the kernel, ``[datapath] fragmentable = pass``")
OXP_OUTCOME(DROP_MALFORMED, 7, dropped,
	    "headers were cut short or contradict each other")
OXP_OUTCOME(DROP_MARTIAN, 8, dropped,
	    "came from an address that no host can have, from the VIP itself, "
	    "or from one that the node itself sends from")
OXP_OUTCOME(DROP_TUNNEL, 9, dropped, "were encapsulated by somebody else")
OXP_OUTCOME(DROP_FRAGMENT, 10, dropped,
	    "later fragments of a protocol without a listener")
OXP_OUTCOME(DROP_ICMP, 11, dropped,
	    "ICMP errors that quote no flow of a listener")
OXP_OUTCOME(DROP_NOT_ALLOWED, 12, dropped,
	    "came from outside of the listener's ``allowed_cidrs``")
OXP_OUTCOME(DROP_RATE, 13, dropped,
	    "from a source that opens flows faster than the flavor's "
	    "``new_flow_rate``")
OXP_OUTCOME(DROP_NO_MEMBER, 14, dropped, "no member was up with a weight")
OXP_OUTCOME(DROP_NO_NEXT_HOP, 15, dropped,
	    "no uplink had a next hop that answers, of the member's family, or "
	    "the node has no address of that family")
OXP_OUTCOME(DROP_TOO_BIG, 16, dropped,
	    "did not fit the path to the member, and no ICMP was sent: they "
	    "could have been fragmented, or ``[datapath] icmp_rate`` was "
	    "reached")
OXP_OUTCOME(DROP_NO_HEADROOM, 17, dropped,
	    "the driver left no room in front of the packet")
OXP_OUTCOME(DROP_INTERNAL, 18, dropped,
	    "the maps held what the library never writes: a bug, please "
	    "report it")
OXP_OUTCOME(DROP_NO_NAT_FLOW, 19, dropped,
	    "NAT: answers of an unknown or ended flow, and packets of clients' "
	    "connections that no node has, if no reset answers them")
OXP_OUTCOME(DROP_NAT_FULL, 20, dropped,
	    "NAT: new flows without a free port, or beyond the tenant's share "
	    "of ports")
OXP_OUTCOME(DROP_TTL, 21, dropped,
	    "NAT: their TTL or hop limit expired here, as at any router")
OXP_OUTCOME(DROP_NAT_UNTRANSLATABLE, 22, dropped,
	    "NAT: packets without an equivalent in the other IP version: a "
	    "fragment of UDP without a checksum, a source route, an ICMP "
	    "error about a packet of impossible length")
OXP_OUTCOME(NAT_EVICTED, 23, remark,
	    "NAT: new flows that replaced the tenant's oldest one with an "
	    "incomplete handshake. Many of them indicate a SYN flood")
OXP_OUTCOME(DROP_MULTI_BUFFER, 24, dropped,
	    "frames of several buffers whose headers the driver did not put "
	    "into the first one (before Linux 6.18), or for an uplink whose "
	    "driver sends none. See *MTU* in :doc:`/install/installation`")
OXP_OUTCOME(DROP_CONNECTION_LIMIT, 25, dropped,
	    "new connections beyond this node's share of the listener's "
	    "``connection_limit``")
OXP_OUTCOME(SENT_RESET, 26, answered,
	    "the same, if the flavor's ``connection_limit_reset`` requests a "
	    "TCP reset, and NAT's packets of connections that no node has, "
	    "such as those of a node that has failed")
OXP_OUTCOME(NAT_HANDED_ON, 27, remark,
	    "NAT: packets of another node's connections, sent to that node. "
	    "Seen when routers move connections, such as in drains")
OXP_OUTCOME(DROP_NAT_PEER, 28, dropped,
	    "NAT: more packets of unknown connections than the search for "
	    "their node allows, or packets that seem to be handed on but not "
	    "by a node with NAT")

/* What happened to a packet with one of our marks. */
OXP_PROBE_OUTCOME(SENT, 0, "encapsulated")
OXP_PROBE_OUTCOME(DROP_UNKNOWN, 1,
		  "no member has the mark. A few are normal when members go")
OXP_PROBE_OUTCOME(DROP_DESTINATION, 2,
		  "not to the VIP that the mark is for: another program sets "
		  "such marks")
OXP_PROBE_OUTCOME(DROP_NO_SOURCE, 3,
		  "the node has no address of the member's family to send from")
OXP_PROBE_OUTCOME(DROP_TOO_BIG, 4,
		  "did not fit the uplink's MTU with the outer header")
OXP_PROBE_OUTCOME(DROP_INTERNAL, 5,
		  "the kernel would not change the packet: a bug, please "
		  "report it")

/*
 * What happened to a packet on a hypervisor; kinds as above. A "key" identifies
 * a listener and a member in the outer header.
 */
OXP_HOST_OUTCOME(PASS, 0, uncounted, "not ours, left untouched")
OXP_HOST_OUTCOME(IN, 1, uncounted, "given to the member")
OXP_HOST_OUTCOME(OUT, 2, uncounted, "an answer, sent to the client")
OXP_HOST_OUTCOME(FLOWS_FULL, 3, remark,
		 "flows that stay half-open: the port has reached its limit of "
		 "confirmed ones, or its places are taken")
OXP_HOST_OUTCOME(DROP_SOURCE, 4, dropped,
		 "with one of our keys, but not from the networks of LB nodes: "
		 "they are forged, or a network is missing")
OXP_HOST_OUTCOME(DROP_KEY, 5, dropped,
		 "from an LB node, with a key that is unknown here. A few are "
		 "normal when members go or move")
OXP_HOST_OUTCOME(DROP_MALFORMED, 6, dropped,
		 "headers were cut short or contradict each other")
OXP_HOST_OUTCOME(DROP_ECN, 7, dropped,
		 "met congestion on the way from the LB node, which their "
		 "sender cannot learn (RFC 6040)")
OXP_HOST_OUTCOME(DROP_MISMATCH, 8, dropped,
		 "the inner packet is not for the listener that the key names")
OXP_HOST_OUTCOME(DROP_NOT_ALLOWED, 9, dropped,
		 "the port's security groups do not let the client in")
OXP_HOST_OUTCOME(DROP_NO_TAP, 10, dropped,
		 "the member's tap is not here: not yet, or no longer")
OXP_HOST_OUTCOME(DROP_COLLISION, 11, dropped,
		 "the client has a flow with the same ports to another "
		 "listener of the same member's port: the member could not "
		 "tell them apart")
OXP_HOST_OUTCOME(DROP_ICMP, 12, dropped,
		 "ICMP errors that quote no flow of the key's listener")
OXP_HOST_OUTCOME(DROP_ARRIVING, 13, dropped,
		 "answers of an unknown flow while the member arrives from "
		 "another hypervisor, which sends the flows. Some are normal "
		 "in the minute after a live migration")
OXP_HOST_OUTCOME(DROP_NO_REPLY, 14, dropped,
		 "answers, while no interface is set by which they could leave")
OXP_HOST_OUTCOME(DROP_INTERNAL, 15, dropped,
		 "the kernel would not change the packet, or the maps held "
		 "what the library never writes: a bug, please report it")
OXP_HOST_OUTCOME(HANDED_ON, 16, remark,
		 "of connections unknown here, sent to the other hypervisor "
		 "that may have them. Some are normal after members or LB "
		 "nodes have changed")
OXP_HOST_OUTCOME(SECOND_CHANCE, 17, remark,
		 "given to the member that was named second, which has the "
		 "connection")
OXP_HOST_OUTCOME(KEPT, 18, remark,
		 "of connections unknown here that could not be handed on: the "
		 "second member is on a hypervisor of no known network, or "
		 "does not know them either")
OXP_HOST_OUTCOME(DROP_UNKNOWN, 19, dropped,
		 "handed on by another hypervisor, of connections unknown here")
OXP_HOST_OUTCOME(SENT_TOO_BIG, 20, answered,
		 "answers larger than the MTU of the interface by which they "
		 "leave; ICMP told the member the MTU")
OXP_HOST_OUTCOME(DROP_TOO_BIG, 21, dropped,
		 "answers larger than the MTU of the interface by which they "
		 "leave, without ICMP to the member: IPv4 without DF, later "
		 "fragments, ICMP errors, or a member that has used up its "
		 "budget of ICMP. Give its network an MTU that fits")
OXP_HOST_OUTCOME(HALF_OPEN_EVICTED, 22, remark,
		 "packets that began a flow in the place of the oldest "
		 "half-open one of the same sixteenth of the table, whose "
		 "client has to send its SYN again. Seen in floods of SYNs, of "
		 "a port that refuses no client")

/*
 * What the forwarding program decided on a packet, step by step, as simulations
 * record it, with the names of the arguments, at most seven. Services and
 * members are given by their indices; no member is 0x7fff. Families are 0 for
 * IPv4 and 1 for IPv6. What an outcome says by itself is not recorded.
 */
OXP_DECISION(SERVICE, 0, "service", "it is for the service")
OXP_DECISION(ALLOWED, 1, "allowed", "whether allowed_cidrs has the source")
OXP_DECISION(RATE, 2, "tokens",
	     "flows that the source may open now, in 1/1024")
OXP_DECISION(QUIC_SERVER, 3, "server", "a connection ID with a server ID")
OXP_DECISION(QUIC_MEMBER, 4, "member", "the member with this server ID is up")
OXP_DECISION(QUIC_NOBODY, 5, "", "no member that is up has the connection ID")
OXP_DECISION(SLOT, 6, "slot slots undecided open now before",
	     "the slot, whether its table alone does not decide, whether it is "
	     "open, and its owners; before: of undecided ones")
OXP_DECISION(REMEMBERED, 7, "member age confirmed",
	     "the flow is remembered; its age in units of 2^30 ns")
OXP_DECISION(NOT_REMEMBERED, 8, "", "the flow is not remembered")
OXP_DECISION(TAKEN_REMEMBERED, 9, "member", "remembered")
OXP_DECISION(TAKEN_AGAIN, 10, "member", "opened before, and not answered yet")
OXP_DECISION(TAKEN_NEW, 11, "member", "a new flow")
OXP_DECISION(TAKEN_FULL, 12, "member", "a new flow, which cannot be remembered")
OXP_DECISION(TAKEN_OLD, 13, "member",
	     "not remembered, so older than the change")
OXP_DECISION(TAKEN_UNKNOWN, 14, "member", "not remembered, so new")
OXP_DECISION(TAKEN_LEARNT, 15, "member", "flows are still being learnt")
OXP_DECISION(TAKEN_FRAGMENT, 16, "member",
	     "fragments stay with the owner before")
OXP_DECISION(MEMBER, 17, "member", "it goes to the member")
OXP_DECISION(ALTERNATIVE, 18, "member",
	     "it names this member, too, which may have its flow")
OXP_DECISION(PORT, 19, "port", "the port in place of the service's")
OXP_DECISION(FIRST_FRAGMENT, 20, "", "later fragments will follow it")
OXP_DECISION(FOLLOWED, 21, "service member", "the first fragment went there")
OXP_DECISION(NOT_FOLLOWED, 22, "",
	     "where the first fragment went is not known")
OXP_DECISION(ECHO, 23, "answered",
	     "an echo request, and whether this node answers any")
OXP_DECISION(ANSWER, 24, "rate answered",
	     "answers per second and CPU, and whether that leaves one")
OXP_DECISION(QUOTED, 25, "protocol ports client0 client1 client2 client3",
	     "an ICMP error about this flow of the VIP, in network order")
OXP_DECISION(NAT, 26, "", "flows of NAT decide")
OXP_DECISION(NO_SOURCE, 27, "family", "the node has no outer source")
OXP_DECISION(ROUTES, 28, "", "the kernel's routes give the next hop")
OXP_DECISION(UPLINK, 29, "ifindex family choice",
	     "the uplink of this choice; ifindex 0: none has a next hop")
OXP_DECISION(SIZE, 30, "size overhead mtu",
	     "bytes of the packet with padding and of the outer header, and "
	     "what the path takes")
OXP_DECISION(TOO_BIG, 31, "limit",
	     "it does not fit; the MTU for its sender, 0: none is sent")

/* How packets get to members: bytes between outer IP header and packet, and the
 * name in flavors. */
OXP_ENCAPSULATION(IPIP, 0, 0, "ipip", "RFC 2003, 2473, 4213: any family in any")
OXP_ENCAPSULATION(GUE, 1, 8, "gue",
		  "variant 1 of draft-ietf-intarea-gue: UDP and the packet")
OXP_ENCAPSULATION(GRE, 2, 4, "gre", "RFC 2784, no key, no checksum")
OXP_ENCAPSULATION(DSCP, 3, 0, "dscp",
		  "no outer header: destination and DSCP are rewritten; "
		  "members must be of the VIP's family")
OXP_ENCAPSULATION(SRV6, 4, 0, "srv6",
		  "H.Encaps.Red of RFC 8986 with one SID: IPv6 members")
OXP_ENCAPSULATION(GENEVE, 5, 16, "geneve",
		  "RFC 8926: UDP, a key, and the packet without Ethernet")

#undef OXP_OUTCOME
#undef OXP_PROBE_OUTCOME
#undef OXP_HOST_OUTCOME
#undef OXP_DECISION
#undef OXP_ENCAPSULATION
