# SPDX-License-Identifier: Apache-2.0
"""State of a simulation about a packet's flow, in the packet model's terms.

It is queried before the program runs, which changes it, and answers are
cached: the model may decide on a packet again.
"""

import functools
import ipaddress

from octavia_xdp_provider.node.inspection import Packet
from octavia_xdp_provider.packet_model import flows
from octavia_xdp_provider.packet_model import fragments
from octavia_xdp_provider.packet_model import rate
from octavia_xdp_provider.packet_model import select
from octavia_xdp_provider.packet_model import state


def _text(packed):
    return str(ipaddress.ip_address(packed))


class Knowledge:
    """Answers to questions about one packet."""

    def __init__(self, simulation, tables):
        self._simulation = simulation
        self._tables = tables
        self.selection = functools.cache(self._selection)
        self.tokens = functools.cache(self._tokens)
        self.first_fragment = functools.cache(self._first_fragment)

    def _selection(self, service, source, ports, protocol):
        return self._simulation.select(self._tables.key(service), Packet(
            _text(source), _text(service.vip), protocol,
            int.from_bytes(ports[:2], 'big'),
            int.from_bytes(ports[2:], 'big')))

    def _tokens(self, service, source):
        return int(rate.SCALE * self._simulation.tokens(
            self._tables.key(service), _text(source)))

    def _first_fragment(self, source, destination, protocol, name):
        return self._simulation.first_fragment(Packet(
            _text(source), _text(destination), 0, later=True,
            fragment_protocol=protocol,
            fragment_id=int.from_bytes(name, 'big')))


class Slots(select.Slots):
    """Slots from the simulation's tables; a different slot computed by the
    model is recorded as a difference."""

    def __init__(self, knowledge, memory, differences):
        self._knowledge = knowledge
        self._memory = memory
        self._differences = differences

    def look_up(self, service, flow, value):
        source, _vip, ports, protocol = flow
        selection = self._knowledge.selection(service, source, ports, protocol)
        number = select.flow_slot(value, selection.slots)
        if (number, select.flow_entropy(value)) != (selection.slot,
                                                    selection.entropy):
            self._differences.append(
                f'the flow\'s slot is {selection.slot} of {selection.slots}, '
                f'by its hash {number}')
        service.learning = selection.learning
        self._memory.recall(selection)
        return select.Slot(
            selection.slot, selection.slots,
            _valid_member(service, selection.now),
            (_valid_member(service, selection.before)
             if selection.open or selection.changed else None), selection.open)


def _valid_member(service, member):
    # A damaged table may have any number.
    return member if member in service.members else state.NOBODY


class Memory(flows.Memory):
    """One set with the flow's own entry, if it is remembered. There is room
    for it unless ``full``."""

    def __init__(self, node, full=False):
        super().__init__(node)
        self.full = full
        self._ways = [None] * flows.WAYS

    def recall(self, selection):
        if selection.remembered is not None:
            self._ways[0] = flows.Entry(
                0, -selection.age_s & flows.TIME_MASK, selection.confirmed,
                selection.remembered)

    def name(self, flow, service):
        return 0, 0

    def ways(self, where):
        return self._ways


class Fragments(fragments.Fragments):
    """Looks up in the simulation where first fragments went."""

    def __init__(self, knowledge, tables):
        super().__init__()
        self._knowledge = knowledge
        self._tables = tables

    def owner_of(self, packet):
        owner = self._knowledge.first_fragment(
            packet.source, packet.destination, packet.fragment_protocol,
            packet.fragment_id)
        if owner is None:
            return None
        key, member = owner
        for service in self._tables.vip(packet.destination):
            if self._tables.key(service) == key:
                return service.index, service.protocol, service.port, member
        return None


class Sources(rate.Sources):
    """Reads from the simulation how many flows a source may open."""

    def __init__(self, knowledge):
        super().__init__()
        self._knowledge = knowledge

    def tokens(self, service, source, time_ms):
        return self._knowledge.tokens(service, source)

    def take(self, service, source):
        """Do nothing: the run in the simulation takes the token."""
