# SPDX-License-Identifier: Apache-2.0
"""Describes the packet model's decisions."""

from octavia_xdp_provider.ctl import describe
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node.types import PROTOCOL_NAMES
from octavia_xdp_provider.packet_model import observer
from octavia_xdp_provider.packet_model import rate
from octavia_xdp_provider.packet_model import state

_VIP_SERVICES = 8  # services of a VIP that are named


class Steps(observer.Observer):
    """``steps``: (topic, text) of each decision on a packet."""

    def __init__(self, tables):
        self.steps = []
        self._tables = tables

    def _step(self, topic, text):
        self.steps.append((topic, text))

    def _member(self, service, index):
        member = self._tables.member_state(service, index)
        return 'nobody' if member is None else str(member.name)

    # What the packet is

    def ignored(self, why):
        self._step('packet', f'{why}: not looked at')

    def packet(self, packet):
        self._step('packet', describe.packet(packet))

    def vip(self, packet, services):
        address = describe.address(packet.destination)
        if not services:
            self._step('VIP', f'{address} is none of this node: left to the '
                       'kernel')
            return
        keys = [self._tables.key(service) for service in services]
        self._step('VIP', f'{address} is a VIP with the services '
                   + ', '.join(f'{key.protocol} {key.port}'
                               for key in keys[:_VIP_SERVICES])
                   + (' …' if len(keys) > _VIP_SERVICES else ''))

    def malformed(self, why):
        self._step('headers', why)

    def service(self, service):
        key = self._tables.key(service)
        entry = self._tables.services[key]
        self._step('service', f'{key.protocol} port {key.port}: '
                   f'{entry.enabled} of {entry.members} members take new '
                   f'flows, encapsulation {service.encapsulation.name.lower()}'
                   )

    def no_service(self, protocol, port):
        name = PROTOCOL_NAMES[protocol]
        self._step('service', f'the VIP has none for {name}' if port is None
                   else f'none for {name} port {port}')

    def tunnel(self, protocol):
        self._step('protocol', f'{describe.TUNNELS[protocol]}: somebody '
                   'else\'s tunnel')

    def left(self, protocol, fragment):
        if protocol in (state.ICMP, state.ICMPV6) and fragment:
            self._step('protocol', 'a fragment of ICMP is left to the kernel')
        else:
            self._step('protocol', f'{protocol} is left to the kernel')

    # Whether it is admitted

    def martian(self, source):
        self._step('source', f'{describe.address(source)} is no source of '
                   'packets from elsewhere')

    def allowed(self, service, source, network):
        address = describe.address(source)
        if service.networks is None:
            self._step('allowed_cidrs', 'none: everybody may')
        elif network is None:
            self._step('allowed_cidrs', f'{address} is in none of '
                       f'{len(service.networks)}')
        else:
            prefix, length = network
            self._step('allowed_cidrs', f'{address} is in '
                       f'{describe.address(prefix)}/{length}')

    def rate(self, service, tokens):
        self._step('rate', f'{service.new_flow_rate} new flows per second and '
                   f'source; this one may open {tokens // rate.SCALE} now')

    # Which member takes it

    def quic(self, server, found):
        if server is None:
            self._step('QUIC', 'no connection ID of a member\'s')
        else:
            self._step('QUIC', f'server ID {server.hex()}' + (
                '' if found else ' is of no member that is up'))

    def slot(self, service, slot):
        self._step('slot', f'{slot.number} of {slot.slots}, '
                   + ('by source address, ' if service.by_source else '')
                   + ('not open' if slot.before is None
                      else 'open: it changes owners' if slot.open
                      else 'changed: its former owner may have flows'))
        now = self._member(service, slot.now)
        self._step('owner', now if slot.before is None else
                   f'now {now}, before {self._member(service, slot.before)}')

    def remembered(self, service, entry, age):
        self._step('remembered', 'no' if entry is None else
                   f'with {self._member(service, entry.member)}, {age} s ago, '
                   + ('' if entry.confirmed else 'not ') + 'confirmed')

    def choice(self, service, member, why):
        self._step('choice', f'{self._member(service, member)}: {why}')

    def member(self, service, member):
        entry = self._tables.member_state(service, member)
        self._step('member', 'nobody takes it' if entry is None else
                   f'{entry.name}: {output.member_state(entry)}, weight '
                   f'{entry.weight}')
        if entry is not None and entry.tunnel:
            self._step('tunnel', output.tunnel(entry.tunnel))

    def alternative(self, service, member):
        self._step('alternative', f'{self._member(service, member)}: the '
                   'member hands on what it does not know')

    def port(self, service, member):
        self._step('port', f'{member.port}, the member\'s, takes the place '
                   f'of {service.port}')

    # Fragments

    def first_fragment(self):
        self._step('fragment', 'the first: later ones will follow it')

    def followed(self, packet, service, member):
        key = self._tables.key(service)
        self._step('fragment', f'{self._later(packet)}; the first went to '
                   f'{self._member(service, member)}, service {key.protocol} '
                   f'port {key.port}')

    def not_followed(self, packet):
        self._step('fragment', f'{self._later(packet)}; where the first went '
                   'is not known')

    @staticmethod
    def _later(packet):
        return ('a later one of '
                f'{int.from_bytes(packet.fragment_id, "big"):#x}')

    # ICMP

    def echo(self, answered):
        self._step('protocol', 'ICMP echo request')
        if not answered:
            self._step('answer', 'the node does not answer')

    def answer(self, rate_):
        self._step('answer', f'the node sends up to {rate_} per second and '
                   'CPU; here none was sent before')

    def icmp(self, kind):
        self._step('protocol', f'ICMP type {kind} is left to the kernel')

    def error(self, quoted):
        self._step('protocol', 'an ICMP error ' + (
            'that quotes no flow of the VIP' if quoted is None else
            'about the flow ' + describe.flow(
                quoted.protocol, quoted.client, quoted.vip, quoted.ports)))

    # How it leaves

    def beyond_limit(self, service):
        self._step('limit', f'{service.connection_limit} connections at once '
                   'are let in here, and there are as many')

    def no_source(self, family):
        self._step('outer', f'the node has no outer source of IPv{family}')

    def routes(self):
        self._step('uplink', 'the kernel\'s routes are asked: what they say '
                   'is not computed here')

    def uplink(self, family, uplink, choice):
        if uplink is None:
            self._step('uplink', f'none has a next hop of IPv{family}')
            return
        self._step('uplink', f'{self._tables.interface(uplink.ifindex)}, '
                   f'next hop {uplink.gateway[family].hex(":")}, by choice '
                   f'{choice} of 64')

    def size(self, size, overhead, mtu):
        self._step('size', f'{size} bytes and {overhead} of outer header, the '
                   f'path takes {mtu}')

    def too_big(self, packet, passed, limit):
        if passed:
            text = 'without DF: left to the kernel'
        elif limit is not None:
            text = f'the client is sent an MTU of {limit}'
        elif packet.dont_fragment:
            text = 'no answer can be sent'
        else:
            text = 'without DF: dropped, and no answer is sent'
        self._step('too big', text)
