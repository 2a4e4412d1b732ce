# SPDX-License-Identifier: Apache-2.0
"""Flows that are remembered while their slot is open."""

import dataclasses

from octavia_xdp_provider.packet_model import select
from octavia_xdp_provider.packet_model import state

WAYS = 8
TIME_MASK = 0x3fff
UNIT_SHIFT = 30  # time is in units of 2^30 ns
FLOW_SERVICE = 0x9e3779b97f4a7c15
AGE_MAX = 16000  # times wrap soon after
PROTECTED = 2  # units in which nothing gives way


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
        return (tag & 0xffffff) % self.node.flow_sets, tag >> 24

    def ways(self, where: int) -> list[Entry | None]:
        return self.sets.setdefault(where, [None] * WAYS)


def _timeout(seconds: int) -> int:
    return min(seconds, AGE_MAX)


def _age(entry: Entry, time: int) -> int:
    return (time - entry.time) & TIME_MASK


def find(memory: Memory, name, service: state.Service,
         time: int) -> Entry | None:
    """The entry of the flow, if it still says anything."""
    where, tag = name
    for entry in memory.ways(where):
        if entry is not None and entry.tag == tag:
            if _age(entry, time) > _timeout(service.idle_timeout):
                return None
            member = service.members.get(entry.member)
            if member is None or not member.keeps_flows:
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
    good places is taken, and so to what gives way later on.
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


def choose(memory: Memory, service: state.Service, flow: tuple, slot: int,
           protocol: int, opens: bool, time: int) -> tuple[int, bool]:
    """The member of an open slot, and whether the memory was full."""
    now, before = service.now[slot], service.before[slot]
    stays = before if _keeps(service, before) else now
    name = memory.name(flow, service)
    entry = find(memory, name, service, time)
    if service.by_source:
        opens = False
    if entry is not None and not opens:
        entry.confirmed = True
        if _age(entry, time) > 1:
            entry.time = time & TIME_MASK
        return entry.member, False
    if opens:
        if entry is not None and _takes(service, entry.member):
            return entry.member, False
        if before == now:
            forget(memory, name)
            return now, False
        if now == state.NOBODY:
            return now, False
        if remember(memory, name, now, time):
            return now, False
        return (before if _takes(service, before) else now), True
    if protocol == state.UDP or service.by_source:
        if not service.learning:
            return now, False
        if stays != now:
            remember(memory, name, stays, time)
        return stays, False
    return stays, False
