# SPDX-License-Identifier: Apache-2.0
"""Flow memory: flows are remembered while their slot is open."""

import collections
import dataclasses

from octavia_xdp_provider.tests.models.packet_model import ages
from octavia_xdp_provider.tests.models.packet_model import select
from octavia_xdp_provider.tests.models.packet_model import state

WAYS = 8
TIME_MASK = 0x3fff
UNIT_SHIFT = 30  # one unit of time is 2^30 ns
FLOW_SERVICE = 0x9e3779b97f4a7c15
AGE_MAX = 16000  # timestamps wrap soon after
PROTECTED = 2  # units during which no entry is evicted
ENDED_AGE = 30  # units during which last packets follow a flow's end
NAME_SHIFT = 28  # shift of the hash bits that an entry stores
SHARE = 0x3ff  # lowest bits of a name: those of the service's index


@dataclasses.dataclass
class Entry:
    name: int
    time: int
    confirmed: bool
    member: int
    ended: bool = False

    @property
    def share(self) -> int:
        return self.name & SHARE


class Memory:

    def __init__(self, node: state.Node):
        self.node = node
        self.sets: dict[int, list[Entry | None]] = {}

    def name(self, flow: tuple, service: state.Service) -> tuple[int, int]:
        """Return (set, the bits of the name that an entry stores)."""
        seeded = select.flow_hash(*flow, seed=self.node.seed)
        seeded ^= service.index * FLOW_SERVICE & select.MASK
        tag = select.flow_tag(seeded)
        return (tag & ((1 << NAME_SHIFT) - 1)) % self.node.flow_sets, (
            tag >> NAME_SHIFT & ~SHARE | service.index & SHARE)

    def ways(self, where: int) -> list[Entry | None]:
        return self.sets.setdefault(where, [None] * WAYS)


def _timeout(seconds: int) -> int:
    return min(seconds, AGE_MAX)


def _age(entry: Entry, time: int) -> int:
    return ages.since(entry.time, time, TIME_MASK, ages.AHEAD)


def find(memory: Memory, name, service: state.Service,
         time: int) -> Entry | None:
    """Return the entry of the flow unless it is outdated."""
    where, bits = name
    for entry in memory.ways(where):
        if entry is not None and entry.name == bits:
            if _age(entry, time) > _timeout(service.idle_timeout):
                return None
            return entry
    return None


def forget(memory: Memory, name):
    where, bits = name
    ways = memory.ways(where)
    for index, entry in enumerate(ways):
        if entry is not None and entry.name == bits:
            ways[index] = None


def _worth(entry: Entry | None, time: int, timeout: int) -> tuple[bool, int]:
    """Rate a place for another flow: (free, age).

    An empty place counts as an entry of time 0. This affects only which of
    several suitable places is taken, and so what is evicted later.
    """
    if entry is None:
        entry = Entry(0, 0, False, 0)
        free = True
    else:
        free = _age(entry, time) > timeout
    age = _age(entry, time)
    loose = (not entry.confirmed or entry.ended) and age > PROTECTED
    return free, age if loose else 0


def _loose(ways: list[Entry | None], time: int, timeout: int) -> int | None:
    """Return the best place that may be taken."""
    place, best = None, (False, 0)
    for index, entry in enumerate(ways):
        worth = _worth(entry, time, timeout)
        if worth > best:
            place, best = index, worth
    return place


def _outdated(ways: list[Entry | None], share: int, time: int,
              timeout: int) -> int | None:
    """Return the first entry of the share that is too old for its service."""
    return next((index for index, entry in enumerate(ways)
                 if entry is not None and entry.share == share
                 and _age(entry, time) > timeout), None)


def _crowded(ways: list[Entry | None], share: int, time: int) -> int | None:
    """Return the oldest entry of the largest share of a full set. That share
    must have at least two entries more than the flow's own, whose entries must
    all be confirmed."""
    entries = [entry for entry in ways if entry is not None]
    counts = collections.Counter(entry.share for entry in entries)
    if any(entry.share == share and not entry.confirmed
           for entry in entries):
        return None
    place, best = None, (0, 0)
    for index, entry in enumerate(entries):
        worth = counts[entry.share], _age(entry, time)
        if worth[0] > counts[share] + 1 and worth > best:
            place, best = index, worth
    return place


def remember(memory: Memory, name, member: int, time: int,
             idle_timeout: int) -> bool:
    where, bits = name
    ways = memory.ways(where)
    place = next((index for index, entry in enumerate(ways)
                  if entry is not None and entry.name == bits), None)
    if place is None:
        place = _loose(ways, time, max(
            _timeout(memory.node.idle_timeout_max), _timeout(idle_timeout)))
    if place is None:
        place = _outdated(ways, bits & SHARE, time, _timeout(idle_timeout))
    if place is None:
        place = _crowded(ways, bits & SHARE, time)
    if place is None:
        return False
    ways[place] = Entry(bits, time & TIME_MASK, False, member)
    return True


def _go_on(entry: Entry, time: int, ends: bool):
    """Update the entry for a packet of its flow."""
    age = _age(entry, time)
    if age > ENDED_AGE if entry.ended else age > 1 or ends:
        entry.time = time & TIME_MASK
        entry.ended = False
    entry.confirmed = True
    entry.ended = entry.ended or ends


def _keeps(service: state.Service, index: int) -> bool:
    member = service.members.get(index)
    return member is not None and member.keeps_flows


def _takes(service: state.Service, index: int) -> bool:
    member = service.members.get(index)
    return member is not None and member.takes_flows


def choose(memory: Memory, service: state.Service, flow: tuple,
           slot: select.Slot, protocol: int, opens: bool, ends: bool,
           time: int) -> tuple[int, bool]:
    """Return the member for an open slot, and whether the memory was full."""
    name = memory.name(flow, service)
    entry = find(memory, name, service, time)
    if entry is not None and not _keeps(service, entry.member):
        entry = None
    opens = opens and not service.by_source
    if entry is not None and not opens:
        _go_on(entry, time, ends and not service.by_source)
        return entry.member, False
    if opens and entry is not None and _takes(service, entry.member):
        # Opened before, and not answered yet.
        return entry.member, False
    if opens:
        return _new(memory, name, service, slot, time)
    return _old(memory, name, service, slot, protocol, time), False


def _new(memory: Memory, name, service: state.Service, slot: select.Slot,
         time: int) -> tuple[int, bool]:
    """Return (member, whether the memory was full) for a new flow."""
    if slot.before == slot.now:
        forget(memory, name)
    elif slot.now != state.NOBODY and not remember(
            memory, name, slot.now, time, service.idle_timeout):
        old = stays(service, slot)
        return slot.now if can_name(service, old, slot.now) else old, True
    return slot.now, False


def can_name(service: state.Service, wanted: int, other: int) -> bool:
    """Whether a packet to member `wanted` can name `other` as its alternative:
    `other` keeps flows and takes packets of the same form."""
    if not service.second_chance or wanted == other or not _keeps(service,
                                                                  other):
        return False
    first, second = service.members.get(wanted), service.members[other]
    return (first is not None and bool(first.alternative) and
            first.outer_type == second.outer_type and
            bool(first.tunnel) == bool(second.tunnel) and
            first.written_port == second.written_port)


def alternative(service: state.Service, slot: select.Slot,
                taken: int) -> int | None:
    """Return the member other than `taken` that may have the flow, if a packet
    that opens no flow can name it."""
    if slot.before is None:
        return None
    other = slot.now if taken == slot.before else slot.before
    return other if can_name(service, taken, other) else None


def stays(service: state.Service, slot: select.Slot) -> int:
    """Return the member of flows older than the slot's last change."""
    return slot.before if _keeps(service, slot.before) else slot.now


def _old(memory: Memory, name, service: state.Service, slot: select.Slot,
         protocol: int, time: int) -> int:
    """Return the member of a running flow that is not remembered."""
    if protocol != state.UDP and not service.by_source:
        return stays(service, slot)  # older than the change
    if not service.learning:
        return slot.now
    member = stays(service, slot)
    if member != slot.now:
        remember(memory, name, member, time, service.idle_timeout)
    return member
