# SPDX-License-Identifier: Apache-2.0
"""Flows that are remembered while their slot is open."""

import dataclasses

from octavia_xdp_provider.packet_model import observer
from octavia_xdp_provider.packet_model import select
from octavia_xdp_provider.packet_model import state

WAYS = 8
TIME_MASK = 0x3fff
UNIT_SHIFT = 30  # time is in units of 2^30 ns
FLOW_SERVICE = 0x9e3779b97f4a7c15
AGE_MAX = 16000  # times wrap soon after
PROTECTED = 2  # units in which no entry is evicted


@dataclasses.dataclass
class Entry:
    tag: int
    time: int
    confirmed: bool
    member: int


class Memory:

    def __init__(self, node: state.Node):
        self.node = node
        self.sets: dict[int, list[Entry | None]] = {}

    def name(self, flow: tuple, service: state.Service) -> tuple[int, int]:
        """(set, tag)"""
        seeded = select.flow_hash(*flow, seed=self.node.seed)
        seeded ^= service.index * FLOW_SERVICE & select.MASK
        tag = select.flow_tag(seeded)
        return (tag & 0x7ffffff) % self.node.flow_sets, tag >> 27

    def ways(self, where: int) -> list[Entry | None]:
        return self.sets.setdefault(where, [None] * WAYS)


def _timeout(seconds: int) -> int:
    return min(seconds, AGE_MAX)


def _age(entry: Entry, time: int) -> int:
    return (time - entry.time) & TIME_MASK


def find(memory: Memory, name, service: state.Service,
         time: int) -> Entry | None:
    """The entry of the flow, if it is not outdated."""
    where, tag = name
    for entry in memory.ways(where):
        if entry is not None and entry.tag == tag:
            if _age(entry, time) > _timeout(service.idle_timeout):
                return None
            return entry
    return None


def forget(memory: Memory, name):
    where, tag = name
    ways = memory.ways(where)
    for index, entry in enumerate(ways):
        if entry is not None and entry.tag == tag:
            ways[index] = None


def _worth(entry: Entry | None, time: int, timeout: int) -> tuple[bool, int]:
    """How well the place does for another flow: (free, age).

    A free place is like one of time 0; it matters only to which of several
    good places is taken, and so to what is evicted later on.
    """
    if entry is None:
        entry = Entry(0, 0, False, 0)
        free = True
    else:
        free = _age(entry, time) > timeout
    age = _age(entry, time)
    loose = not entry.confirmed and age > PROTECTED
    return free, age if loose else 0


def remember(memory: Memory, name, member: int, time: int) -> bool:
    where, tag = name
    ways = memory.ways(where)
    place = None
    for index, entry in enumerate(ways):
        if entry is not None and entry.tag == tag:
            place = index
            break
    if place is None:
        timeout = _timeout(memory.node.idle_timeout_max)
        best = (False, 0)
        for index, entry in enumerate(ways):
            worth = _worth(entry, time, timeout)
            if worth > best:
                place, best = index, worth
    if place is None:
        return False
    ways[place] = Entry(tag, time & TIME_MASK, False, member)
    return True


def _keeps(service: state.Service, member: int) -> bool:
    one = service.members.get(member)
    return one is not None and one.keeps_flows


def _takes(service: state.Service, member: int) -> bool:
    one = service.members.get(member)
    return one is not None and one.takes_flows


def choose(memory: Memory, service: state.Service, flow: tuple,
           slot: select.Slot, protocol: int, opens: bool, time: int,
           watch: observer.Observer) -> tuple[int, bool]:
    """The member of an open slot, and whether the memory was full."""
    name = memory.name(flow, service)
    entry = find(memory, name, service, time)
    watch.remembered(service, entry,
                     0 if entry is None else _age(entry, time))
    if entry is not None and not _keeps(service, entry.member):
        entry = None
    opens = opens and not service.by_source
    full = False
    if entry is not None and not opens:
        entry.confirmed = True
        if _age(entry, time) > 1:
            entry.time = time & TIME_MASK
        member, why = entry.member, 'remembered'
    elif opens and entry is not None and _takes(service, entry.member):
        member, why = entry.member, 'opened before, and not answered yet'
    elif opens:
        member, why, full = _new(memory, name, service, slot, time)
    else:
        member, why = _old(memory, name, service, slot, protocol, time)
    watch.choice(service, member, why)
    return member, full


def _new(memory: Memory, name, service: state.Service, slot: select.Slot,
         time: int) -> tuple[int, str, bool]:
    """(member, why, whether the memory was full) of a flow that begins."""
    if slot.before == slot.now:
        forget(memory, name)
    elif slot.now != state.NOBODY and not remember(memory, name, slot.now,
                                                   time):
        if not service.second_chance and _takes(service, slot.before):
            return slot.before, 'a new flow, which cannot be remembered', True
        return slot.now, 'a new flow, which cannot be remembered', True
    return slot.now, 'a new flow', False


def can_name(service: state.Service, one: int, other: int) -> bool:
    """Whether a packet to `one` can name `other`, who may have its flow, and
    would get the same packet."""
    if not service.second_chance or one == other or not _keeps(service,
                                                               other):
        return False
    first, second = service.members.get(one), service.members[other]
    return (first is not None and bool(first.alternative) and
            first.outer_type == second.outer_type and
            bool(first.tunnel) == bool(second.tunnel) and
            first.written_port == second.written_port)


def alternative(service: state.Service, slot: select.Slot,
                taken: int) -> int | None:
    """Who else may have a flow that goes to `taken`, if a packet that opens
    nothing can name it."""
    if slot.before is None:
        return None
    other = slot.now if taken == slot.before else slot.before
    return other if can_name(service, taken, other) else None


def stays(service: state.Service, slot: select.Slot) -> int:
    """Who has flows that are older than the slot's last change."""
    return slot.before if _keeps(service, slot.before) else slot.now


def _old(memory: Memory, name, service: state.Service, slot: select.Slot,
         protocol: int, time: int) -> tuple[int, str]:
    """(member, why) of a flow that began, and is not remembered."""
    if protocol != state.UDP and not service.by_source:
        return (stays(service, slot),
                'not remembered, so older than the change')
    if not service.learning:
        return slot.now, 'not remembered, so new'
    member = stays(service, slot)
    if member != slot.now:
        remember(memory, name, member, time)
    return member, 'flows are still being learnt'
