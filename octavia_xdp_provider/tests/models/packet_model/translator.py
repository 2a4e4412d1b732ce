# SPDX-License-Identifier: Apache-2.0
"""Finds the NAT flow of a packet and translates the packet."""

import typing

from octavia_xdp_provider.tests.models.packet_model import icmp
from octavia_xdp_provider.tests.models.packet_model import mss
from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import select
from octavia_xdp_provider.tests.models.packet_model import state

Outcome = state.Outcome


class Found(typing.NamedTuple):
    """A packet's flow. `quote`: set for an ICMP error."""

    flow: nat.Flow
    to_client: bool
    quote: icmp.Quoted | None = None
    begins: bool = False


class Sent(typing.NamedTuple):
    """A result. `limit`: set if the packet is too big, the MTU to report."""

    outcome: Outcome
    action: state.Action = state.Action.DROP
    frame: bytes = b''
    any_id: bool = False
    limit: int | None = None


def fragment_key(packet) -> tuple:
    return (packet.source, packet.destination, packet.fragment_id,
            packet.fragment_protocol)


def _ports(packet) -> tuple[int, int]:
    at = packet.transport
    return (int.from_bytes(packet.frame[at:at + 2], 'big'),
            int.from_bytes(packet.frame[at + 2:at + 4], 'big'))


class Translator:
    """NAT, a part of ``forwarder`` (forward.Forwarder)."""

    def __init__(self, forwarder):
        self.forwarder = forwarder

    @property
    def flows(self) -> nat.Flows:
        return self.forwarder.nat

    # Which flow ------------------------------------------------------------

    def request(self, packet, service: state.Service, opens: bool,
                asked: bool) -> Found | Outcome | None:
        """Find the flow of a client's packet; None: unknown here.

        :param asked: whether all other nodes, if any, have been asked.
        """
        if nat.ttl(packet) <= 1:
            return Outcome.DROP_TTL
        source_port, _ = _ports(packet)
        client = nat.End(packet.source, source_port)
        flow = self.flows.of_client(service.protocol, client, nat.End(
            service.vip, service.port))
        if flow is None:
            return None
        if (not asked and packet.protocol == state.TCP and not opens and
                flow.may_be_earlier(nat.tcp_number(packet))):
            return None
        again = flow.state == nat.State.TIME_WAIT and opens
        flow = self._usable(flow, service, again)
        return None if flow is None else Found(flow, False, None, again)

    def begin(self, packet, service: state.Service,
              opens: bool) -> Found | Outcome:
        if opens and self._is_at_limit(service):
            return Outcome.DROP_CONNECTION_LIMIT
        client = nat.End(packet.source, _ports(packet)[0])
        flow = self._begin(packet, service, client)
        return (flow if isinstance(flow, Outcome) else
                Found(flow, False, None, opens))

    @staticmethod
    def _member(flow: nat.Flow, service: state.Service
                ) -> state.Member | None:
        """Return the flow's member if the service still has it; its index may
        have been reused."""
        member = service.members.get(flow.index)
        if member is None or flow.member != nat.End(
                member.address, member.port or service.port):
            return None
        return member

    def _usable(self, flow: nat.Flow, service: state.Service,
                again: bool) -> nat.Flow | None:
        member = self._member(flow, service)
        if not again and member is not None and member.keeps_flows:
            return flow
        if again and member is not None and member.takes_flows:
            if self._is_at_limit(service):
                return None
            flow.begin_again(nat.State.HALF_OPEN)
            flow.fins.clear()
            flow.sequence = None
            return flow
        self.flows.end(flow)
        return None

    def _is_at_limit(self, service: state.Service) -> bool:
        """Whether the service has reached its connection limit."""
        limit = service.connection_limit
        return bool(limit) and self.flows.active(service) >= limit

    def _begin(self, packet, service, client) -> nat.Flow | Outcome:
        at = packet.transport
        value = select.flow_hash(packet.source, packet.destination,
                                 packet.frame[at:at + 4], packet.protocol)
        member = service.now[select.flow_slot(value, len(service.now))]
        if member == state.NOBODY:
            return Outcome.DROP_NO_MEMBER
        flow = self.flows.begin(service, client, member,
                                select.flow_entropy(value))
        return flow or Outcome.DROP_NAT_FULL

    def _known(self, packet, flow: nat.Flow | None, to_client: bool,
               otherwise: Outcome,
               quote: icmp.Quoted | None = None) -> Found | Outcome:
        martian = self.forwarder.node.is_no_client(
            packet.source, packet.destination)
        if flow is None:
            return Outcome.DROP_MARTIAN if martian else otherwise
        if martian or nat.ttl(packet) <= 1:
            flow.service.drops += 1
            return Outcome.DROP_MARTIAN if martian else Outcome.DROP_TTL
        return Found(flow, to_client, quote)

    def reply(self, packet) -> Found | Outcome:
        source_port, port = _ports(packet)
        flow = self.flows.of_member(
            packet.protocol, nat.End(packet.source, source_port),
            nat.End(packet.destination, port))
        return self._known(packet, flow, True, Outcome.DROP_NO_NAT_FLOW)

    def error(self, packet, to_pool: bool) -> Found | Outcome:
        quote = icmp.quoted(packet)
        flow = None
        if quote is not None:
            other = nat.End(quote.client,
                            int.from_bytes(quote.ports[:2], 'big'))
            own = nat.End(quote.vip, quote.port)
            flow = (self.flows.of_member(quote.protocol, other, own)
                    if to_pool else
                    self.flows.of_client(quote.protocol, other, own))
        return self._known(packet, flow, to_pool, Outcome.DROP_ICMP, quote)

    def follows(self, packet) -> bool:
        return self.flows.follow(fragment_key(packet)) is not None

    def later(self, packet, to_pool: bool) -> Found | Outcome:
        return self._known(packet, self.flows.follow(fragment_key(packet)),
                           to_pool, Outcome.DROP_FRAGMENT)

    # How it leaves ---------------------------------------------------------

    def send(self, match: Found, packet, ingress: int) -> Sent:
        flow, node = match.flow, self.forwarder.node
        outer = flow.ends(match.to_client)
        family = nat.family_of(outer[0])
        if (family == state.IPV6 != packet.family and
                nat.has_source_route(packet)):
            return Sent(Outcome.DROP_NAT_UNTRANSLATABLE)
        if (family == state.IPV4 != packet.family and
                nat.has_headers_behind(packet)):
            return Sent(Outcome.DROP_NAT_UNTRANSLATABLE)
        uplink = self.forwarder.uplink(family, flow.entropy)
        if uplink is None:
            return Sent(Outcome.DROP_NO_NEXT_HOP)
        more = nat.difference(packet, family, match.quote)
        mtu = self._mtu(match, uplink)
        if len(packet.frame) - packet.network + more > mtu:
            return Sent(Outcome.DROP_TOO_BIG, limit=mtu - more)
        if (node.clamp_mss and match.quote is None and
                nat.tcp_flags(packet) & nat.SYN):
            sides = (packet.family, family)
            if match.to_client:
                mtu -= self.forwarder.peers.overhead
            mss.clamp_to(packet, mtu - (60 if state.IPV6 in sides else 40))
        action = (state.Action.TX if uplink.ifindex == ingress else
                  state.Action.REDIRECT)
        if uplink.cannot_send(packet.split, action):
            return Sent(Outcome.DROP_MULTI_BUFFER)
        length = packet.end - packet.network
        if packet.first:
            self.forwarder.forget_first(packet)
            self.flows.leave(fragment_key(packet), flow)
        if match.quote is None:
            if not flow.touch(packet, match.to_client,
                              lambda: not self._is_at_limit(flow.service)):
                return Sent(Outcome.DROP_CONNECTION_LIMIT)
            rewritten = nat.rewrite(packet, *outer)
        else:
            rewritten = nat.rewrite_error(
                packet, match.quote, outer,
                flow.ends(match.to_client, quoted=True))
        if rewritten is None:
            return Sent(Outcome.DROP_NAT_UNTRANSLATABLE)
        self._count(match, length, more)
        return Sent(Outcome.FORWARDED, action,
                    uplink.link(family) + rewritten.packet +
                    packet.frame[packet.end:], rewritten.any_id)

    def _mtu(self, match: Found, uplink: state.Uplink) -> int:
        flow = match.flow
        member = (None if match.to_client else
                  self._member(flow, flow.service))
        if member is None or not member.mtu:
            return uplink.mtu
        return min(member.mtu, uplink.mtu)

    def _count(self, match: Found, length: int, more: int):
        service = match.flow.service
        if match.to_client:
            service.reply_packets += 1
            service.reply_bytes += length + more
            return
        counters = [service]
        member = self._member(match.flow, service)
        if member is not None:
            counters.append(member)
        for counter in counters:
            counter.packets += 1
            counter.bytes += length
            counter.flows += match.begins
