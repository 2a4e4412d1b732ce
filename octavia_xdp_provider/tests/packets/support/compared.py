# SPDX-License-Identifier: Apache-2.0
"""One node twice: the loaded program, and the model of it."""

import collections
import ipaddress
import struct
import time

from octavia_xdp_provider.tests.models import maglev_model
from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import flows
from octavia_xdp_provider.tests.models.packet_model import forward
from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import nat_peers
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import rate
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support import library

CLOCK_MONOTONIC_COARSE = 6  # time.h; the time module has no name for it
UNIT = 1 << flows.UNIT_SHIFT
MARGIN = 50_000_000  # ns that a batch may take
# ns for which the program may still be in the unit before: 8 ticks of the
# kernel (flow_time.h), of which there are 100 a second at least, and one of
# the coarse clock.
LATE = 90_000_000
NO_UPLINK = 255
BLOCK_LEARNING = 512
BLOCK_OPEN = 1024
BLOCK_CHANGED = 4096
LINE = 64
SHARED_SET = 192
# Bytes that the program pulls into the first of several buffers of a frame.
PULLED = 256
TIME_SHIFT = 14  # of a remembered flow's word


def clock() -> int:
    return time.clock_gettime_ns(CLOCK_MONOTONIC_COARSE)


def packed(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def text(address: bytes, port: int = 0) -> str:
    parsed = str(ipaddress.ip_address(address))
    return f'[{parsed}]:{port}' if port else parsed


def is_near_a_tick() -> bool:
    """Whether the program may be in another unit of time than this test, now
    or when a batch has run."""
    passed = clock() % UNIT
    return passed < LATE or UNIT - passed < MARGIN


def wait_for_unit():
    """Until a unit has begun for the program as well, which may be the present
    one."""
    passed = clock() % UNIT
    time.sleep((LATE - passed if passed < LATE else UNIT - passed + LATE)
               / 1e9)


def wait_for_next_unit():
    time.sleep((UNIT - clock() % UNIT + LATE) / 1e9)


class Difference(Exception):
    """Program and model disagree."""


class OutcomeDifference(Difference):
    """They disagree about the counters of a batch; which packet is open."""


def takers(members: list[state.Member]) -> list[state.Member]:
    """Return members that may take new flows, also those whose weight is so
    small that they have no slot.
    """
    able = [member for member in members
            if member.keeps_flows and member.weight]
    return [member for member in able if not member.backup] or able


def wanted_table(members: list[state.Member],
                 slots: int) -> list[tuple[bytes, int] | None]:
    """The member of each slot: by Maglev, from what was configured alone."""
    named = {text(*state.label(member, members)): member
             for member in takers(members)}
    weights = {name: member.weight for name, member in named.items()}
    return [None if name is None else named[name].name
            for name in maglev_model.populate(weights, slots)]


def with_id_of(other: bytes, frame: bytes) -> bytes:
    """The frame of an IPv4 packet with the id that `other` has."""
    at = 14
    while frame[at - 2:at] in parse.VLAN:
        at += 4
    header = frame[at:at + 4] + other[at + 4:at + 6] + frame[at + 6:at + 20]
    field = checksum.checksum(header[:10] + bytes(2) + header[12:])
    return (frame[:at] + header[:10] + field.to_bytes(2, 'big') +
            header[12:] + frame[at + 20:])


class Compared:
    """Configures both, runs frames through both, compares.

    Frames come in at the loopback device.
    """

    def __init__(self, node: state.Node, *, slots: int = 257,
                 services_max: int = 32, members_max: int = 512,
                 flows_max: int = 4096):
        self.slots = slots
        self.devices = environment.enter()
        self.directory, lock = environment.bpf_filesystem()
        self.library = library.Library()
        self.datapath = library.Datapath(
            self.library, str(self.directory), str(lock), slots_max=slots,
            services_max=services_max, members_max=members_max,
            flows_max=flows_max)
        self.maps = {
            name: library.Map(str(self.directory), name, key, value)
            for name, key, value in (
                ('config', 4, 192), ('uplinks', 4, 640),
                ('services', 4, 80), ('flows', 4, 64),
                ('nat_owners', 40, 16))}
        self.maps |= {
            name: library.Words(str(self.directory), name, sets * SHARED_SET)
            for name, sets in (('fragments', 4096), ('sources', 8192))}
        # tests need no second one
        self.segment = None
        config = self.maps['config'].read(bytes(4))
        node.seed = struct.unpack_from('=Q', config, 88)[0]
        node.flow_sets = struct.unpack_from('=I', config, 76)[0] // 8
        self.model = forward.Forwarder(node)
        self.node = node
        self.members: dict[int, list[state.Member]] = {}
        self.services: list[state.Service] = []
        self.pools: list[tuple[bytes, int]] = []
        self.peers: tuple[bytes, ...] = ()
        self.seek_udp_until = 0
        self.ran = 0
        self.set_node()

    def close(self):
        for mapped in self.maps.values():
            mapped.close()
        if self.segment is not None:
            self.segment.close()
        self.datapath.close()
        environment.drop_filesystem(self.directory)

    # Configuration ---------------------------------------------------------

    def set_node(self):
        """Make `node` true, after any change of it."""
        self.datapath.set_node(self.node)
        self.datapath.set_uplinks(self.node.uplinks)
        config = self.maps['config'].read(bytes(4))
        active = struct.unpack_from('=Q', config, 40)[0] & 1
        chosen = self.maps['uplinks'].read(struct.pack('=I', active))
        order = [struct.unpack_from('=I', chosen, 128 + 64 * index)[0]
                 for index in range(8)]
        sends = {index: chosen[128 + 64 * position + 8] for position, index in
                 enumerate(order)}
        for uplink in self.node.uplinks:
            uplink.sends_buffers = bool(sends[uplink.ifindex])
        by_ifindex = {uplink.ifindex: index
                      for index, uplink in enumerate(self.node.uplinks)}
        for position, family in enumerate((state.IPV4, state.IPV6)):
            choice = [None if index == NO_UPLINK else
                      by_ifindex[order[index]]
                      for index in chosen[64 * position:64 * position + 64]]
            usable = {index for index, uplink in enumerate(self.node.uplinks)
                      if uplink.gateway.get(family) is not None}
            if {index for index in choice if index is not None} != usable:
                raise Difference(f'uplinks of IPv{family}: {choice}')
            self.node.choice[family] = choice

    def set_pools(self, pools: list[tuple[bytes, int]]):
        """Set the pools of NAT, as (address, prefix length)."""
        self.datapath.set_nat_pools(pools)
        self.pools = pools
        self._begin_nat()

    def set_peers(self, peers: tuple[bytes, ...]):
        """Nodes with NAT, one of them this one."""
        self.datapath.set_nat_peers(peers)
        self.peers = peers
        self._begin_nat()

    def seek_udp(self, seconds: int):
        """Peers are asked for datagrams for so long."""
        if is_near_a_tick():
            wait_for_unit()
        self.datapath.seek_udp(seconds)
        self.seek_udp_until = clock() // UNIT + seconds if seconds else 0
        self.model.peers.seek_udp_until = self.seek_udp_until

    def change_peers(self, peers: tuple[bytes, ...]):
        """Nothing is forgotten."""
        self.datapath.set_nat_peers(peers)
        self.peers = peers
        self.model.peers.addresses[:] = peers

    def _begin_nat(self):
        self.model.nat = nat.Flows(self._allocated)
        for address, length in self.pools:
            first = int.from_bytes(address, 'big')
            for number in range(1 << 8 * len(address) - length):
                self.model.nat.pools.add(
                    (first + number).to_bytes(len(address), 'big'))
        self._begin_fragments()
        self.model.peers = nat_peers.Peers(self.peers, next(
            (address for address in self.peers
             if address in self.model.nat.pools), b''))
        self.model.peers.seek_udp_until = self.seek_udp_until

    def _allocated(self, service: state.Service, client: nat.End,
                   member: nat.End) -> nat.End | None:
        """Take the program's choice of a port, after checking that it may."""
        flow = self.datapath.nat_flow(service, client.address, client.port)
        if flow is None:
            return None
        address, port, _ = flow
        if (address not in self.model.nat.pools or port < 1024 or
                len(address) != len(member.address)):
            raise Difference(f'{address.hex()} port {port} of no pool')
        return nat.End(address, port)

    def nat_flow(self, service: state.Service, client: bytes,
                 port: int) -> nat.Flow | None:
        """The client's, of which program and model agree."""
        in_model = self.model.nat.of_client(
            service.protocol, nat.End(client, port),
            nat.End(service.vip, service.port))
        in_program = self.datapath.nat_flow(service, client, port)
        told = in_model and (*in_model.pool, in_model.state.value)
        if told != in_program:
            raise Difference(f'flow {told} in the model, {in_program} in the '
                             'program')
        return in_model

    def active(self, service: state.Service) -> int:
        """Flows of NAT."""
        in_model = self.model.nat.active(service)
        in_program = self.datapath.service(service).active_flows
        if in_model != in_program:
            raise Difference(f'{in_model} flows in the model, {in_program} '
                             'in the program')
        return in_model

    def set_service(self, service: state.Service,
                    members: list[state.Member], refresh: bool = True):
        """Make it exist with these members, in both."""
        self.datapath.set_service(service, members, self.slots)
        if service not in self.services:
            service.index = self.datapath.service(service).index
            self.services.append(service)
        old = {member.name: member
               for member in self.members.get(id(service), ())}
        for member in members:
            if member.name in old:  # it stays, with its counters
                was = old[member.name]
                member.packets, member.bytes, member.flows = (
                    was.packets, was.bytes, was.flows)
        self.members[id(service)] = members
        if refresh:
            self.set_health(members)

    def set_health(self, members: list[state.Member]):
        """Set the members' `healthy` on the node."""
        self.datapath.apply_health(
            {member.name: member.healthy for member in members})
        self.refresh()

    def delete_service(self, service: state.Service):
        self.datapath.delete_service(service)
        self.services.remove(service)
        self.members.pop(id(service), None)
        self.refresh()

    def refresh(self):
        """Read what only the tables know, and check all that is known."""
        self._read_node()
        for service in self.services:
            self._read(service)
        self.model.set_services(self.services)

    def _read_node(self):
        config = self.maps['config'].read(bytes(4))
        self.node.idle_timeout_max = struct.unpack_from('=I', config, 84)[0]

    def _at(self, line: int) -> bytes:
        """A block, and what follows it."""
        if self.segment is None:
            self.segment = library.Segment(self.directory / 'maps/segment-0')
        return self.segment.read(LINE * line)

    def _read(self, service: state.Service):
        stored = self.datapath.service(service)
        entry = self.maps['services'].read(struct.pack('=I', service.index))
        for line in struct.unpack_from('=II', entry, 36):
            block = self._at(line)
            generation, slots, flags = struct.unpack_from('=QII', block)
            if line and generation == stored.generation:
                break
        else:
            raise Difference('neither block has the generation of the '
                             'service')
        members, line, width = struct.unpack_from('=HxxHB', block, 16)
        before_slots, = struct.unpack_from('=I', block, 44)
        kind = {1: 'B', 2: 'H'}[width]

        def part(count, size):
            nonlocal line
            content = block[LINE * line:LINE * line + count * size]
            line += -(-count * size // LINE)
            return content

        def owners(count):
            return [owner if owner < members else state.NOBODY for owner in
                    struct.unpack(f'={count}{kind}', part(count, width))]

        service.now = owners(slots)
        bits = int.from_bytes(part((slots + 7) // 8, 1), 'little')
        service.open = {slot for slot in range(slots) if flags & BLOCK_OPEN and
                        bits >> slot & 1}
        changed = flags & BLOCK_CHANGED
        service.before = (owners(before_slots) if service.open or changed
                          else [])
        bits = int.from_bytes(part((slots + 7) // 8, 1), 'little')
        service.changed = {slot for slot in range(slots) if changed and
                           bits >> slot & 1}
        service.learning = bool(flags & BLOCK_LEARNING)
        wanted = {member.name: member for member in self.members[id(service)]}
        service.members = {}
        for listed in self.datapath.members(service):
            member = wanted[library.packed(listed.address), listed.port]
            service.members[listed.index] = member
            if library.tunnel_of(listed) != member.tunnel:
                raise Difference(f'not the tunnel {member.tunnel}')
        if len(service.members) != len(wanted):
            raise Difference('members are missing')
        table = wanted_table(self.members[id(service)], slots)
        in_model = [
            None if index == state.NOBODY else service.members[index].name
            for index in service.now]
        if table != in_model:
            raise Difference(f'{service.port}: not the table of the members')
        able = takers(self.members[id(service)])
        for member in wanted.values():
            member.takes_flows = member in able

    def reset(self, node: state.Node):
        """No services, nothing remembered, other settings."""
        for service in list(self.services):
            self.datapath.delete_service(service)
        self.services.clear()
        self.members.clear()
        for name in ('fragments', 'sources', 'nat_owners'):
            self.maps[name].clear()
        node.seed, node.flow_sets = self.node.seed, self.node.flow_sets
        for where in range(node.flow_sets):
            self.maps['flows'].write(struct.pack('=I', where), bytes(64))
        self.node = node
        self.model = forward.Forwarder(node)
        self._begin_nat()
        self.set_node()
        self.begin_unit()

    # Running ---------------------------------------------------------------

    def first_buffer(self, frame: bytes) -> int:
        """Bytes that the program gets in the first one of several buffers,
        0: it gets the whole frame in one.
        """
        return 0

    def run(self, frames: list[bytes]) -> list[forward.Result]:
        """Run the frames in turn through both. Returns what happened."""
        if is_near_a_tick():
            wait_for_unit()
        if self.model.sources.buckets:
            self.maps['sources'].clear()
            self.model.sources = rate.Sources()
        before = self.datapath.outcomes()
        begin = clock()
        first = [self.first_buffer(frame) for frame in frames]
        actual = self.datapath.run(frames, first)
        passed = clock() - begin
        counted = [(new[0] - old[0], new[1] - old[1]) for new, old in
                   zip(self.datapath.outcomes(), before, strict=True)]
        if begin // UNIT != (begin + passed) // UNIT:
            self.resynchronize()
            return []
        results = [
            self.model.forward(
                frame, environment.LOOPBACK, begin,
                readable=max(length, PULLED) if length else None)
            for frame, length in zip(frames, first, strict=True)]
        packets, octets = collections.Counter(), collections.Counter()
        for frame, result, got in zip(frames, results, actual, strict=True):
            for outcome in result.counted():
                packets[outcome] += 1
                octets[outcome] += len(frame) - result.stripped
            self._compare(frame, result, *got)
        expected = [(packets[index], octets[index])
                    for index in range(len(counted))]
        if counted != expected:
            raise OutcomeDifference('\n'.join([
                'outcome: (packets, bytes) of model, program',
                *(f'{state.Outcome(index).name}: {in_model}, {in_program}'
                  for index, (in_model, in_program) in enumerate(
                      zip(expected, counted, strict=True))
                  if in_model != in_program),
                *(frame.hex() for frame in frames if len(frames) <= 4)]))
        self.ran += len(frames)
        return results

    @staticmethod
    def _compare(frame: bytes, result: forward.Result, action: int,
                 out: bytes):
        if result.any_id and len(out) == len(result.frame):
            result = result._replace(frame=with_id_of(out, result.frame))
        if action == result.action and (
                out == result.frame or action == state.Action.DROP):
            return
        different = [index for index, (wanted, actual) in
                     enumerate(zip(result.frame, out, strict=False))
                     if wanted != actual]
        raise Difference('\n'.join((
            f'in:      {frame.hex()}',
            f'model:   {result.action.name} {result.outcome.name} '
            f'{[remark.name for remark in result.remarks]} '
            f'member {result.member} service '
            f'{result.service and result.service.port}',
            f'         {result.frame.hex()}',
            f'program: {state.Action(action).name}',
            f'         {out.hex()}',
            f'lengths {len(result.frame)} and {len(out)}, first bytes that '
            f'differ: {different[:8]}')))

    def resynchronize(self):
        """After the clock ticked amid a batch: take over what the program
        remembers, and forget what sources have opened."""
        self._begin_fragments()
        self.maps['sources'].clear()
        self.model.memory.sets = {
            where: self.remembered(where)
            for where in range(self.node.flow_sets)}
        self.reset_counters()
        self.begin_unit()

    def _begin_fragments(self):
        self.maps['fragments'].clear()
        self.model.fragments = forward.fragments.Fragments()

    def compare_connections(self):
        for service in self.services:
            if not service.connection_limit:
                continue
            in_model = self.model.nat.active(service)
            in_program = self.datapath.service(service).open_connections
            if in_model != in_program:
                raise Difference(
                    f'{service.port}: {in_model} connections in the model, '
                    f'{in_program} in the program')

    def tick(self):
        """The node's."""
        begin = clock() // UNIT
        self.datapath.tick()
        if clock() // UNIT != begin:
            self.resynchronize()
        self.refresh()

    def begin_unit(self):
        """A unit of time begins with its whole budget of answers."""
        if self.node.icmp_rate:
            wait_for_next_unit()

    def remembered(self, where: int) -> list[flows.Entry | None]:
        """One set of the program's memory of flows."""
        raw = self.maps['flows'].read(struct.pack('=I', where))
        return [flows.Entry(word >> flows.NAME_SHIFT,
                            word >> TIME_SHIFT & flows.TIME_MASK,
                            bool(word & 0x1000), word & 0xfff,
                            bool(word & 0x2000))
                if word else None for word in struct.unpack('=8Q', raw)]

    def compare_memory(self):
        for where in range(self.node.flow_sets):
            in_model = self.model.memory.ways(where)
            in_program = self.remembered(where)
            if in_model != in_program:
                raise Difference('\n'.join((
                    f'remembered flows, set {where}, time '
                    f'{clock() // UNIT & flows.TIME_MASK}: model, program',
                    *map('  '.join, zip(
                        map(str, in_model), map(str, in_program),
                        strict=True)))))

    def reset_counters(self):
        """The model's counters go on from the program's."""
        for service in self.services:
            # What it points into goes with the whole.
            listed = self.datapath.service(service)
            counted = listed.counters
            service.packets, service.bytes, service.flows = (
                counted.packets, counted.bytes, counted.flows)
            service.drops = listed.drops
            for current in self.datapath.members(service):
                member = service.members[current.index]
                member.packets, member.bytes, member.flows = (
                    current.counters.packets, current.counters.bytes,
                    current.counters.flows)

    def compare_counters(self):
        """Packets, bytes and flows of each service and member; drops."""
        for service in self.services:
            # What it points into goes with the whole.
            listed = self.datapath.service(service)
            counted = listed.counters
            self._counters('service', service, counted)
            replies = listed.reply_packets, listed.reply_bytes
            if (service.reply_packets, service.reply_bytes) != replies:
                raise Difference(
                    f'service {service}: answers {service.reply_packets}, '
                    f'{service.reply_bytes} bytes in the model, {replies} in '
                    'the program')
            if service.drops != listed.drops:
                raise Difference(f'service {service}: {service.drops} drops '
                                 f'in the model, {listed.drops} in the '
                                 'program')
            for current in self.datapath.members(service):
                self._counters('member', service.members[current.index],
                               current.counters)

    @staticmethod
    def _counters(what, model, counted):
        in_model = (model.packets, model.bytes, model.flows)
        in_program = (counted.packets, counted.bytes, counted.flows)
        if in_model != in_program:
            raise Difference(f'{what} {model}: packets, bytes, flows '
                             f'{in_model} in the model, {in_program} in the '
                             'program')


