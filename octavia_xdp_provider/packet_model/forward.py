# SPDX-License-Identifier: Apache-2.0
"""The order of decisions, from a frame to what happens to it."""

import typing

from octavia_xdp_provider.packet_model import allow
from octavia_xdp_provider.packet_model import encap
from octavia_xdp_provider.packet_model import flows
from octavia_xdp_provider.packet_model import fragments
from octavia_xdp_provider.packet_model import icmp
from octavia_xdp_provider.packet_model import mss
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import quic
from octavia_xdp_provider.packet_model import rate
from octavia_xdp_provider.packet_model import select
from octavia_xdp_provider.packet_model import state
from octavia_xdp_provider.packet_model import too_big

Action = state.Action
Outcome = state.Outcome
TUNNELS = (encap.IPIP, encap.IP6, encap.GRE)
SYN, FIN, RST, ACK = 2, 1, 4, 16
SCTP_INIT = 1


class Result(typing.NamedTuple):
    action: Action
    frame: bytes
    outcome: Outcome
    remarks: tuple[Outcome, ...] = ()
    service: state.Service | None = None
    member: int | None = None

    def counted(self) -> tuple[Outcome, ...]:
        """The outcome counters that this packet moved: each by one packet,
        and by the bytes of the frame that came in.
        """
        if self.outcome in (Outcome.PASS, Outcome.FORWARDED):
            return self.remarks
        return (*self.remarks, self.outcome)


class _Packet(typing.NamedTuple):
    """A packet that is for a service, and what is special about it."""

    parsed: parse.Packet
    service: state.Service
    ingress: int
    time: int
    source: bytes  # client of the flow: not an ICMP error's own source
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


class Forwarder:
    """The program with all that it remembers."""

    def __init__(self, node: state.Node):
        self.node = node
        self.services: dict[tuple, state.Service] = {}
        self.vips: dict[bytes, list[state.Service]] = {}
        self.memory = flows.Memory(node)
        self.fragments = fragments.Fragments()
        self.sources = rate.Sources()
        self.answers = rate.Answers(node)

    def set_services(self, services: list[state.Service]):
        self.services = {(one.vip, one.protocol, one.port): one
                         for one in services}
        self.vips = {}
        for one in services:
            one.place()
            self.vips.setdefault(one.vip, []).append(one)

    def forward(self, frame: bytes, ingress: int, clock: int) -> Result:
        """`clock` is the coarse monotonic clock in nanoseconds."""
        packet = parse.parse(frame)
        if packet is None or packet.destination not in self.vips:
            return Result(Action.PASS, frame, Outcome.PASS)
        if packet.wrong:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        if packet.later:
            return self._later_fragment(packet, ingress, clock)
        if packet.protocol in parse.HEADER:
            return self._transport(packet, ingress, clock)
        if packet.protocol in TUNNELS:
            return self._drop(frame, Outcome.DROP_TUNNEL)
        if packet.protocol == (state.ICMP if packet.family == state.IPV4
                               else state.ICMPV6) and not packet.first:
            return self._icmp(packet, ingress, clock)
        return Result(Action.PASS, frame, Outcome.PASS)

    @staticmethod
    def _drop(frame: bytes, outcome: Outcome, remarks=()) -> Result:
        return Result(Action.DROP, frame, outcome, remarks)

    def _transport(self, packet, ingress, clock) -> Result:
        at = packet.transport
        ports = packet.frame[at:at + 4]
        port = ports[2] << 8 | ports[3]
        service = self.services.get(
            (packet.destination, packet.protocol, port))
        if service is None:
            if packet.protocol == state.UDP and port == encap.GUE_PORT:
                return self._drop(packet.frame, Outcome.DROP_TUNNEL)
            return Result(Action.PASS, packet.frame, Outcome.PASS)
        refused = self._refused(packet, service)
        if refused is not None:
            return self._drop(packet.frame, refused)
        opens = opens_flow(packet, service)
        if (service.new_flow_rate and
                (opens or packet.protocol == state.UDP) and
                not self.sources.take(service, packet.source,
                                      clock // 1000000)):
            return self._drop(packet.frame, Outcome.DROP_RATE)
        one = _Packet(packet, service, ingress, clock, packet.source, ports,
                      packet.protocol)
        flow = select.flow_of(service, packet.source, ports,
                              packet.protocol)
        value = select.flow_hash(*flow)
        member, remarks = None, ()
        if service.quic:
            server = quic.find_server(packet.frame[at + 8:packet.end])
            found = service.servers.get(server)
            if found is not None and service.members[found].keeps_flows:
                member = found
        if member is None:
            member, full = self._select(one, flow, value, opens)
            if full:
                remarks = (Outcome.MEMORY_FULL,)
        if packet.first and member != state.NOBODY:
            self.fragments.leave(packet, service, member)
        return self._send(one, member, value, opens, remarks)

    @staticmethod
    def _refused(packet, service) -> Outcome | None:
        if allow.martian(packet.source, packet.destination):
            return Outcome.DROP_MARTIAN
        if service.networks is not None and (
                packet.source not in service.networks):
            return Outcome.DROP_NOT_ALLOWED
        return None

    def _select(self, one: _Packet, flow: tuple, value: int,
                opens: bool) -> tuple[int, bool]:
        service = one.service
        slot = select.flow_slot(value, len(service.now))
        if slot not in service.before:
            return service.now[slot], False
        return flows.choose(self.memory, service, flow, slot, one.protocol,
                            opens, one.time >> flows.UNIT_SHIFT)

    def _later_fragment(self, packet, ingress, clock) -> Result:
        found = self.fragments.follow(packet, self.services)
        remarks = ()
        if found is not None:
            service, member = found
        else:
            if packet.protocol in TUNNELS:
                return self._drop(packet.frame, Outcome.DROP_TUNNEL)
            if packet.protocol not in parse.HEADER:
                return Result(Action.PASS, packet.frame, Outcome.PASS)
            service = fragments.guess(self.vips[packet.destination],
                                      packet.protocol)
            if service is None:
                return self._drop(packet.frame, Outcome.DROP_FRAGMENT)
        refused = self._refused(packet, service)
        if refused is not None:
            return self._drop(packet.frame, refused)
        one = _Packet(packet, service, ingress, clock, packet.source,
                      bytes(4), packet.protocol)
        flow = select.flow_of(service, packet.source, bytes(4),
                              packet.protocol)
        value = select.flow_hash(*flow)
        if found is None:
            remarks = (Outcome.FRAGMENT_GUESSED,)
            slot = select.flow_slot(value, len(service.now))
            member = service.now[slot]
            before = service.members.get(service.before.get(slot))
            if before is not None and before.keeps_flows:
                member = service.before[slot]
        return self._send(one, member, value, False, remarks)

    def _icmp(self, packet, ingress, clock) -> Result:
        frame, family = packet.frame, packet.family
        if packet.transport + icmp.HEADER > packet.end:
            return self._drop(frame, Outcome.DROP_MALFORMED)
        kind = frame[packet.transport]
        if kind == icmp.ECHO[family] and self.node.echo:
            if allow.martian(packet.source, packet.destination):
                return self._drop(frame, Outcome.DROP_MARTIAN)
            if self.answers.take(clock >> flows.UNIT_SHIFT):
                return Result(Action.TX, icmp.reply(packet),
                              Outcome.ECHO_REPLY)
        if kind not in icmp.ERRORS[family]:
            return Result(Action.PASS, frame, Outcome.PASS)
        quoted = icmp.quoted(packet)
        if quoted is None:
            return self._drop(frame, Outcome.DROP_ICMP)
        client, ports, protocol, port = quoted
        service = self.services.get((packet.destination, protocol, port))
        if service is None:
            return self._drop(frame, Outcome.DROP_ICMP)
        if allow.martian(packet.source, packet.destination):
            return self._drop(frame, Outcome.DROP_MARTIAN)
        one = _Packet(packet, service, ingress, clock, client, ports,
                      protocol, error=True)
        flow = select.flow_of(service, client, ports, protocol)
        value = select.flow_hash(*flow)
        member, _ = self._select(one, flow, value, False)
        return self._send(one, member, value, False, ())

    def _send(self, one: _Packet, index: int, value: int, opens: bool,
              remarks) -> Result:
        packet, service, node = one.parsed, one.service, self.node
        frame = packet.frame
        if index == state.NOBODY:
            return self._drop(frame, Outcome.DROP_NO_MEMBER, remarks)
        member = service.members[index]
        entropy = select.flow_entropy(value)
        family = encap.outer_family(service, member)
        choice = node.choice[family][entropy >> 26]
        link = None if choice is None else node.uplinks[choice].link(family)
        if link is None or (
                node.source[family] is None and
                service.encapsulation != state.Encapsulation.DSCP):
            return self._drop(frame, Outcome.DROP_NO_NEXT_HOP, remarks)
        uplink = node.uplinks[choice]
        limit = min(member.mtu or uplink.mtu, uplink.mtu)
        limit -= encap.overhead(service, member)
        if len(frame) - packet.network > limit:
            return self._too_big(one, limit, remarks)
        if opens and packet.protocol == state.TCP and node.clamp_mss:
            mss.clamp(packet, limit)
        frame = encap.encapsulate(node, service, member, packet, entropy,
                                  link)
        for counter in (service, member):
            counter.packets += 1
            counter.bytes += packet.end - packet.network
            counter.flows += opens
        action = (Action.TX if uplink.ifindex == one.ingress else
                  Action.REDIRECT)
        return Result(action, frame, Outcome.FORWARDED, remarks, service,
                      index)

    def _too_big(self, one: _Packet, limit: int, remarks) -> Result:
        packet = one.parsed
        frame, family = packet.frame, packet.family
        if one.error or packet.later:
            if family == state.IPV4 and packet.later and (
                    not packet.dont_fragment and self.node.pass_too_big):
                return Result(Action.PASS, frame, Outcome.PASSED_TOO_BIG,
                              remarks)
            return self._drop(frame, Outcome.DROP_TOO_BIG, remarks)
        if not packet.dont_fragment and self.node.pass_too_big:
            return Result(Action.PASS, frame, Outcome.PASSED_TOO_BIG,
                          remarks)
        told = packet.dont_fragment and (
            family == state.IPV6 or (not packet.first and
                                     limit >= too_big.LEAST[family]))
        if told and self.answers.take(one.time >> flows.UNIT_SHIFT):
            return Result(Action.TX, too_big.message(packet, limit),
                          Outcome.SENT_TOO_BIG, remarks)
        return self._drop(frame, Outcome.DROP_TOO_BIG, remarks)
