# SPDX-License-Identifier: Apache-2.0
"""The sequence of decisions from a frame to its result."""

import typing

from octavia_xdp_provider.tests.models.packet_model import encap
from octavia_xdp_provider.tests.models.packet_model import flows
from octavia_xdp_provider.tests.models.packet_model import fragments
from octavia_xdp_provider.tests.models.packet_model import icmp
from octavia_xdp_provider.tests.models.packet_model import mss
from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import nat_peers
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import ports
from octavia_xdp_provider.tests.models.packet_model import quic
from octavia_xdp_provider.tests.models.packet_model import rate
from octavia_xdp_provider.tests.models.packet_model import resets
from octavia_xdp_provider.tests.models.packet_model import select
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.models.packet_model import too_big
from octavia_xdp_provider.tests.models.packet_model import translator

Action = state.Action
Outcome = state.Outcome
TUNNELS = (encap.IPIP, encap.IP6, encap.GRE)
SYN, FIN, RST, ACK = 2, 1, 4, 16
SCTP_INIT = 1
SCTP_ENDS = (6, 7, 8, 14)  # ABORT, and the three chunks of a shutdown


class Result(typing.NamedTuple):
    """What happens to a frame.

    With node.by_routes, a forwarded packet has no action and its frame no link
    header, since the kernel's routes determine both.
    """

    action: Action | None
    frame: bytes
    outcome: Outcome
    remarks: tuple[Outcome, ...] = ()
    service: state.Service | None = None
    member: int | None = None
    any_id: bool = False  # the node may choose the IPv4 ID
    stripped: int = 0  # bytes of a peer's headers, which are not counted

    def counted(self) -> tuple[Outcome, ...]:
        """Return the outcomes that count this packet and the bytes of the
        received frame."""
        if self.outcome in (Outcome.PASS, Outcome.FORWARDED):
            return self.remarks
        return (*self.remarks, self.outcome)


class _Packet(typing.NamedTuple):
    """A packet for a service, with its context."""

    parsed: parse.Packet
    service: state.Service
    ingress: int
    time: int
    source: bytes  # client of the flow, not the source of an ICMP error
    ports: bytes
    protocol: int
    error: bool = False


def opens_flow(packet: parse.Packet, service: state.Service) -> bool:
    frame, at = packet.frame, packet.transport
    if packet.protocol == state.TCP:
        return frame[at + 13] & (SYN | FIN | RST | ACK) == SYN
    if packet.protocol == state.SCTP:
        return at + 12 < packet.end and frame[at + 12] == SCTP_INIT
    return service.quic and quic.opens(frame[at + 8:packet.end])


def ends_flow(packet: parse.Packet) -> bool:
    frame, at = packet.frame, packet.transport
    if packet.protocol == state.TCP:
        return bool(frame[at + 13] & (FIN | RST))
    return (packet.protocol == state.SCTP and
            at + 14 <= min(packet.end, packet.readable) and
            frame[at + 12] in SCTP_ENDS)


class Forwarder:
    """The program with its state.

    `slots`, `memory`, `fragments`, `sources` and `answers` may be replaced,
    for example by readers of a node's maps.
    """

    def __init__(self, node: state.Node):
        self.node = node
        self.services: dict[tuple, state.Service] = {}
        self.vips: dict[bytes, list[state.Service]] = {}
        self.slots = select.Slots()
        self.memory = flows.Memory(node)
        self.fragments = fragments.Fragments()
        self.sources = rate.Sources()
        self.answers = rate.Answers(node)
        self.nat = nat.Flows()
        self.peers = nat_peers.Peers()
        self.translator = translator.Translator(self)

    def set_services(self, services: list[state.Service]):
        self.services = {(service.vip, service.protocol, service.port): service
                         for service in services}
        self.vips = {}
        self.nat.keep(services)
        for service in services:
            service.place()
            self.vips.setdefault(service.vip, []).append(service)

    def forward(self, frame: bytes, ingress: int, clock: int,
                readable: int | None = None) -> Result:
        """Forward a frame. `clock`: the coarse monotonic clock, ns;
        `readable`: bytes in the first of several buffers.
        """
        packet = parse.parse(frame, readable)
        if type(packet) is parse.Ignored:
            return Result(Action.PASS, frame, Outcome.PASS)
        if packet.destination in self.nat.pools:
            return self._to_pool(packet, ingress, clock)
        services = self.vips.get(packet.destination)
        if services is None:
            return Result(Action.PASS, frame, Outcome.PASS)
        if packet.wrong is not None:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        if packet.later:
            return self._later_fragment(packet, ingress, clock)
        if packet.protocol in parse.HEADER:
            return self._transport(packet, ingress, clock)
        if packet.protocol in TUNNELS:
            return self._tunnel(packet)
        if packet.protocol == (state.ICMP if packet.family == state.IPV4
                               else state.ICMPV6) and not packet.first:
            return self._icmp(packet, ingress, clock)
        return self._left(packet)

    # NAT --------------------------------------------------------------------

    def _to_pool(self, packet, ingress, clock) -> Result:
        frame = packet.frame
        wrong = nat.wrong(packet)
        if wrong is not None:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        icmp_of_family = (state.ICMP if packet.family == state.IPV4
                          else state.ICMPV6)
        if (packet.protocol in (state.ICMP, state.ICMPV6) and
                (packet.protocol != icmp_of_family or packet.first or
                 packet.later)):
            return Result(Action.PASS, frame, Outcome.PASS)
        if packet.later:
            return self._translated(self.translator.later(packet, True),
                                    packet, ingress, clock)
        if packet.protocol == icmp_of_family:
            return self._icmp_to_pool(packet, ingress, clock)
        if self.peers.is_outer(packet):
            return self._handed(packet, ingress, clock)
        if packet.protocol not in (state.TCP, state.UDP):
            return Result(Action.PASS, frame, Outcome.PASS)
        return self._translated(self.translator.reply(packet), packet,
                                ingress, clock)

    def _icmp_to_pool(self, packet, ingress, clock) -> Result:
        wrong = icmp.wrong(packet)
        if wrong is not None:
            return self._drop(packet.frame, Outcome.DROP_MALFORMED)
        kind = packet.frame[packet.transport]
        if kind == icmp.ECHO[packet.family]:
            return self._echo(packet, clock)
        if kind not in icmp.ERRORS[packet.family]:
            return Result(Action.PASS, packet.frame, Outcome.PASS)
        return self._translated(self.translator.error(packet, True), packet,
                                ingress, clock)

    def _translated(self, match: translator.Found | Outcome, packet, ingress,
                    clock, service=None) -> Result:
        """Send a packet by its flow (`match`), or drop it with its outcome."""
        frame = packet.frame
        if isinstance(match, Outcome):
            return self._drop(frame, match, (), service)
        service = match.flow.service
        sent = self.translator.send(match, packet, ingress)
        if sent.limit is not None:
            return self._too_big_nat(packet, match.quote is not None,
                                     sent.limit, clock, service)
        if sent.outcome != Outcome.FORWARDED:
            return self._drop(frame, sent.outcome, (), service)
        return Result(sent.action, sent.frame, Outcome.FORWARDED, (), service,
                      match.flow.index, sent.any_id)

    def _too_big_nat(self, packet, is_error, limit, clock,
                     service) -> Result:
        family = packet.family
        answer = (packet.dont_fragment and not is_error and
                  not packet.later and
                  (family == state.IPV6 or (
                      not packet.first and limit >= too_big.LEAST[family])))
        if answer and self._may_answer(rate.Answer.TOO_BIG, packet, clock):
            return Result(Action.TX, too_big.message(packet, limit),
                          Outcome.SENT_TOO_BIG)
        return self._drop(packet.frame, Outcome.DROP_TOO_BIG, (), service)

    def _request(self, packet, service, ingress, clock,
                 handed=None) -> Result:
        """Handle a packet to a NAT service, whole or a first fragment."""
        opens = opens_flow(packet, service)
        refused = (self._refused(packet, service) or
                   self._beyond_rate(packet, service, opens, clock))
        asked = not self.peers or (
            handed is not None and handed.kind == nat_peers.Kind.NOBODY)
        match = refused or self.translator.request(packet, service, opens,
                                                   asked)
        if match is None:
            result = self._unknown(packet, service, handed, ingress, clock)
            if result is not None:
                return result
            if packet.protocol == state.TCP and not opens:
                return self._orphan(packet, service, ingress, clock)
            match = self.translator.begin(packet, service, opens)
            if match is Outcome.DROP_CONNECTION_LIMIT:
                return self._beyond_limit(packet, service, clock)
        elif (handed and handed.kind == nat_peers.Kind.SEEK and
                not isinstance(match, Outcome)):
            return self._hand_on(packet, self.peers.back(handed), service,
                                 ingress, clock)
        return self._translated(match, packet, ingress, clock, service)

    def _orphan(self, packet, service, ingress, clock) -> Result:
        """Handle a TCP packet of a connection that no node has."""
        frame, family = packet.frame, packet.family
        flags = nat.tcp_flags(packet)
        if (not flags & nat.ACK or flags & nat.RST or
                not resets.can_reset(packet)):
            return self._drop(frame, Outcome.DROP_NO_NAT_FLOW, (), service)
        uplink = self.uplink(family, frame[packet.transport + 1] << 24)
        if uplink is None:
            return self._drop(frame, Outcome.DROP_NO_NEXT_HOP, (), service)
        if not self._may_answer(rate.Answer.RESET, packet, clock):
            return self._drop(frame, Outcome.DROP_NO_NAT_FLOW, (), service)
        action = Action.TX if uplink.ifindex == ingress else Action.REDIRECT
        return Result(action, uplink.link(family) + resets.reset(packet),
                      Outcome.SENT_RESET)

    # Peers of NAT ------------------------------------------------------------

    def _handed(self, packet, ingress, clock) -> Result:
        """Handle a packet to a pool that looks as if handed on by a peer."""
        handed = self.peers.read(packet)
        inner = handed and parse.parse(self.peers.inside(packet, handed),
                                       max(packet.readable - handed.length,
                                           parse.PULLED))
        if not isinstance(inner, parse.Packet):
            return self._drop(packet.frame, Outcome.DROP_NAT_PEER)
        result = self._inside(inner, handed, ingress, clock)
        if result.action == Action.PASS:
            result = self._drop(packet.frame, Outcome.DROP_NAT_PEER)
        return result._replace(stripped=handed.length)

    def _inside(self, packet, handed, ingress, clock) -> Result:
        frame = packet.frame
        wrong = nat.wrong(packet)
        if wrong is not None:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        if packet.protocol in (state.ICMP, state.ICMPV6):
            return self._icmp_inside(packet, handed, ingress, clock)
        if packet.later:
            return self._later_inside(packet, handed, ingress, clock)
        if packet.protocol not in (state.TCP, state.UDP):
            return Result(Action.PASS, frame, Outcome.PASS)
        at = packet.transport
        if at + parse.HEADER[packet.protocol] > packet.end:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        service = self.services.get(
            (packet.destination, packet.protocol,
             int.from_bytes(frame[at + 2:at + 4], 'big')))
        if service is not None and service.nat:
            return self._request(packet, service, ingress, clock, handed)
        return (self._unknown(packet, None, handed, ingress, clock) or
                self._drop(frame, Outcome.DROP_NAT_PEER))

    def _later_inside(self, packet, handed, ingress, clock) -> Result:
        match = self.translator.later(packet, False)
        if handed.kind == nat_peers.Kind.SEEK and not isinstance(
                match, Outcome):
            return self._hand_on(packet, self.peers.back(handed), None,
                                 ingress, clock)
        return self._translated(match, packet, ingress, clock)

    def _icmp_inside(self, packet, handed, ingress, clock) -> Result:
        family, at = packet.family, packet.transport
        if (packet.protocol != (state.ICMP if family == state.IPV4 else
                                state.ICMPV6) or packet.first or
                packet.later):
            return Result(Action.PASS, packet.frame, Outcome.PASS)
        wrong = icmp.wrong(packet)
        if wrong is not None:
            return self._drop(packet.frame, Outcome.DROP_MALFORMED)
        if packet.frame[at] == icmp.ECHO[family]:
            return self._echo(packet, clock)
        if packet.frame[at] not in icmp.ERRORS[family]:
            return Result(Action.PASS, packet.frame, Outcome.PASS)
        return self._error_to_vip(packet, handed, ingress, clock)

    def _error_to_vip(self, packet, handed, ingress, clock) -> Result:
        match = self.translator.error(packet, False)
        if match is Outcome.DROP_ICMP:
            result = self._unknown(packet, None, handed, ingress, clock, True)
            if result is not None:
                return result
        return self._translated(match, packet, ingress, clock)

    def _unknown(self, packet, service, handed, ingress, clock,
                 is_error=False) -> Result | None:
        """Hand a packet of an unknown flow to the node that may have it; None:
        there is none."""
        if not self.peers:
            return None
        key, at, seeks = None, packet.transport, True
        if not is_error:
            if packet.protocol == state.TCP and opens_flow(packet, None):
                return None
            key = (packet.source, packet.destination, packet.protocol,
                   packet.frame[at:at + 4])
        if packet.protocol == state.UDP:
            seeks = clock >> flows.UNIT_SHIFT < self.peers.seek_udp_until
        onward = self.peers.onward(key, handed, seeks)
        if onward is None:
            return None
        if packet.first and onward.kind == nat_peers.Kind.OWNED:
            self.forget_first(packet)
            self.peers.leave(translator.fragment_key(packet), onward.target,
                             packet.frame[at + 1] << 24)
        return self._hand_on(packet, onward, service, ingress, clock,
                             is_error)

    def forget_first(self, packet):
        """Drop records of an earlier packet whose fragments had this key."""
        key = translator.fragment_key(packet)
        for records in (self.nat, self.peers, self.fragments):
            records.forget(key)

    def _later_to_peer(self, packet, ingress, clock) -> Result:
        """Send a later fragment to the flow's owner, as its first one."""
        if self.node.is_no_client(packet.source, packet.destination):
            return self._drop(packet.frame, Outcome.DROP_MARTIAN)
        owner = self.peers.follow(translator.fragment_key(packet))
        if owner is None:
            return self._drop(packet.frame, Outcome.DROP_FRAGMENT)
        onward, entropy = owner
        return self._hand_on(packet, onward, None, ingress, clock,
                             entropy=entropy)

    def _hand_on(self, packet, onward, service, ingress, clock,
                 is_error=False, entropy=0) -> Result:
        frame, at = packet.frame, packet.transport
        family = nat.family_of(nat.End(onward.target, 0))
        if not is_error and not packet.later:
            entropy = frame[at + 1] << 24
        uplink = self.uplink(family, entropy)
        if uplink is None:
            return self._drop(frame, Outcome.DROP_NO_NEXT_HOP, (), service)
        limit = uplink.mtu - self.peers.overhead
        if len(frame) - packet.network > limit:
            return self._too_big_nat(packet, is_error, limit, clock, service)
        action = Action.TX if uplink.ifindex == ingress else Action.REDIRECT
        if uplink.cannot_send(packet.split, action):
            return self._drop(frame, Outcome.DROP_MULTI_BUFFER, (), service)
        return Result(
            action, uplink.link(family) + nat_peers.wrapped(packet, onward) +
            frame[packet.end:], Outcome.FORWARDED, (Outcome.NAT_HANDED_ON,))

    # Results without a service -----------------------------------------------

    @staticmethod
    def _drop(frame: bytes, outcome: Outcome, remarks=(),
              service: state.Service | None = None) -> Result:
        """Drop the frame. `service`: its destination, if known."""
        if service is not None:
            service.drops += 1
        return Result(Action.DROP, frame, outcome, remarks)

    def _tunnel(self, packet) -> Result:
        return self._drop(packet.frame, Outcome.DROP_TUNNEL)

    def _left(self, packet) -> Result:
        return Result(Action.PASS, packet.frame, Outcome.PASS)

    # TCP, UDP, SCTP -------------------------------------------------------

    def _transport(self, packet, ingress, clock) -> Result:
        at = packet.transport
        ports = packet.frame[at:at + 4]
        port = ports[2] << 8 | ports[3]
        service = self.services.get(
            (packet.destination, packet.protocol, port))
        if service is None:
            if packet.protocol == state.UDP and port in encap.UDP_PORTS:
                return self._tunnel(packet)
            return Result(Action.PASS, packet.frame, Outcome.PASS)
        if service.nat:
            return self._request(packet, service, ingress, clock)
        opens = opens_flow(packet, service)
        refused = (self._refused(packet, service) or
                   self._beyond_rate(packet, service, opens, clock))
        if refused is not None:
            return self._drop(packet.frame, refused, (), service)
        context = _Packet(packet, service, ingress, clock, packet.source,
                          ports, packet.protocol)
        flow = select.flow_of(service, packet.source, ports,
                              packet.protocol)
        value = select.flow_hash(*flow)
        remarks: tuple[Outcome, ...] = ()
        alternative = None
        member = self._by_connection(packet, service)
        if member is None:
            member, other, full = self._select(context, flow, value, opens)
            if full:
                remarks = (Outcome.FLOW_TABLE_FULL,)
            if not opens and not packet.first:
                alternative = other
        if packet.first and member != state.NOBODY:
            self.forget_first(packet)
            self.fragments.leave(packet, service, member)
        return self._send(context, member, value, opens, remarks, alternative)

    def _refused(self, packet, service) -> Outcome | None:
        if self.node.is_no_client(packet.source, packet.destination):
            return Outcome.DROP_MARTIAN
        networks = service.networks
        network = None if networks is None else networks.find(packet.source)
        return (Outcome.DROP_NOT_ALLOWED if network is None and
                networks is not None else None)

    def _beyond_rate(self, packet, service, opens, clock) -> Outcome | None:
        if not service.new_flow_rate or not (
                opens or packet.protocol == state.UDP):
            return None
        tokens = self.sources.tokens(service, packet.source,
                                     clock // 1000000)
        if tokens < rate.SCALE:
            return Outcome.DROP_RATE
        self.sources.take(service, packet.source)
        return None

    def _beyond_limit(self, packet, service, clock) -> Result:
        if (service.sends_reset and resets.can_reset(packet) and
                self._may_answer(rate.Answer.RESET, packet, clock)):
            return Result(Action.TX, resets.reset_back(packet),
                          Outcome.SENT_RESET)
        return self._drop(packet.frame, Outcome.DROP_CONNECTION_LIMIT, (),
                          service)

    def _by_connection(self, packet, service) -> int | None:
        """Return the member that a QUIC connection ID names."""
        if not service.quic:
            return None
        server = quic.find_server(
            packet.frame[packet.transport + 8:packet.end])
        member = service.servers.get(server)
        if member is not None and not service.members[member].keeps_flows:
            member = None
        return member

    def _select(self, context: _Packet, flow: tuple, value: int,
                opens: bool) -> tuple[int, int | None, bool]:
        """Return (member, the alternative for packets that open no flow,
        whether the memory was full)."""
        slot = self.slots.look_up(context.service, flow, value)
        member, full = slot.now, False
        if slot.before is not None and slot.open:
            member, full = flows.choose(
                self.memory, context.service, flow, slot, context.protocol,
                opens, not context.error and ends_flow(context.parsed),
                context.time >> flows.UNIT_SHIFT)
        return member, flows.alternative(context.service, slot, member), full

    # Fragments ------------------------------------------------------------

    def _later_fragment(self, packet, ingress, clock) -> Result:
        if self.translator.follows(packet):
            return self._translated(self.translator.later(packet, False),
                                    packet, ingress, clock)
        if self.peers.follows(translator.fragment_key(packet)):
            return self._later_to_peer(packet, ingress, clock)
        owner = self.fragments.follow(packet, self.services)
        if owner is not None:
            service, member = owner
        else:
            if packet.protocol in TUNNELS:
                return self._tunnel(packet)
            if packet.protocol not in parse.HEADER:
                return self._left(packet)
            service = fragments.guess(self.vips[packet.destination],
                                      packet.protocol)
            if service is None:
                return self._drop(packet.frame, Outcome.DROP_FRAGMENT)
            if service.nat:
                return self._drop(packet.frame, Outcome.DROP_FRAGMENT)
        refused = self._refused(packet, service)
        if refused is not None:
            return self._drop(packet.frame, refused, (), service)
        context = _Packet(packet, service, ingress, clock, packet.source,
                          bytes(4), packet.protocol)
        flow = select.flow_of(service, packet.source, bytes(4),
                              packet.protocol)
        value = select.flow_hash(*flow)
        if owner is not None:
            return self._send(context, member, value, False, ())
        slot = self.slots.look_up(service, flow, value)
        member = slot.now
        if slot.before is not None and slot.open:
            member = flows.stays(service, slot)
        return self._send(context, member, value, False,
                          (Outcome.FRAGMENT_GUESSED,))

    # ICMP -----------------------------------------------------------------

    def _icmp(self, packet, ingress, clock) -> Result:
        frame, family = packet.frame, packet.family
        wrong = icmp.wrong(packet)
        if wrong is not None:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        kind = frame[packet.transport]
        if kind == icmp.ECHO[family]:
            return self._echo(packet, clock)
        if kind not in icmp.ERRORS[family]:
            return Result(Action.PASS, frame, Outcome.PASS)
        quoted = icmp.quoted(packet)
        if quoted is None:
            return self._drop(frame, Outcome.DROP_ICMP)
        service = self.services.get(
            (packet.destination, quoted.protocol, quoted.port))
        if service is None:
            return self._drop(frame, Outcome.DROP_ICMP)
        if service.nat:
            return self._error_to_vip(packet, None, ingress, clock)
        if self.node.is_no_client(packet.source, packet.destination):
            return self._drop(frame, Outcome.DROP_MARTIAN, (), service)
        context = _Packet(packet, service, ingress, clock, quoted.client,
                          quoted.ports, quoted.protocol, error=True)
        flow = select.flow_of(service, quoted.client, quoted.ports,
                              quoted.protocol)
        value = select.flow_hash(*flow)
        member, alternative, _ = self._select(context, flow, value, False)
        return self._send(context, member, value, False, (), alternative)

    def _echo(self, packet, clock) -> Result:
        frame = packet.frame
        if self.node.echo:
            if self.node.is_no_client(packet.source, packet.destination):
                return self._drop(frame, Outcome.DROP_MARTIAN)
            if self._may_answer(rate.Answer.ECHO, packet, clock):
                return Result(Action.TX, icmp.reply(packet),
                              Outcome.ECHO_REPLY)
        return Result(Action.PASS, frame, Outcome.PASS)

    def _may_answer(self, kind, packet, clock) -> bool:
        return self.answers.take(kind, packet.source,
                                 clock >> flows.UNIT_SHIFT)

    # To the member --------------------------------------------------------

    def _send(self, context: _Packet, index: int, value: int, opens: bool,
              remarks, alternative: int | None = None) -> Result:
        packet, service, node = context.parsed, context.service, self.node
        frame = packet.frame
        if index == state.NOBODY:
            return self._drop(frame, Outcome.DROP_NO_MEMBER, remarks,
                              service)
        member = service.members[index]
        other = (None if alternative is None else
                 service.members[alternative])
        entropy = select.flow_entropy(value)
        family = encap.outer_family(service, member)
        if (node.source[family] is None and
                member.encapsulation != state.Encapsulation.DSCP):
            return self._drop(frame, Outcome.DROP_NO_NEXT_HOP, remarks,
                              service)
        action, link = None, b''
        if not node.by_routes:
            uplink = self.uplink(family, entropy)
            if uplink is None:
                return self._drop(frame, Outcome.DROP_NO_NEXT_HOP, remarks,
                                  service)
            limit = self._limit(packet, service, member, other, uplink)
            if len(frame) - packet.network > limit:
                return self._too_big(context, limit, remarks)
            if opens and packet.protocol == state.TCP and node.clamp_mss:
                mss.clamp(packet, limit)
            action = (Action.TX if uplink.ifindex == context.ingress else
                      Action.REDIRECT)
            if uplink.cannot_send(packet.split, action):
                return self._drop(frame, Outcome.DROP_MULTI_BUFFER, remarks,
                                  service)
            link = uplink.link(family)
        if member.written_port:
            ports.rewrite(packet, member.written_port, context.error)
        frame = encap.encapsulate(node, service, member, packet, entropy,
                                  link, other)
        for counter in (service, member):
            counter.packets += 1
            counter.bytes += packet.end - packet.network
            counter.flows += opens
        return Result(action, frame, Outcome.FORWARDED, remarks, service,
                      index)

    def uplink(self, family: int, entropy: int) -> state.Uplink | None:
        """Return a flow's uplink; None without a next hop of the family."""
        choice = self.node.choice[family][entropy >> 26]
        uplink = None if choice is None else self.node.uplinks[choice]
        if uplink is not None and uplink.gateway.get(family) is None:
            uplink = None
        return uplink

    def _limit(self, packet, service, member, alternative, uplink) -> int:
        """Return the largest packet that fits the path, in bytes."""
        mtu = min(hop.mtu or uplink.mtu for hop in (
            member, alternative or member, uplink))
        overhead = encap.overhead(service, member)
        return mtu - overhead

    def _too_big(self, context: _Packet, limit: int, remarks) -> Result:
        packet = context.parsed
        frame, family = packet.frame, packet.family
        passed = (not packet.dont_fragment and self.node.pass_too_big and
                  (packet.later or not context.error))
        answer = (packet.dont_fragment and not context.error and
                  not packet.later and
                  (family == state.IPV6 or (
                      not packet.first and limit >= too_big.LEAST[family])))
        if passed:
            return Result(Action.PASS, frame, Outcome.PASSED_TOO_BIG,
                          remarks)
        if answer and self._may_answer(rate.Answer.TOO_BIG, packet,
                                       context.time):
            return Result(Action.TX, too_big.message(packet, limit),
                          Outcome.SENT_TOO_BIG, remarks)
        return self._drop(frame, Outcome.DROP_TOO_BIG, remarks,
                          context.service)
