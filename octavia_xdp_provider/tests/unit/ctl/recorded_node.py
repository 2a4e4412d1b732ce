# SPDX-License-Identifier: Apache-2.0
"""A node whose tables are recorded values, with a simulation that is a
second packet model.

What `explain` asks of it is what it asks of the real one: the functional
tests compare those answers with the program's.
"""

import contextlib
import ipaddress

from octavia_xdp_provider.ctl import tables
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import types
from octavia_xdp_provider.packet_model import forward
from octavia_xdp_provider.packet_model import rate
from octavia_xdp_provider.packet_model import select
from octavia_xdp_provider.packet_model import state

UPLINK = types.Uplink(7, 1500, '02:00:00:00:00:01', '02:00:00:00:00:03',
                      '02:00:00:00:00:03')
SLOTS = 64
TAG = '0123456789abcdef'
COUNTERS = types.Counters(0, 0, 0)


class Links:

    def name(self, ifindex):
        return {UPLINK.ifindex: 'up0'}.get(ifindex, f'#{ifindex}')


class Node:
    """Slot n of a service is of member n modulo their number. ``changing``:
    by key, the member that had all slots before, which are open."""

    def __init__(self, **settings):
        self.settings = types.NodeSettings(**{
            'source_v4': '10.0.0.0', 'source_v6': 'fd00::1', 'entropy_v4': 4,
            'flags': types.NodeFlag.ECHO | types.NodeFlag.CLAMP_MSS,
            'icmp_rate': 1000, **settings})
        self.found, self.states, self.networks = {}, {}, {}
        self.changing = {}
        self.uplink = UPLINK
        self.spoil = lambda run: run

    def add(self, key, *members, allowed=(), down=(), **settings):
        settings = types.Settings(slots=SLOTS, **{
            'idle_timeout_s': 350, 'source_length_v4': 32,
            'source_length_v6': 128, **settings})
        self.found[key] = types.Service(
            key, len(self.found), SLOTS, len(members),
            len(members) - len(down), 1, COUNTERS, 0, settings)
        self.states[key] = [
            types.MemberState(address, 1, 1, True, address not in down, True,
                              COUNTERS, takes_flows=address not in down,
                              index=index)
            for index, address in enumerate(members)]
        self.networks[key] = list(allowed)

    # What explain asks

    def services(self):
        return list(self.found.values())

    def members(self, key):
        return self.states[key]

    def allowed(self, key):
        return self.networks[key]

    def node_settings(self):
        return self.settings

    def uplinks(self):
        if self.uplink is None:
            none = (None,) * 64
            return [], inspection.Choices(none, none)
        return [self.uplink], inspection.Choices((0,) * 64, (0,) * 64)

    @contextlib.contextmanager
    def simulation(self):
        yield Simulation(self)


class Simulation:
    """The same tables in a model with a memory of its own."""

    tag = TAG

    def __init__(self, node):
        self._node = node
        known = tables.Tables(node, Links())
        self._services = {}
        for key in node.found:
            for one in known.vip(ipaddress.ip_address(key.address).packed):
                self._services[known.key(one)] = one
        self._keys = {(one.vip, one.protocol, one.port): key
                      for key, one in self._services.items()}
        for key, service in self._services.items():
            count = len(service.members)
            service.now = [slot % count if count else state.NOBODY
                           for slot in range(SLOTS)]
            if key in node.changing:
                service.open = set(range(SLOTS))
                service.before = [node.changing[key]] * SLOTS
        known.node.seed = 1
        self.model = forward.Forwarder(known.node)
        self.model.set_services(list(self._services.values()))

    def _flow(self, service, packet):
        ports = packet.source_port << 16 | packet.destination_port
        return select.flow_of(
            service, ipaddress.ip_address(packet.source).packed,
            ports.to_bytes(4, 'big'), packet.protocol)

    def select(self, key, packet):
        service = self._services[key]
        flow = self._flow(service, packet)
        value = select.flow_hash(*flow)
        slot = self.model.slots.look_up(service, flow, value)
        where, name = self.model.memory.name(flow, service)
        entry = next((one for one in self.model.memory.ways(where)
                      if one is not None and one.name == name), None)
        return inspection.Selection(
            slot.slots, slot.number, select.flow_entropy(value), 0,
            self._number(slot.now),
            self._number(slot.now if slot.before is None else slot.before),
            None if entry is None else entry.member, slot.before is not None,
            entry is not None and entry.confirmed, service.learning)

    @staticmethod
    def _number(member):
        return None if member == state.NOBODY else member

    def tokens(self, key, source):
        return self.model.sources.tokens(
            self._services[key], ipaddress.ip_address(source).packed,
            0) / rate.SCALE

    def first_fragment(self, packet):
        family = ipaddress.ip_address(packet.source).version
        name = packet.fragment_id.to_bytes(2 if family == 4 else 4, 'big')
        vip = ipaddress.ip_address(packet.destination).packed
        found = self.model.fragments.owner.get((
            ipaddress.ip_address(packet.source).packed, vip, name,
            packet.fragment_protocol))
        if found is None:
            return None
        _index, protocol, port, member = found
        return self._keys[vip, protocol, port], member

    def run(self, frame, ifindex):
        result = self.model.forward(frame, ifindex, 0)
        run = inspection.Run(
            int(result.action or state.Action.TX),
            result.frame if result.action else UPLINK_HEADER + result.frame,
            {types.Outcome(one): 1 for one in result.counted()})
        return self._node.spoil(run)


# What the kernel's routes may say.
UPLINK_HEADER = bytes.fromhex('020000000009' '020000000008' '0800')
