# SPDX-License-Identifier: Apache-2.0
"""A node that changes at random while random frames come in."""

import random
import struct

from octavia_xdp_provider.tests.models.packet_model import flows
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support import traffic

VIPS = tuple(compared.packed(address) for address in (
    '192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8::2'))
POOL = {4: [compared.packed(f'10.1.0.{host}') for host in range(1, 13)],
        6: [compared.packed(f'fd00:1::{host}') for host in range(101, 113)]}
PORTS = (53, 80, 443, 6080)
MEMBER_PORTS = (80, 8080, 8081)  # written by the node, in some services
# Hosts of members, which tunnels lead to.
HOSTS = [compared.packed(address) for address in (
    '10.9.0.1', '10.9.0.2', 'fd00:9::', 'fd00:9:0:1::')]
Encapsulation = state.Encapsulation
SECOND_CHANCE = (Encapsulation.GUE, Encapsulation.GENEVE, Encapsulation.SRV6)
BATCH = 128
BATCHES = 8  # between changes


class Scenario:
    """All that happens follows from the seed, but for the time of day."""

    def __init__(self, under_test: compared.Compared, seed: int,
                 batch: int = BATCH):
        self.rng = random.Random(seed)
        self.compared = under_test
        self.batch = batch
        self.down: set[tuple[bytes, int]] = set()
        self.with_ports: set[int] = set()  # ids of services
        under_test.reset(self.node())
        for _ in range(8):
            self.new_service()
        self.traffic = traffic.Traffic(self.rng, under_test.services)

    def node(self) -> state.Node:
        rng = self.rng
        devices = environment.enter()
        uplinks = []
        names = ['lo', *environment.OTHER_UPLINKS]
        for name in rng.sample(names, rng.choice((1, 1, 2, 3))):
            gateway = {
                family: (None if rng.random() < 0.08 else
                         bytes((2, 0, 0, family, 0, devices[name])))
                for family in (4, 6)}
            uplinks.append(state.Uplink(
                devices[name], rng.choice((1500, 1500, 1400, 9000)),
                bytes((2, 0, 0, 0, 1, devices[name])), gateway,
                tuple(rng.randrange(1, 4095)
                      for _ in range(rng.choice((0, 0, 1, 2))))))
        source = {4: compared.packed('10.0.7.1'),
                  6: compared.packed('fd00::7:1')}
        if rng.random() < 0.1:
            source[rng.choice((4, 6))] = None
        return state.Node(
            source, {4: rng.choice((0, 1, 8, 16)),
                     6: rng.choice((0, 16, 32))},
            echo=rng.random() < 0.8, clamp_mss=rng.random() < 0.7,
            pass_too_big=rng.random() < 0.5,
            icmp_rate=rng.choice((0, 3, 1000000)), uplinks=uplinks)

    def settings(self, service: state.Service):
        rng = self.rng
        family = 4 if len(service.vip) == 4 else 6
        service.encapsulation = rng.choice(
            (state.Encapsulation.IPIP,) * 2 + tuple(state.Encapsulation) +
            SECOND_CHANCE)
        service.dscp = service.sid_function = 0
        if service.encapsulation == state.Encapsulation.DSCP:
            service.dscp = rng.randrange(1, 64)
        if service.encapsulation == state.Encapsulation.SRV6:
            service.sid_function = rng.choice((0, 0xd4, 0xffff))
        service.by_source = rng.random() < 0.2
        service.source_length = {
            4: rng.choice((32, 24, 1)), 6: rng.choice((128, 64, 56, 1))}
        service.quic = (service.protocol == state.UDP and
                        not service.by_source and rng.random() < 0.6)
        service.second_chance = (
            service.protocol == state.TCP and not service.by_source and
            service.encapsulation in SECOND_CHANCE and rng.random() < 0.7)
        service.idle_timeout = rng.choice((10, 60, 350))
        service.new_flow_rate = rng.choice((0,) * 9 + (1, 2))
        service.new_flow_burst = (rng.choice((0, 5))
                                  if service.new_flow_rate else 0)
        service.allowed = None
        if rng.random() < 0.25:
            service.allowed = []
            for client in rng.sample(clients_of(family), 3):
                length = rng.choice((8, 24, 30, 8 * len(client)))
                number = int.from_bytes(client, 'big')
                number &= -1 << 8 * len(client) - length
                network = (number.to_bytes(len(client), 'big'), length)
                if network not in service.allowed:
                    service.allowed.append(network)

    def some_members(self, service: state.Service) -> list[state.Member]:
        rng = self.rng
        pool = POOL[4] + POOL[6]
        if service.encapsulation == state.Encapsulation.DSCP:
            pool = POOL[4 if len(service.vip) == 4 else 6]
        if service.encapsulation == state.Encapsulation.SRV6:
            pool = POOL[6]
        names = [(address, 0) for address in pool]
        if id(service) in self.with_ports:
            names = [(address, port) for address in pool[:4] + pool[-4:]
                     for port in MEMBER_PORTS]
        return [self.fresh(*name) for name in
                rng.sample(names, rng.choice((0, 1, 2, 3, 4, 6, 8)))]

    def fresh(self, address: bytes, port: int) -> state.Member:
        rng = self.rng
        return state.Member(
            address, rng.choice((0, 1, 1, 1, 2, 256)),
            rng.choice((0, 0, 0, 1280, 1400, 1450, 9000)),
            rng.random() > 0.1, (address, port) not in self.down,
            rng.random() < 0.15, port=port, tunnel=self.tunnel())

    def tunnel(self) -> state.Tunnel | None:
        rng = self.rng
        if rng.random() < 0.6:
            return None
        host = rng.choice(HOSTS)
        kind = rng.choice([encapsulation for encapsulation in Encapsulation
                           if encapsulation != Encapsulation.DSCP])
        if kind == Encapsulation.SRV6:
            host = rng.choice(HOSTS[2:])
        keys = {Encapsulation.GENEVE: (0, 1, 0xabcdef, 0xffffff),
                Encapsulation.SRV6: (0, 1, 0xffffffff)}
        return state.Tunnel(host, kind, rng.choice(keys.get(kind, (0,))),
                            rng.random() < 0.3, rng.random() < 0.7 and
                            kind in (Encapsulation.GUE, Encapsulation.GENEVE,
                                     Encapsulation.SRV6))

    def new_service(self):
        rng = self.rng
        taken = {(service.vip, service.protocol, service.port)
                 for service in self.compared.services}
        while True:
            key = (rng.choice(VIPS), rng.choice(traffic.PROTOCOLS),
                   rng.choice(PORTS))
            if key not in taken:
                break
        service = state.Service(*key)
        self.with_ports.discard(id(service))
        if service.protocol != state.SCTP and rng.random() < 0.3:
            self.with_ports.add(id(service))
        self.settings(service)
        self.apply(service, self.some_members(service))

    def apply(self, service: state.Service, members):
        # flows keep their member while the table changes its size, too
        self.compared.slots = self.rng.choice((257, 257, 257, 251, 61))
        self.compared.set_service(service, members, refresh=False)
        self.set_health()

    def set_health(self):
        everybody = [member for members in self.compared.members.values()
                     for member in members]
        for member in everybody:
            member.healthy = member.name not in self.down
        self.compared.set_health(everybody)

    # Changes ---------------------------------------------------------------

    def health(self):
        everybody = sorted({
            member.name for members in self.compared.members.values()
            for member in members})
        for name in self.rng.sample(everybody, min(len(everybody), 3)):
            self.down ^= {name}
        self.set_health()

    def weights(self):
        service = self.rng.choice(self.compared.services)
        members = self.compared.members[id(service)]
        for member in members:
            if self.rng.random() < 0.4:
                member.weight = self.rng.choice((0, 0, 1, 3, 256))
            if self.rng.random() < 0.1:
                member.admin_up = not member.admin_up
            if self.rng.random() < 0.1:
                member.mtu = self.rng.choice((0, 1400))
        self.apply(service, members)

    def moves(self):
        """Members are on other hosts, and no slot has another owner."""
        service = self.rng.choice(self.compared.services)
        members = self.compared.members[id(service)]
        before = service.now
        if service.encapsulation != Encapsulation.DSCP:
            for member in members:
                if self.rng.random() < 0.5:
                    member.tunnel = self.tunnel()
        slots, self.compared.slots = self.compared.slots, len(before)
        self.compared.set_service(service, members)
        self.compared.slots = slots
        if before != service.now:
            raise compared.Difference('a move has changed slots')

    def come_and_go(self):
        service = self.rng.choice(self.compared.services)
        members = [member for member in self.compared.members[id(service)]
                   if self.rng.random() > 0.2]
        have = {member.name for member in members}
        members += [member for member in self.some_members(service)
                    if member.name not in have]
        self.apply(service, members)

    def other_settings(self):
        service = self.rng.choice(self.compared.services)
        members = self.compared.members[id(service)]
        old = service.encapsulation
        self.settings(service)
        kinds = (state.Encapsulation.DSCP, state.Encapsulation.SRV6)
        if old != service.encapsulation and service.encapsulation in kinds:
            members = self.some_members(service)
        self.apply(service, members)

    def other_service(self):
        if len(self.compared.services) > 4:
            service = self.rng.choice(self.compared.services)
            del self.compared.members[id(service)]
            self.compared.delete_service(service)
        self.new_service()

    def other_node(self):
        new = self.node()
        node = self.compared.node
        for field in ('source', 'entropy', 'echo', 'clamp_mss',
                      'pass_too_big', 'uplinks'):
            setattr(node, field, getattr(new, field))
        self.compared.set_node()

    def time_passes(self):
        """Remembered flows get older; the slots stay open."""
        units = self.rng.choice((1, 3, 9, 12, 400))
        pinned = self.compared.maps['flows']
        for where, ways in self.compared.model.memory.sets.items():
            for entry in ways:
                if entry is not None:
                    entry.time = entry.time - units & flows.TIME_MASK
            key = struct.pack('=I', where)
            words = struct.unpack('=8Q', pinned.read(key))
            shift = compared.TIME_SHIFT
            aged = [word and word & ~(flows.TIME_MASK << shift) |
                    ((word >> shift) - units & flows.TIME_MASK) << shift
                    for word in words]
            pinned.write(key, struct.pack('=8Q', *aged))

    def tick(self):
        self.compared.tick()

    CHANGES = (health, health, health, weights, weights, moves, come_and_go,
               come_and_go, other_settings, other_service, other_node,
               time_passes, time_passes, tick)

    def step(self):
        """Something changes, then a batch of frames."""
        self.rng.choice(self.CHANGES)(self)
        frames = [self.traffic.frame() for _ in range(BATCH * BATCHES)]
        for start in range(0, len(frames), self.batch):
            self.compared.run(frames[start:start + self.batch])
            self.compared.compare_memory()


def clients_of(family: int) -> list[bytes]:
    return [compared.packed(address) for address in (
        (cases.CLIENT4, '198.51.100.1', '198.51.100.12', '203.0.113.2')
        if family == 4 else
        (cases.CLIENT6, '2001:db8:c::1', '2001:db8:c:1::3',
         '2001:db8:c::9'))]
