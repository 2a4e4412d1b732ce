# SPDX-License-Identifier: Apache-2.0
"""The datapath as inspected by the operator's tools.

Nothing here changes forwarding: programs run on copies, or only observe.
"""

from collections.abc import Iterable
import errno
import typing
from typing import Any

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.node import library as oxp
from octavia_xdp_provider.node import types
from octavia_xdp_provider.node.datapath import Datapath
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.process import shared_library


class Program(typing.NamedTuple):
    """The program of an interface; ``loaded_ns`` is since boot."""

    ifindex: int
    id: int
    tag: str
    name: str
    loaded_ns: int
    runs: int
    run_time_ns: int


class Choices(typing.NamedTuple):
    """The uplink of a flow by the family of the outer packet and the top six
    bits of its entropy; None: no uplink."""

    v4: tuple[int | None, ...]
    v6: tuple[int | None, ...]

    def of(self, version: int, entropy: int) -> int | None:
        return (self.v6 if version == 6 else self.v4)[entropy >> 26]


class Decided(typing.NamedTuple):
    """A decision on a packet; ``arguments`` by the names that enumerations.h
    gives them."""

    kind: types.Decision
    arguments: dict[str, int]


def decided(kind: int, arguments: Iterable[int]) -> Decided:
    """Return a decision, with its arguments by position."""
    kind = types.Decision(kind)
    return Decided(kind, dict(zip(enumerations.ARGUMENTS[kind], arguments,
                                  strict=False)))


class Run(typing.NamedTuple):
    """``outcomes``: Outcome → count without zeroes; PASS and FORWARDED are
    not counted. ``decisions``: in their order."""

    action: int
    frame: bytes
    outcomes: dict[types.Outcome, int]
    decisions: tuple[Decided, ...] = ()


class PacketCopy(typing.NamedTuple):
    """A traced packet as received, or as the program left it (`out`); see
    struct oxp_trace_packet."""

    time_ns: int
    number: int
    ifindex: int
    queue: int
    length: int
    action: int
    out: bool
    data: bytes


def _mac_text(packed: Any) -> str | None:
    mac = bytes(packed)
    return mac.hex(':') if any(mac) else None


class Inspection(Datapath):
    """The datapath with methods for inspection."""

    def node_settings(self) -> types.NodeSettings:
        out = self._ffi.new('struct oxp_node_settings *')
        self._call('oxp_node_settings_get', out)
        return types.NodeSettings(
            shared_library.text_or_none(out.source_v4),
            shared_library.text_or_none(out.source_v6),
            out.entropy_v4, out.entropy_v6, types.NodeFlag(out.flags),
            out.icmp_rate)

    def uplinks(self) -> tuple[list[types.Uplink], Choices]:
        out = self._ffi.new('struct oxp_uplink[]', self._api.OXP_UPLINKS_MAX)
        choices = self._ffi.new('struct oxp_choices *')
        count = self._call('oxp_uplinks_list', out, len(out), choices)
        return [types.Uplink(
            uplink.ifindex, uplink.mtu, _mac_text(uplink.own_mac),
            _mac_text(uplink.next_hop_mac_v4),
            _mac_text(uplink.next_hop_mac_v6),
            tuple(uplink.vlan[0:uplink.vlans])) for uplink in out[0:count]
            ], Choices(*(tuple(
                None if choice == self._api.OXP_NO_CHOICE else choice
                for choice in family) for family in (choices.v4, choices.v6)))

    def programs(self) -> list[Program]:
        out, count = self._array('oxp_programs_list', 'struct oxp_program')
        return sorted(Program(
            program.ifindex, program.id, bytes(program.tag).hex(),
            self._ffi.string(program.name).decode(errors='replace'),
            program.loaded_ns, program.runs, program.run_time_ns)
            for program in out[0:count])

    def sample(self) -> 'Sample':
        """Read the counters of all services at once."""
        out, count = self._array('oxp_services_list', 'struct oxp_service',
                                 guess=getattr(self, '_services_seen', 64))
        self._services_seen = count + 64
        return Sample(self._ffi, out, count)

    def simulation(self) -> 'Simulation':
        return Simulation(self)

    def trace(self, vip: str, *, every: int = 1, snaplen_bytes: int = 0,
              buffer_bytes: int = 0) -> 'Trace':
        return Trace(self, vip, every, snaplen_bytes, buffer_bytes)


class Sample:
    """Counters of all services at one time.

    To avoid an object for each of thousands of services, columns are read as
    arrays of numbers, and only displayed services become Service objects.
    """

    def __init__(self, ffi: Any, out: Any, count: int) -> None:
        self._out = out
        self.count = count
        words = ffi.sizeof('struct oxp_service') // 8
        raw = bytes(ffi.buffer(out, count * words * 8)) if count else b''
        memory = memoryview(raw).cast('Q')

        def column(*fields: str) -> list[int]:
            offset = sum(ffi.offsetof(*place) for place in zip(
                ('struct oxp_service', 'struct oxp_counters'), fields,
                strict=False))
            return memory[offset // 8::words].tolist()

        self.packets = column('counters', 'packets')
        self.bytes = column('counters', 'bytes')
        self.flows = column('counters', 'flows')
        # The bytes of the key identify a service across samples.
        size = ffi.sizeof('struct oxp_key')
        self.names = [raw[start:start + size]
                      for start in range(0, len(raw), words * 8)]

    def service(self, position: int) -> types.Service:
        return oxp.service_of(self._out[position])


class _Handle:
    """An object that the library has opened for a node; closed only once.

    ``_close_name``: the library's function that closes it.
    """

    _close_name: str

    def __init__(self, node: 'Inspection') -> None:
        self._node = node
        self._ffi = node._ffi
        self._handle: Any = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            getattr(self._node._api, self._close_name)(handle)


class Simulation(_Handle):
    """Runs the program, with a record of its decisions, on copies of the state
    that packets change."""

    _close_name = 'oxp_simulation_close'

    def __init__(self, node: Inspection):
        super().__init__(node)
        out = self._ffi.new('struct oxp_simulation **')
        tag = self._ffi.new('uint8_t[8]')
        node._call('oxp_simulation_open', out, tag)
        self._handle = out[0]
        self.tag = bytes(tag).hex()

    def _call(self, name: str, *arguments: Any) -> int:
        error = self._node._error
        error[0] = b'\0'
        return self._node._check(getattr(self._node._api, name)(
            self._handle, *arguments, error))

    def run(self, frame: bytes, ifindex: int) -> Run:
        size = self._node._api.OXP_FRAME_MAX + 256
        data = self._ffi.from_buffer('uint8_t[]', frame)
        out = self._ffi.new('uint8_t[]', size)
        entry = self._ffi.new('struct oxp_frame *', {
            'data': data, 'length': len(frame), 'ifindex': ifindex,
            'out': out, 'capacity': size})
        counts = self._ffi.new('uint64_t[]', self._node._api.OXP_OUTCOMES)
        self._call('oxp_simulation_run', entry, counts)
        return Run(entry.action,
                   bytes(self._ffi.buffer(out, entry.out_length)),
                   {types.Outcome(index): count
                    for index, count in enumerate(counts) if count},
                   self._decisions())

    def _decisions(self) -> tuple[Decided, ...]:
        out = self._ffi.new('struct oxp_decision[]',
                            self._node._api.OXP_DECISIONS_MAX)
        count = self._call('oxp_simulation_decisions_get', out)
        return tuple(decided(entry.kind, entry.argument)
                     for entry in out[0:count])


class Trace(_Handle):
    """Captures packets of a VIP on receipt and as they leave."""

    ROOM = 1 << 20
    _close_name = 'oxp_trace_close'

    def __init__(self, node: Inspection, vip: str, every: int,
                 snaplen_bytes: int, buffer_bytes: int) -> None:
        super().__init__(node)
        options = self._ffi.new('struct oxp_trace_options *', {
            'every': every, 'snaplen_bytes': snaplen_bytes,
            'buffer_bytes': buffer_bytes})
        options.vip = node.library.address(vip)[0]
        out = self._ffi.new('struct oxp_trace **')
        node._call('oxp_trace_open', options, out)
        self._handle = out[0]
        self._out = self._ffi.new('uint8_t[]', self.ROOM)
        self._header = self._ffi.sizeof('struct oxp_trace_packet')

    @property
    def lost(self) -> int:
        """The number of copies for which the buffer had no room."""
        return int(self._node._api.oxp_trace_lost_get(self._handle))

    def read(self, timeout_s: float) -> list[PacketCopy]:
        """Return traced packets; wait for them at most `timeout_s`."""
        error = self._node._error
        error[0] = b'\0'
        try:
            length = self._node._check(self._node._api.oxp_trace_read(
                self._handle, self._out, self.ROOM, int(timeout_s * 1000),
                error))
        except DatapathError as failure:
            if failure.errno == errno.EINTR:
                return []
            raise
        raw = bytes(self._ffi.buffer(self._out, length))
        copies, start = [], 0
        while start < length:
            head = self._ffi.cast('struct oxp_trace_packet *',
                                  self._out + start)
            data = start + self._header
            copies.append(PacketCopy(
                head.time_ns, head.number, head.ifindex, head.queue,
                head.length, head.action, bool(head.out),
                raw[data:data + head.captured]))
            start = (data + head.captured + 7) & ~7
        return copies
