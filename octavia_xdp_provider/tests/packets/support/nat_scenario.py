# SPDX-License-Identifier: Apache-2.0
"""A node with NAT that changes at random while random frames come in, from
clients and from members.

All services of a VIP are by NAT, or none, as in load balancers; the others are
those of any scenario. One frame runs at a time: the model asks the program
which port a flow has got, before anything else happens to the flow.
"""

import random
import struct

from octavia_xdp_provider.tests.models.packet_model import encap
from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import nat_peers
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import scenario
from octavia_xdp_provider.tests.packets.support import traffic

FRAMES = 400  # between changes
OWN_PORTS = (80, 8080, 8081)  # of members
LONG = 10000


class Interrupted(Exception):
    """The clock has ticked amid a frame: nobody knows what the program did
    of it."""


class NatCompared(compared.Compared):

    rng = random.Random()  # of a scenario, for those that split frames

    def resynchronize(self):
        raise Interrupted

    def compare_flows(self):
        """Ends and states of all flows of services that are there."""
        in_model = {}
        for flow in self.model.nat.all():
            in_model[flow.pool] = (flow.client, flow.member, flow.state.value)
        in_program = {}
        for flow in self.datapath.nat_flows():
            ends = [nat.End(compared.library.packed(address), port)
                    for address, port in (
                        (flow.pool, flow.pool_port),
                        (flow.client, flow.client_port),
                        (flow.member, flow.member_port))]
            in_program[ends[0]] = (ends[1], ends[2], flow.state)
        if in_model != in_program:
            raise compared.Difference(
                'flows, in the model and the program: '
                f'{in_model.items() ^ in_program.items()}')
        for service in self.services:
            if service.nat:
                self.active(service)


class NatTraffic(traffic.Traffic):
    """Also what members send to pools, and errors about flows."""

    def __init__(self, rng: random.Random, under_test: compared.Compared):
        super().__init__(rng, under_test.services)
        self.compared = under_test

    def flow(self) -> nat.Flow | None:
        flows = list(self.compared.model.nat.all())
        return self.rng.choice(flows) if flows else None

    def either(self, right, *others):
        """Nearly always the first."""
        return right if self.rng.random() < 0.95 else self.rng.choice(others)

    def answer(self):
        flow, rng = self.flow(), self.rng
        if flow is None:
            return self.plain()
        protocol = self.either(flow.service.protocol, *traffic.PROTOCOLS)
        source = self.either(flow.member.address, *(
            address for address in scenario.POOL[
                4 if len(flow.member.address) == 4 else 6]))
        data = self.transport(
            protocol, self.either(flow.member.port, *OWN_PORTS),
            self.either(flow.pool.port, rng.randrange(65536)))
        if rng.random() < 0.5:
            data = self.sealed(source, flow.pool.address, protocol, data)
        word = rng.choice((0,) * 6 + (0x2000, 9, 0x2009))
        family = 4 if len(source) == 4 else 6
        return family, self.ip(family, source, flow.pool.address, protocol,
                               data, fragment=word)

    def again(self):
        """Return a packet of a client that has a flow."""
        flow = self.flow()
        if flow is None:
            return self.plain()
        protocol = flow.service.protocol
        data = self.transport(protocol, flow.client.port, flow.vip.port)
        if self.rng.random() < 0.5:
            data = self.sealed(flow.client.address, flow.vip.address,
                               protocol, data)
        family = 4 if len(flow.vip.address) == 4 else 6
        return family, self.ip(family, flow.client.address, flow.vip.address,
                               protocol, data)

    def flow_error(self):
        """About what the node has sent to one of a flow's ends."""
        flow, rng = self.flow(), self.rng
        if flow is None:
            return self.error()
        own, other = flow.ends(rng.random() < 0.5)
        family = 4 if len(own.address) == 4 else 6
        ports = struct.pack('!HH', own.port, other.port)
        quote = self.ip(
            family, own.address, other.address, flow.service.protocol,
            ports + self.payload()[:60],
            fragment=rng.choice((0,) * 8 + (0x2000, 9)))
        if rng.random() < 0.05:
            quote = self.error_about(family, own.address, other.address,
                                     quote)
        if rng.random() < 0.2:
            quote = quote[:rng.randrange(len(quote))]
        kind = rng.choice(traffic.ERRORS[family])
        data = bytes((kind, rng.randrange(17))) + rng.choice((
            rng.randbytes(6),
            bytes(2) + struct.pack('!I', rng.choice((
                0, 68, 576, 1280, 1300, 1499, 70000, rng.randrange(64),
                rng.randrange(64) << 24))))) + quote
        protocol = state.ICMP if family == 4 else state.ICMPV6
        router = self.source(family, own.address)
        if rng.random() < 0.5:
            data = self.sealed(router, own.address, protocol, data)
        return family, self.ip(family, router, own.address, protocol, data)

    def to_pool(self):
        """Return a packet that belongs to no flow."""
        rng = self.rng
        family = rng.choice((4, 6))
        pools = [pool for pool in self.compared.model.nat.pools
                 if len(pool) == (4 if family == 4 else 16)]
        address = rng.choice(sorted(pools))
        kind = rng.randrange(3)
        if kind == 0:
            return family, self.ip(
                family, self.source(family, address), address,
                rng.randrange(256), self.payload())
        if kind == 1:
            protocol = rng.choice(traffic.PROTOCOLS)
            return family, self.ip(
                family, self.source(family, address), address, protocol,
                self.transport(protocol, self.source_port(),
                               rng.randrange(65536)))
        number, echo = ((state.ICMP, 8) if family == 4 else
                        (state.ICMPV6, 128))
        data = bytes((echo, 0)) + rng.randbytes(6) + self.payload()
        return family, self.ip(family, self.source(family, address), address,
                               number, data)

    def handed(self):
        """By a peer, if there are any."""
        rng, known = self.rng, self.compared.model.peers
        family, packet = rng.choice(self._INNER)(self)
        if not known:
            return family, packet
        origin = nat.End(rng.choice(known.addresses), 0)
        target = nat.End(known.own, 0)
        inner = nat_peers.GRE.pack(
            nat_peers.KEY_FLAG, nat_peers.ETHERTYPE[family],
            nat_peers.MAGIC, rng.choice((0, 1, 1, 2, 3, 3, 4, 5)),
            rng.choice((1, 2, 31, 32))) + packet
        outer = 4 if len(target.address) == 4 else 6
        header = (nat.ipv4 if outer == 4 else nat.ipv6)(
            0, nat_peers.TTL, encap.GRE, origin, target, len(inner))
        return outer, header + inner

    _INNER = [kind for kind, weight in (
        *traffic.Traffic._KINDS, (answer, 60), (again, 30),
        (flow_error, 30), (to_pool, 5)) for _ in range(weight)]
    _MAKE = [*_INNER, *[handed] * 40]


class NatScenario(scenario.Scenario):

    def __init__(self, under_test: NatCompared, seed: int):
        self.nat_vips = set(random.Random(seed).sample(
            scenario.VIPS, 3))
        super().__init__(under_test, seed)
        self.traffic = NatTraffic(self.rng, under_test)

    def is_nat(self, service: state.Service) -> bool:
        return (service.vip in self.nat_vips and
                service.protocol != state.SCTP)

    def settings(self, service: state.Service):
        super().settings(service)
        service.nat = self.is_nat(service)
        if not service.nat:
            return
        self.with_ports.discard(id(service))
        service.by_source = service.quic = service.second_chance = False
        service.encapsulation = state.Encapsulation.IPIP
        service.dscp = service.sid_function = 0
        service.connection_limit = (
            self.rng.choice((0, 0, 0, 1, 3, 20))
            if service.protocol == state.TCP else 0)
        service.sends_reset = bool(service.connection_limit and
                                   self.rng.random() < 0.5)

    def some_members(self, service: state.Service) -> list[state.Member]:
        if not self.is_nat(service):
            return super().some_members(service)
        names = [(address, port)
                 for address in scenario.POOL[4][:4] + scenario.POOL[6][:4]
                 for port in OWN_PORTS]
        members = [self.fresh(*name) for name in self.rng.sample(
            names, self.rng.choice((0, 1, 2, 3, 4, 6, 8)))]
        for member in members:
            member.tunnel = None
        return members

    def moves(self):
        """Members by NAT are behind no tunnel."""

    def deadline(self):
        """Until which peers are asked for datagrams."""
        self.compared.seek_udp(self.rng.choice((0, 0, LONG)))

    CHANGES = (*(
        change for change in scenario.Scenario.CHANGES
        if change.__name__ not in ('moves', 'time_passes', 'tick')), deadline)

    def step(self):
        self.rng.choice(self.CHANGES)(self)
        for _ in range(FRAMES):
            self.compared.run([self.traffic.frame()])
        self.compared.compare_connections()
        self.compared.compare_flows()
        self.compared.compare_counters()
