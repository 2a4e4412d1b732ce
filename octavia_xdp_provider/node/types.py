# SPDX-License-Identifier: Apache-2.0
"""Plain values for the calls of the datapath and their results.

They mirror the structures of octavia_xdp.h, which documents them in full.
Addresses and networks are str in the canonical form of ``ipaddress``.
"""

import enum
import typing

from octavia_xdp_provider.contracts import enumerations

PROTOCOLS = {'TCP': 6, 'UDP': 17, 'SCTP': 132}
PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}


Outcome = enumerations.Outcome
ProbeOutcome = enumerations.ProbeOutcome
Encapsulation = enumerations.Encapsulation
Decision = enumerations.Decision


class NodeFlag(enum.IntFlag):
    """How the whole node treats packets: enum oxp_node_flag."""

    ECHO = 1
    CLAMP_MSS = 2
    PASS_TOO_BIG = 4
    FIB = 8


class ServiceFlag(enum.IntFlag):
    """How a service selects members: enum oxp_service_flag."""

    SOURCE = 1
    QUIC = 2
    SECOND_CHANCE = 4
    NAT = 8
    RESET = 16


class Key(typing.NamedTuple):
    """Identifies a service."""

    address: str
    protocol: str
    port: int


class Settings(typing.NamedTuple):
    """How a service treats packets. 0 stands for the library's default.

    ``allowed``: networks of allowed clients; None allows all.
    """

    slots: int = 0
    flags: ServiceFlag = ServiceFlag(0)
    encapsulation: Encapsulation = Encapsulation.IPIP
    dscp: int = 0
    sid_function: int = 0
    source_length_v4: int = 0
    source_length_v6: int = 0
    idle_timeout_s: int = 0
    new_flow_rate: int = 0
    new_flow_burst: int = 0
    allowed: tuple[str, ...] | None = None
    nat_flows: int = 0
    nat_group: int = 0
    connection_limit: int = 0


class MemberName(typing.NamedTuple):
    """Identifies a member of a service.

    ``port``: replaces the service's port in packets; 0: no change.
    """

    address: str
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return self.address
        if ':' in self.address:
            return f'[{self.address}]:{self.port}'
        return f'{self.address}:{self.port}'


class Tunnel(typing.NamedTuple):
    """How packets reach a member that they do not address themselves.

    ``address``: destination of the outer header. ``key``: see struct
    oxp_tunnel; 0: none. ``keeps_port``: the member's port only identifies it
    and is not written to packets. ``takes_alternative``: the end of the tunnel
    accepts packets that name an alternative member.
    """

    address: str
    encapsulation: Encapsulation
    key: int = 0
    keeps_port: bool = False
    takes_alternative: bool = False


class Member(typing.NamedTuple):
    """A wanted member. ``check`` 0: not monitored. ``mtu`` 0: the uplink's.

    ``port``: as in MemberName. ``tunnel``: None for the service's
    encapsulation to the member's own address.
    """

    address: str
    weight: int = 1
    check: int = 0
    admin_up: bool = True
    backup: bool = False
    mtu: int = 0
    port: int = 0
    tunnel: Tunnel | None = None


class Counters(typing.NamedTuple):
    packets: int
    bytes: int
    flows: int


class OutcomeCounters(typing.NamedTuple):
    """``bytes``: of frames as received, Ethernet header included."""

    packets: int
    bytes: int


class MemberState(typing.NamedTuple):
    """A member in the tables."""

    address: str
    weight: int
    check: int
    admin_up: bool
    healthy: bool
    known: bool
    counters: Counters
    backup: bool = False
    mtu: int = 0
    takes_flows: bool = False
    index: int = 0  # type: ignore[assignment]
    quic_server_id: int = 0
    port: int = 0
    tunnel: Tunnel | None = None

    @property
    def name(self) -> MemberName:
        return MemberName(self.address, self.port)


class Fault(typing.NamedTuple):
    """An inconsistency in the tables.

    ``key``: the service, or None if no single service is affected.
    """

    key: Key | None
    text: str


class Service(typing.NamedTuple):
    """A service in the tables; its settings are without ``allowed``.

    ``drops``: packets for it that were dropped, for any reason. ``active``:
    live flows, counted or estimated. ``reply_packets``, ``reply_bytes``: sent
    to clients by NAT. ``open_connections``: connections that count towards
    the ``connection_limit``, if there is one. ``flow_table_full``: packets
    that began a flow for which the flow table had no place.
    """

    key: Key
    index: int  # type: ignore[assignment]
    slots: int
    members: int
    enabled: int
    generation: int
    counters: Counters
    open_slots: int = 0
    settings: Settings = Settings()
    drops: int = 0
    active: int = 0
    reply_packets: int = 0
    reply_bytes: int = 0
    open_connections: int = 0
    flow_table_full: int = 0


class NatState(enum.IntEnum):
    """The state of a flow by NAT: enum oxp_nat_state."""

    HALF_OPEN = 2
    ESTABLISHED = 3
    TIME_WAIT = 4


class NatFlow(typing.NamedTuple):
    """A flow by NAT. Its member's packets go to ``pool`` and ``pool_port``.

    ``idle``: seconds since its last packet. ``expires``: seconds until it
    ends, unless it has another packet.
    """

    service: Key
    client: str
    client_port: int
    pool: str
    pool_port: int
    member: str
    member_port: int
    state: NatState
    idle: int
    expires: int


class NatTimeouts(typing.NamedTuple):
    """Idle timeouts in seconds of flows by NAT that are not established:
    struct oxp_nat_timeouts."""

    tcp_opening: int
    tcp_closing: int
    time_wait: int
    udp_opening: int


class NatUsage(typing.NamedTuple):
    """Number of addresses, ports and flows of the node's pools."""

    addresses_v4: int
    addresses_v6: int
    ports: int
    half_open: int
    established: int
    time_wait: int


class Summary(typing.NamedTuple):
    """The fields of a service that show whether anything has changed.

    ``version``: changes with its table and its members' states. ``bytes``,
    ``flows``, ``packets``: its counters. ``drops``: packets that are not among
    these. ``active``: live flows. ``reply_bytes``: sent to clients by NAT.
    ``second_chance``: whether packets name the other member of open slots.
    ``slots``: size of its table. ``flow_table_full``: packets that began a
    flow for which the flow table had no place.
    """

    version: tuple[int, int, int]
    enabled: int
    bytes: int = 0
    flows: int = 0
    drops: int = 0
    active: int = 0
    packets: int = 0
    reply_bytes: int = 0
    open_slots: int = 0
    second_chance: bool = False
    slots: int = 0
    flow_table_full: int = 0


class Info(typing.NamedTuple):
    layout: int
    services_max: int
    members_max: int
    slots_max: int
    flows_max: int
    services: int
    members: int
    map_bytes: int


class ProbeTarget(typing.NamedTuple):
    """How probes to a VIP reach one of its members.

    ``is_token``: packets to ``vip`` that have no mark go there as well.
    """

    vip: str
    member: str
    encapsulation: Encapsulation = Encapsulation.IPIP
    dscp: int = 0
    sid_function: int = 0
    port: int = 0
    tunnel: Tunnel | None = None
    is_token: bool = False


class Uplink(typing.NamedTuple):
    """An interface by which packets leave the node.

    ``ifindex``: of the device that the program runs on, below any VLAN.
    ``mtu``: greatest IP packet in bytes. ``vlans``: tags, outermost first.
    ``next_hop_mac_…``: None if the uplink has no usable next hop of that
    family.
    """

    ifindex: int
    mtu: int
    own_mac: str | None
    next_hop_mac_v4: str | None = None
    next_hop_mac_v6: str | None = None
    vlans: tuple[int, ...] = ()


class NodeSettings(typing.NamedTuple):
    """Settings for all services of the node."""

    source_v4: str | None = None
    source_v6: str | None = None
    entropy_v4: int = 0
    entropy_v6: int = 0
    flags: NodeFlag = NodeFlag(0)
    icmp_rate: int = 0
