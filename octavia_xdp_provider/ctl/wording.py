# SPDX-License-Identifier: Apache-2.0
"""Describes what the program decided on a packet, from its record."""

import ipaddress

from octavia_xdp_provider.contracts.enumerations import MEANINGS
from octavia_xdp_provider.ctl import describe
from octavia_xdp_provider.ctl import frame as frames
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl.tables import Tables
from octavia_xdp_provider.node.inspection import Decided
from octavia_xdp_provider.node.inspection import Run
from octavia_xdp_provider.node.types import Decision
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.node.types import MemberState
from octavia_xdp_provider.node.types import Outcome
from octavia_xdp_provider.node.types import PROTOCOL_NAMES
from octavia_xdp_provider.node.types import Service
from octavia_xdp_provider.node.types import ServiceFlag
from octavia_xdp_provider.node.types import Settings

_VIP_SERVICES = 8  # services of a VIP that are named
_TOKEN = 1024
# The order in which steps are shown. The fast path records nothing itself:
# what it has decided is recorded when the packet leaves it.
TOPICS = ('packet', 'VIP', 'headers', 'protocol', 'fragment', 'service',
          'source', 'allowed_cidrs', 'rate', 'QUIC', 'slot', 'owner',
          'remembered', 'choice', 'limit', 'NAT', 'member', 'tunnel',
          'alternative', 'port', 'outer', 'uplink', 'size', 'too big',
          'answer')

_NAT = {
    Outcome.FORWARDED: 'the node has the flow',
    Outcome.DROP_NO_NAT_FLOW: 'the node does not have the flow, and '
    'explaining makes none'}
_OF_SERVICE = (Decision.RATE, Decision.SLOT, Decision.PORT)


def steps_of(packet: frames.Packet | frames.Ignored, run: Run,
             outcome: Outcome, tables: Tables) -> tuple[
                 list[tuple[str, str]], Service | None, MemberState | None]:
    """Return (steps, the service, its member or None).

    :param packet: the decoded frame; ``run``: what the program did with it.
        Steps are pairs (topic, text).
    """
    steps = _Steps(packet, run, outcome, tables)
    return (sorted(dict.fromkeys(steps.steps),
                   key=lambda step: TOPICS.index(step[0])),
            steps.service, steps.member)


class _Steps:

    def __init__(self, packet: frames.Packet | frames.Ignored, run: Run,
                 outcome: Outcome, tables: Tables) -> None:
        self.steps: list[tuple[str, str]] = []
        self.service: Service | None = None
        self.member: MemberState | None = None
        self._server: str | None = None
        self._tables = tables
        self._outcome = outcome
        self._decided = {decision.kind for decision in run.decisions}
        if isinstance(packet, frames.Ignored):
            self._step('packet', f'{packet}: not looked at')
            return
        self._packet = packet
        self._step('packet', describe.packet(packet))
        if not self._vip():
            return
        # Other decisions are about members of the service.
        for decision in sorted(
                run.decisions,
                key=lambda decision: decision.kind != Decision.SERVICE):
            self._take(decision)
        self._finish()

    def _step(self, topic: str, text: str) -> None:
        self.steps.append((topic, text))

    def _take(self, decided: Decided) -> None:
        if self.service is None and decided.kind in _OF_SERVICE:
            return
        name = decided.kind.name.lower()
        if name.startswith('taken_'):
            self._step('choice', f'{self._name(decided.arguments["member"])}: '
                       f'{MEANINGS[decided.kind]}')
        else:
            getattr(self, f'_{name}')(**decided.arguments)

    def _state(self, index: int) -> MemberState | None:
        members = self.service and self._tables.members(self.service.key)
        return members.get(index) if members else None

    @property
    def _settings(self) -> Settings:
        return self.service.settings if self.service else Settings()

    @property
    def _networks(self) -> list[ipaddress.IPv4Network |
                                ipaddress.IPv6Network]:
        return self._tables.allowed(self.service.key) if self.service else []

    def _name(self, index: int) -> str:
        member = self._state(index)
        return 'nobody' if member is None else str(member.name)

    # What the packet is

    def _vip(self) -> bool:
        """Return whether the packet is for a VIP."""
        address = frames.address(self._packet.destination)
        keys = self._tables.keys(address)
        if not keys:
            self._step('VIP', f'{address} is none of this node: left to the '
                       'kernel')
            return False
        self._step('VIP', f'{address} is a VIP with the services '
                   + ', '.join(f'{key.protocol} {key.port}'
                               for key in keys[:_VIP_SERVICES])
                   + (' …' if len(keys) > _VIP_SERVICES else ''))
        return True

    def _service(self, service: int) -> None:
        self.service = entry = self._tables.services.get(service)
        if entry is None:
            self._step('service', f'number {service}, of which the tables '
                       'know nothing: see verify')
            return
        self._step(
            'service', f'{entry.key.protocol} port {entry.key.port}: '
            f'{entry.enabled} of {entry.members} members take new flows, '
            'encapsulation '
            + Encapsulation(entry.settings.encapsulation).name.lower())
        if not self._networks and (
                self._outcome != Outcome.DROP_MARTIAN
                and Decision.QUOTED not in self._decided):
            self._step('allowed_cidrs', 'none: everybody may')

    def _no_service(self, protocol: int, port: int | None = None) -> None:
        name = PROTOCOL_NAMES.get(protocol, str(protocol))
        self._step('service', f'the VIP has none for {name}' if port is None
                   else f'none for {name} port {port}')

    def _finish(self) -> None:
        """Add what the outcome says by itself."""
        packet, outcome = self._packet, self._outcome
        if outcome == Outcome.DROP_MALFORMED:
            self._step('headers', packet.wrong or
                       'cut short, or they contradict each other')
        elif outcome == Outcome.DROP_MARTIAN:
            self._step('source', f'{frames.address(packet.source)} is no '
                       'source of packets from elsewhere')
        elif outcome == Outcome.DROP_TUNNEL:
            if packet.protocol == frames.UDP:
                self._no_service(packet.protocol, packet.destination_port)
            self._step('protocol', f'{describe.TUNNELS[packet.protocol]}: '
                       'somebody else\'s tunnel')
        elif outcome == Outcome.DROP_FRAGMENT:
            self._no_service(packet.protocol)
        elif outcome == Outcome.DROP_NO_MEMBER:
            self._step('member', 'nobody takes it')
        elif outcome == Outcome.DROP_ICMP:
            if Decision.QUOTED not in self._decided:
                self._step('protocol', 'an ICMP error that quotes no flow of '
                           'the VIP')
        elif outcome == Outcome.DROP_CONNECTION_LIMIT:
            self._step('limit', f'{self._settings.connection_limit} '
                       'connections at once are let in here, and there are '
                       'as many')
        elif outcome == Outcome.PASS and not self.service and (
                Decision.ECHO not in self._decided):
            self._left()

    def _left(self) -> None:
        packet = self._packet
        if packet.protocol in frames.HEADER and not packet.later:
            self._no_service(packet.protocol, packet.destination_port)
        elif packet.protocol not in (frames.ICMP, frames.ICMPV6):
            self._step('protocol', f'{packet.protocol} is left to the kernel')
        elif packet.first or packet.later:
            self._step('protocol', 'a fragment of ICMP is left to the kernel')
        else:
            self._step('protocol', 'ICMP type '
                       f'{packet.frame[packet.transport]} is left to the '
                       'kernel')

    # Whether it is admitted

    def _allowed(self, allowed: int) -> None:
        source = ipaddress.ip_address(self._packet.source)
        network = max((network for network in self._networks
                       if source in network),
                      key=lambda network: network.prefixlen, default=None)
        self._step('allowed_cidrs', f'{source} is in {network}' if allowed
                   else f'{source} is in none of {len(self._networks)}')

    def _rate(self, tokens: int) -> None:
        self._step('rate', f'{self._settings.new_flow_rate} new flows '
                   f'per second and source; this one may open '
                   f'{tokens // _TOKEN} now')

    # Which member takes it

    def _quic_server(self, server: int) -> None:
        self._server = f'server ID {server:08x}'

    def _quic_member(self, member: int) -> None:
        self._step('QUIC', self._server or '')

    def _quic_nobody(self) -> None:
        self._step('QUIC', 'no connection ID of a member\'s'
                   if self._server is None else
                   f'{self._server} is of no member that is up')

    def _slot(self, slot: int, slots: int, undecided: int, open: int,
              now: int, before: int) -> None:
        by_source = ServiceFlag.SOURCE in self._settings.flags
        self._step('slot', f'{slot} of {slots}, '
                   + ('by source address, ' if by_source else '')
                   + ('not open' if not undecided
                      else 'open: it changes owners' if open
                      else 'changed: its former owner may have flows'))
        self._step('owner', f'now {self._name(now)}, before '
                   f'{self._name(before)}' if undecided else self._name(now))

    def _remembered(self, member: int, age: int, confirmed: int) -> None:
        self._step('remembered', f'with {self._name(member)}, {age} s ago, '
                   + ('' if confirmed else 'not ') + 'confirmed')

    def _not_remembered(self) -> None:
        self._step('remembered', 'no')

    def _member(self, member: int) -> None:
        self.member = entry = self._state(member)
        if entry is None:
            return
        self._step('member', f'{entry.name}: {output.member_state(entry)}, '
                   f'weight {entry.weight}')
        if entry.tunnel:
            self._step('tunnel', output.tunnel(entry.tunnel))

    def _alternative(self, member: int) -> None:
        self._step('alternative', f'{self._name(member)}: the member hands on '
                   'what it does not know')

    def _port(self, port: int) -> None:
        own = self.service.key.port if self.service else 0
        self._step('port', f'{port}, the member\'s, takes the place of {own}')

    def _nat(self) -> None:
        self._step('NAT', _NAT.get(self._outcome, 'flows of NAT decide'))

    # Fragments

    def _first_fragment(self) -> None:
        self._step('fragment', 'the first: later ones will follow it')

    def _followed(self, service: int, member: int) -> None:
        self._service(service)
        self._step('fragment', f'{self._later()}; the first went to '
                   f'{self._name(member)}' + (
                       f', service {self.service.key.protocol} port '
                       f'{self.service.key.port}' if self.service else ''))

    def _not_followed(self) -> None:
        self._step('fragment', f'{self._later()}; where the first went is not '
                   'known')

    def _later(self) -> str:
        number = int.from_bytes(self._packet.fragment_id, 'big')
        return f'a later one of {number:#x}'

    # ICMP

    def _echo(self, answered: int) -> None:
        self._step('protocol', 'ICMP echo request')
        if not answered:
            self._step('answer', 'the node does not answer')

    def _answer(self, rate: int, answered: int) -> None:
        self._step('answer', f'the node sends up to {rate} per second and '
                   'CPU' + ('' if answered else ', and has'))

    def _quoted(self, protocol: int, ports: int, **client: int) -> None:
        source = b''.join(word.to_bytes(4, 'little')
                          for word in client.values())
        pair = ports.to_bytes(4, 'little')
        self._step('protocol', 'an ICMP error about the flow '
                   + describe.flow(protocol, source[
                       12 if self._packet.family == frames.IPV4 else 0:],
                       self._packet.destination, pair))
        if self._outcome == Outcome.DROP_ICMP:
            self._no_service(protocol, int.from_bytes(pair[2:], 'big'))

    # How it leaves

    def _no_source(self, family: int) -> None:
        self._step('outer', 'the node has no outer source of '
                   f'IPv{_version(family)}')

    def _routes(self) -> None:
        self._step('uplink', 'the kernel\'s routes are asked')

    def _uplink(self, ifindex: int, family: int, choice: int) -> None:
        uplink = self._tables.uplink(ifindex)
        if uplink is None:
            self._step('uplink', 'none has a next hop of '
                       f'IPv{_version(family)}')
            return
        mac = uplink.next_hop_mac_v6 if family else uplink.next_hop_mac_v4
        self._step('uplink', f'{self._tables.interface(ifindex)}, next hop '
                   f'{mac}, by choice {choice} of 64')

    def _size(self, size: int, overhead: int, mtu: int) -> None:
        self._step('size', f'{size} bytes and {overhead} of outer header, the '
                   f'path takes {mtu}')

    def _too_big(self, limit: int) -> None:
        if self._outcome == Outcome.PASSED_TOO_BIG:
            text = 'without DF: left to the kernel'
        elif limit:
            text = f'the client is sent an MTU of {limit}'
        elif self._packet.dont_fragment:
            text = 'no answer can be sent'
        else:
            text = 'without DF: dropped, and no answer is sent'
        self._step('too big', text)


def _version(family: int) -> int:
    return 6 if family else 4
