# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of the hypervisor's library.

Ports and keys are numbers, times are seconds, MACs and addresses are text.
"""

import enum
import typing

from octavia_xdp_provider.contracts import enumerations

PROTOCOLS = {'tcp': 6, 'udp': 17, 'sctp': 132}
PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}


class Hook(enum.IntEnum):
    """Where a program is attached: enum oxh_hook."""

    NIC = 0
    TAP_IN = 1
    TAP_OUT = 2


class Table(enum.IntEnum):
    """A table of flows: enum oxh_table."""

    CONFIRMED = 0
    HALF_OPEN = 1


class Sizes(typing.NamedTuple):
    """Sizes of maps; 0 selects the library's default."""

    entries: int = 0
    ports: int = 0
    flows: int = 0
    half_open: int = 0


class Settings(typing.NamedTuple):
    reply_ifindex: int = 0
    local_v4: str | None = None
    local_v6: str | None = None
    sid: str | None = None  # first address of the hypervisor's /96
    tcp_idle: int = 0
    udp_idle: int = 0
    closing_idle: int = 0
    half_open_idle: int = 0


class Rule(typing.NamedTuple):
    """Admits a network or an address set to ports of a protocol."""

    family: int = 4
    protocol: str | None = None
    ports: tuple[int, int] = (0, 65535)
    remote: str | None = None
    address_set: int = 0


class Program(typing.NamedTuple):
    """A pinned program. ``attached``: it is attached to the interface;
    ``current``: it comes from the loaded library."""

    hook: Hook
    ifindex: int
    attached: bool
    current: bool


class Port(typing.NamedTuple):
    id: str
    ifindex: int = 0
    open: bool = False
    flows_max: int = 0


class PortState(typing.NamedTuple):
    id: str
    ifindex: int
    open: bool
    flows_max: int
    flows: int
    rules: int


class Entry(typing.NamedTuple):
    key: int
    port_id: str
    vip: str
    vip_port: int
    fixed: str
    port: int
    protocol: str
    mac: str
    gateway_mac: str
    mss: int = 0


class EntryState(typing.NamedTuple):
    entry: Entry
    packets_in: int
    bytes_in: int
    packets_out: int
    bytes_out: int
    flows: int
    drops: int


class Flow(typing.NamedTuple):
    """``direct``: packets reached the member outside a tunnel while the VM
    arrived; ``outdated``: rules have changed since the flow was checked."""

    client: str
    client_port: int
    key: int
    port_id: str
    idle: int
    answered: bool
    closing: bool
    direct: bool
    outdated: bool


class KnownFlow(typing.NamedTuple):
    """A flow that began on another hypervisor."""

    key: int
    client: str
    client_port: int
    closing: bool = False


class Frame(typing.NamedTuple):
    """The result of a program. ``action``: None if it left the frame alone."""

    action: int | None
    data: bytes
    mark: int
    duration: int  # run time of the program, ns


class Traced(typing.NamedTuple):
    """A packet that a program has handled. ``time``: ns, monotonic; ``key``:
    0 if none; ``length``: bytes of the frame; ``data``: its first bytes, as
    they left the program."""

    time: int
    hook: Hook
    outcome: enumerations.HostOutcome
    ifindex: int
    key: int
    length: int
    data: bytes
