# SPDX-License-Identifier: Apache-2.0
"""Frames from inside a VM that are to harm a neighbour on its hypervisor.

``python -m … AIMS RATE``, where AIMS are those below in JSON, sends so many a
second of all kinds in turn, ten minutes at most. Each carries a mark, so that
whoever captures it knows which VM has sent it, and as what.
"""

import dataclasses
import functools
import json
import re
import socket
import sys

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.packet import Raw

from octavia_xdp_provider.tests.e2e.support import flood

LISTENER, MEMBER_PORT = 80, 8080
GENEVE, GUE = 6081, 6080
NIC = 'eth0'
# So many of each kind, with other ports and numbers.
EACH = 40
_MARK = re.compile(rb'<hostile ([^|>]+)\|([^>]+)>')


@dataclasses.dataclass(frozen=True)
class Aims:
    """What a VM knows: more than any would.

    :param address: its own, which the neighbour's VM has as well.
    :param ports: of the client, of the neighbour's connections.
    :param key: of the neighbour's entry on this hypervisor.
    :param sid: an address of the hypervisor's for SRv6, with this key.
    :param node: an LB node's address, and ``peer`` another hypervisor's.
    """

    name: str
    mac: str
    gateway_mac: str
    neighbours_mac: str
    address: str
    address_v6: str
    vip: str
    neighbours_vip: str
    client: str
    ports: tuple[int, ...]
    key: int
    hypervisor: str
    sid: str
    node: str
    peer: str


def marks(data):
    """(VM, kind) of each mark in a packet."""
    return [(vm.decode(), kind.decode()) for vm, kind in _MARK.findall(data)]


def _mark(aims, kind):
    mark = f'<hostile {aims.name}|{kind}>'.encode()
    # A first fragment carries eighths.
    return mark.ljust(-(-len(mark) // 8) * 8)


class Kinds:
    """Makes packets, each kind from IP on."""

    def __init__(self, aims):
        self._aims = aims

    def all(self):
        """Kind → function that makes the packet of a number."""
        return {**self._as_a_member(), **self._as_others(), **self._errors(),
                **self._tunnels(), **self._fragments(), **self._floods()}

    def to_neighbours_mac(self):
        """The same of what is sent to the neighbour's own MAC address."""
        made = {**self._as_others(), **self._tunnels(), **self._errors()}
        return {f'{kind}, to its MAC': make for kind, make in made.items()}

    def _port(self, number):
        """A client's, of a connection of the neighbour's."""
        return self._aims.ports[number % len(self._aims.ports)]

    def _tcp(self, source, destination, flags, number, sport=None, dport=None):
        return inet.IP(src=source, dst=destination) / inet.TCP(
            sport=sport or _any_port(number), dport=dport or _any_port(number),
            flags=flags, seq=number * 39916801, ack=number * 27644437)

    def _as_a_member(self):
        """Answers, as if this were the neighbour's member, or its VIP."""
        aims = self._aims

        def answers(source, sport, flags):
            return lambda number: self._tcp(
                source, aims.client, flags, number, sport, self._port(number))

        def answers_check(source, sport, flags):
            return lambda number: self._tcp(
                source, aims.node, flags, number, sport)
        return {
            'the VIP resets a client': answers(
                aims.neighbours_vip, LISTENER, 'R'),
            'the VIP sends data to a client': answers(
                aims.neighbours_vip, LISTENER, 'PA'),
            'the member answers a SYN': answers(
                aims.address, MEMBER_PORT, 'SA'),
            'the member resets a client': answers(
                aims.address, MEMBER_PORT, 'R'),
            'the member sends data to a client': answers(
                aims.address, MEMBER_PORT, 'PA'),
            'the VIP answers a check': answers_check(
                aims.neighbours_vip, LISTENER, 'SA'),
            'the VIP refuses a check': answers_check(
                aims.neighbours_vip, LISTENER, 'RA'),
            'the member answers a check': answers_check(
                aims.address, MEMBER_PORT, 'SA'),
            'the VIP answers a ping': lambda number: inet.IP(
                src=aims.neighbours_vip, dst=aims.node) / inet.ICMP(
                    type=0, id=number, seq=number),
        }

    def _as_others(self):
        """As if this were a client, or an LB node without a tunnel."""
        aims = self._aims
        return {
            **{f'a client sends {flags}': lambda number, flags=flags: (
                self._tcp(aims.client, aims.neighbours_vip, flags, number,
                          self._port(number), LISTENER))
               for flags in ('R', 'FA', 'PA')},
            'a client resets the member': lambda number: self._tcp(
                aims.client, aims.address, 'R', number, self._port(number),
                MEMBER_PORT),
            'an LB node resets the member': lambda number: self._tcp(
                aims.node, aims.address, 'R', number, dport=MEMBER_PORT),
        }

    def _errors(self):
        """ICMP errors about the neighbour's connections."""
        aims = self._aims
        result = {}
        for name, fields in {'too big': {'type': 3, 'code': 4,
                                         'nexthopmtu': 68},
                             'unreachable port': {'type': 3, 'code': 3},
                             'unreachable protocol': {'type': 3, 'code': 2},
                             'no time left': {'type': 11}}.items():
            for whom, source, sport, to, dport in (
                    ('the VIP', aims.neighbours_vip, LISTENER, aims.client, 0),
                    ('the client', aims.client, 0, aims.neighbours_vip,
                     LISTENER),
                    ('the member', aims.address, MEMBER_PORT, aims.client, 0)):
                def make(number, fields=fields, source=source, sport=sport,
                         to=to, dport=dport):
                    quoted = self._tcp(source, to, 'A', number,
                                       sport or self._port(number),
                                       dport or self._port(number))
                    return (inet.IP(src=aims.address, dst=source)
                            / inet.ICMP(**fields) / bytes(quoted))
                result[f'{name}, to {whom}'] = make
        return result

    def _tunnels(self):
        """What LB nodes and hypervisors send each other, from here."""
        aims = self._aims
        # A key of SRv6 is longer than a VNI.
        key = aims.key & 0xffffff

        def inner(number, flags, kind):
            # The mark is inside: lengths must not contradict each other.
            return self._tcp(aims.client, aims.neighbours_vip, flags, number,
                             self._port(number), LISTENER) / Raw(
                                 _mark(aims, kind))

        def geneve(source, flags, key=key, alternative=None):
            # Class, type and length of the option, VNI, address.
            option = b'' if alternative is None else (
                b'\xff\x4f\x01\x02' + alternative.to_bytes(3, 'big')
                + b'\0' + socket.inet_aton(aims.hypervisor))
            header = (bytes((len(option) // 4, 0)) + b'\x08\0'
                      + key.to_bytes(3, 'big') + b'\0' + option)
            return lambda number, kind: inet.IP(
                src=source, dst=aims.hypervisor) / inet.UDP(
                    sport=_any_port(number), dport=GENEVE, chksum=0) / (
                        header + bytes(inner(number, flags, kind)))

        def within(outer, flags='S'):
            return lambda number, kind: outer / inner(number, flags, kind)
        here = inet.IP(src=aims.address, dst=aims.hypervisor)
        made = {
            'IPIP': within(here),
            'IPIP to an LB node': within(inet.IP(
                src=aims.address, dst=aims.node)),
            'GRE': within(here / l2.GRE(proto=0x0800)),
            'GUE': within(here / inet.UDP(sport=GUE, dport=GUE)),
            'Geneve, a SYN': geneve(aims.address, 'S'),
            'Geneve, of a connection': geneve(aims.address, 'R'),
            'Geneve, as the VIP': geneve(aims.neighbours_vip, 'R'),
            'Geneve, with an alternative': geneve(
                aims.address, 'R', key ^ 1, key),
            'Geneve, as a hypervisor': geneve(aims.peer, 'R'),
            'Geneve, as an LB node': geneve(aims.node, 'R'),
            'SRv6': within(inet6.IPv6(
                src=aims.address_v6, dst=aims.sid, nh=4), 'R'),
        }
        return {kind: functools.partial(make, kind=kind)
                for kind, make in made.items()}

    def _fragments(self):
        """First ones for ever, later ones without a first, of all sizes."""
        aims = self._aims

        def fragment(source, destination, **fields):
            return lambda number: inet.IP(
                src=source, dst=destination, id=number * 613 % 65536,
                proto=17, **fields) / (
                    inet.UDP(sport=MEMBER_PORT, dport=self._port(number),
                             len=1000) if fields.get('flags') else Raw())
        first, later = {'flags': 'MF'}, {'frag': 70}
        return {
            'first fragments to a client': fragment(
                aims.address, aims.client, **first),
            'later fragments to a client': fragment(
                aims.address, aims.client, **later),
            'later fragments from the VIP': fragment(
                aims.neighbours_vip, aims.client, **later),
            'first fragments to the VIP': fragment(
                aims.address, aims.neighbours_vip, **first),
            'later fragments to the VIP': fragment(
                aims.address, aims.neighbours_vip, **later),
        }

    def _floods(self):
        aims = self._aims
        return {
            'a SYN to its own VIP': lambda number: self._tcp(
                aims.address, aims.vip, 'S', number, dport=LISTENER),
            "a SYN to the neighbour's VIP": lambda number: self._tcp(
                aims.address, aims.neighbours_vip, 'S', number,
                dport=LISTENER),
            'answers to nobody': lambda number: self._tcp(
                aims.address, f'198.51.100.{1 + number % 250}', 'SA', number,
                MEMBER_PORT),
        }


def _any_port(number):
    return 1024 + number * 7919 % 64000


def frames(aims):
    """All frames of a round, kinds in turn."""
    kinds = Kinds(aims)
    making = [
        *((*kind, aims.gateway_mac) for kind in kinds.all().items()),
        *((*kind, aims.neighbours_mac)
          for kind in kinds.to_neighbours_mac().items())]
    return [_frame(aims, kind, make(number), to)
            for number in range(1, EACH + 1) for kind, make, to in making]


def _frame(aims, kind, packet, to):
    if not marks(bytes(packet)):
        packet = packet / Raw(_mark(aims, kind))
    return bytes(l2.Ether(src=aims.mac, dst=to) / packet)


def main(aims, rate):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((NIC, 0))
        flood.send(frames(aims), rate, sender.send)


if __name__ == '__main__':
    main(Aims(**json.loads(sys.argv[1])), int(sys.argv[2]))
