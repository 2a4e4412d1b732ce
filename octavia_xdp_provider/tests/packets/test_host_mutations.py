# SPDX-License-Identifier: Apache-2.0
"""A hypervisor's programs against their model, with random frames.

OCTAVIA_XDP_MUTATION_COUNT frames, or 3,000; OCTAVIA_XDP_MUTATION_SEED repeats
what a difference named.
"""

import random
import unittest

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.models.host_model import model
from octavia_xdp_provider.tests.packets.support import host
from octavia_xdp_provider.tests.packets.support import random_case

FLAGS = ('S', 'SA', 'A', 'A', 'A', 'PA', 'FA', 'R', 'RA')


class Traffic:
    """Frames of few clients, so that they meet flows of each other."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def one_of(self, *choices):
        return self.random.choice(choices)

    def inner(self, v6: bool, protocol: str, source: str, destination: str,
              sport: int, dport: int, length: int | None = None):
        if length is None:
            length = self.random.randrange(40)
        if protocol == 'tcp':
            layer = inet.TCP(
                sport=sport, dport=dport, flags=self.one_of(*FLAGS),
                options=self.one_of([], [('MSS', self.one_of(1200, 1400))],
                                    [('NOP', None), ('MSS', 9000)]))
        else:
            layer = inet.UDP(sport=sport, dport=dport)
            if self.random.random() < 0.2:
                layer.chksum = 0
        header = {}
        if v6:
            header['tc'] = self.one_of(0, 1, 2, 3, 0xb8)
        else:
            header['tos'] = self.one_of(0, 1, 2, 3, 0xb8)
            header['frag'] = self.one_of(0, 0, 0, 0, 3)
            header['flags'] = self.one_of(0, 'DF', 'MF')
            header['id'] = self.one_of(1, 2)
        return host.ip(v6, source, destination, **header) / layer / (
            self.random.randbytes(length))

    def error(self, v6: bool, source: str, destination: str, quoted):
        data = bytes(quoted)[:self.one_of(20, 28, 44, 60, 90)]
        if v6:
            return host.ip(True, source, destination) / (
                self.one_of(inet6.ICMPv6DestUnreach(code=4),
                            inet6.ICMPv6PacketTooBig(mtu=1300)) / data)
        return host.ip(False, source, destination) / (
            inet.ICMP(type=self.one_of(3, 11, 0), code=4) / data)

    def mutated(self, frame: bytes) -> bytes:
        if self.random.random() < 0.8:
            return frame
        data = bytearray(frame)
        for _ in range(self.random.randrange(1, 3)):
            data[self.random.randrange(14, len(data))] = (
                self.random.randrange(256))
        if self.random.random() < 0.3:
            # the kernel runs no frame without a whole IP header
            del data[self.random.randrange(54, max(len(data), 55)):]
        return bytes(data)

    @staticmethod
    def node(v6: bool) -> str:
        return (host.NODE, host.NODE6)[v6]

    def client(self, v6: bool) -> str:
        return self.one_of(host.CLIENT6, host.CLIENT6, host.DENIED6,
                           host.NODE6) if v6 else self.one_of(
                               host.CLIENT, host.CLIENT, host.DENIED,
                               host.NODE)

    def echo(self, v6: bool, source: str, destination: str, reply: bool):
        header = {} if v6 else {'flags': self.one_of(0, 0, 0, 'MF')}
        return host.echo(v6, source, destination, reply, self.one_of(1, 2),
                         self.one_of(1, 2), **header)

    def from_node(self) -> bytes:
        v6, protocol = self.one_of(False, True), self.one_of('tcp', 'udp')
        number = self.random.randrange(1, 7)
        vip = ((host.OTHER_VIP, host.OTHER_VIP6) if number == 4
               else (host.VIP, host.VIP6))[v6]
        client, sport = self.client(v6), self.one_of(1, 2)
        what = self.random.random()
        if what < 0.1:
            inner = self.echo(v6, self.one_of(client, self.node(v6)), vip,
                              self.random.random() < 0.1)
        elif what < 0.3:
            inner = self.error(v6, client, vip, self.inner(
                v6, protocol, vip, client, host.LISTENER, sport))
        else:
            inner = self.inner(v6, protocol, client, vip, sport,
                               self.one_of(80, 80, 80, 80, 81))
        outer_v6 = self.one_of(False, True)
        geneve = not outer_v6 or self.one_of(False, True)
        return self.mutated(host.encapsulated(
            inner, host.key(number, protocol, v6), inner_v6=v6, v6=outer_v6,
            geneve=geneve, source=self.source(outer_v6),
            alternative=self.alternative(protocol, v6, outer_v6, geneve),
            tos=self.one_of(0, 1, 2, 3)))

    def source(self, v6: bool) -> str:
        what = self.random.random()
        if what < 0.05:
            return (host.FOREIGN, host.FOREIGN6)[v6]
        if what < 0.2:
            return (host.PEER, host.PEER6)[v6]
        return host.NODE

    def alternative(self, protocol: str, v6: bool, outer_v6: bool,
                    geneve: bool) -> tuple[str, int] | None:
        """Here, on a known hypervisor, or elsewhere."""
        if self.random.random() < 0.6:
            return None
        if not outer_v6:
            where = self.one_of(host.LOCAL, host.LOCAL, host.PEER,
                                host.FOREIGN)
        elif geneve:
            where = self.one_of(host.LOCAL6, host.LOCAL6, host.PEER6,
                                host.FOREIGN6)
        else:
            where = self.one_of(host.SID, host.SID, host.PEER_SID,
                                '2001:db8:77::')
        return where, host.key(self.random.randrange(1, 7), protocol, v6)

    def of_vm(self, to_it: bool) -> bytes:
        v6, protocol = self.one_of(False, True), self.one_of('tcp', 'udp')
        fixed = (host.FIXED, host.FIXED6)[v6]
        client, number = self.client(v6), self.one_of(1, 2)
        local = self.one_of(8080, 8080, 9090, 22)
        if to_it:
            return host.from_vm(self.inner(v6, protocol, client, fixed,
                                           number, local))
        what = self.random.random()
        if what < 0.1:
            return self.mutated(host.from_vm(self.echo(
                v6, fixed, self.one_of(client, self.node(v6)),
                self.random.random() < 0.9) / self.more()))
        if what < 0.3:
            return self.mutated(host.from_vm(self.error(
                v6, fixed, client, self.inner(v6, protocol, client, fixed,
                                              number, local)) / self.more()))
        return self.mutated(host.from_vm(self.inner(
            v6, protocol, fixed, client, local, number,
            len(self.more()) or None)))

    def more(self) -> bytes:
        """Return padding that makes few packets too big, so that each is
        answered: the model has no time, and so no limit of answers."""
        return (self.random.randbytes(self.random.randrange(400, 1700))
                if self.random.random() < 0.2 else b'')


class TestHostMutations(unittest.TestCase):

    def test_programs_and_model_agree_on_random_frames(self):
        seed = random_case.setting('SEED') or random.randrange(1 << 32)
        count = random_case.setting('COUNT') or 3000
        both = host.Hypervisor()
        self.addCleanup(both.close)
        self.addCleanup(both.set_reply_mtu)
        traffic = Traffic(seed)
        try:
            for number in range(count):
                self.step(both, traffic)
                if number % 500 == 499:
                    both.check_outcomes()
                    both.check_flows()
                    both.go_on_arriving()
        except host.Difference as difference:
            raise AssertionError(
                f'{random_case.PREFIX}SEED={seed}, frame {number}:\n'
                f'{difference}') from difference
        self.assertGreater(len(both.outcomes), min(10, count // 100))

    def step(self, both: host.Hypervisor, traffic: Traffic):
        what = traffic.random.random()
        port = traffic.one_of(host.PORT, host.PORT, host.OTHER_PORT)
        if what < 0.5:
            both.nic(traffic.from_node())
        elif what < 0.9:
            both.tap_in(traffic.of_vm(False), port)
        elif what < 0.99:
            both.tap_out(traffic.of_vm(True), port,
                         traffic.one_of(0, 0, model.MARK))
        elif what < 0.991:
            both.bring_tap(port)
        elif what < 0.994:
            both.set_reply_mtu(traffic.one_of(65536, 1500, 1400, 1281, 1280,
                                              600, 576, 575))
        else:
            both.set_rules(port, traffic.one_of(
                host.RULES, host.RULES[:1], host.RULES[1:],
                (types.Rule(4), types.Rule(6))),
                is_open=traffic.random.random() < 0.1,
                flows_max=traffic.one_of(0, 2))
