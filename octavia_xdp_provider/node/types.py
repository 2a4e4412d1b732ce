# SPDX-License-Identifier: Apache-2.0
"""What goes into the datapath and comes out of it, as plain values.

They mirror the structures of octavia_xdp.h, which says what they mean in
full. Addresses and networks are texts, in the form that ``ipaddress`` gives
them.
"""

import enum
import typing

from octavia_xdp_provider.common import enumerations

PROTOCOLS = {'TCP': 6, 'UDP': 17, 'SCTP': 132}
PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}


Outcome = enumerations.Outcome
ProbeOutcome = enumerations.ProbeOutcome
Encapsulation = enumerations.Encapsulation


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
    """Name of a service."""

    address: str
    protocol: str
    port: int


class Settings(typing.NamedTuple):
    """How a service treats packets. 0 is the library's default.

    ``allowed``: networks of clients, or None for everybody.
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
    allowed: tuple | None = None
    nat_flows: int = 0
    nat_group: int = 0
    connection_limit: int = 0


class MemberName(typing.NamedTuple):
    """What distinguishes the members of a service.

    ``port``: takes the place of the service's in packets, or 0: that stays.
    """

    address: str
    port: int = 0

    def __str__(self):
        if not self.port:
            return self.address
        if ':' in self.address:
            return f'[{self.address}]:{self.port}'
        return f'{self.address}:{self.port}'


class Tunnel(typing.NamedTuple):
    """How packets get to a member whose address they do not name.

    ``address``: destination of the outer header. ``key``: struct oxp_tunnel
    says what it is; 0: none. ``keeps_port``: the member's port is a part of
    its name, and not written. ``takes_alternative``: what is at the end takes
    packets that name an alternative.
    """

    address: str
    encapsulation: Encapsulation
    key: int = 0
    keeps_port: bool = False
    takes_alternative: bool = False


class Member(typing.NamedTuple):
    """A wanted member; check 0: not monitored, mtu 0: the uplink's.

    ``port``: as in MemberName. ``tunnel``: None for the service's
    encapsulation, to the member's own address.
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
    """Bytes of frames as they came in, from the Ethernet header on."""

    packets: int
    bytes: int


class MemberState(typing.NamedTuple):
    """A member as the tables have it."""

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
    index: int = 0
    quic_server_id: int = 0
    port: int = 0
    tunnel: Tunnel | None = None

    @property
    def name(self) -> MemberName:
        return MemberName(self.address, self.port)


class Fault(typing.NamedTuple):
    """Something wrong in the tables.

    ``key`` is None if it is about no single service.
    """

    key: Key | None
    text: str


class Service(typing.NamedTuple):
    """A service as the tables have it; its settings without ``allowed``.

    ``drops``: packets for it that were dropped, whatever for. ``active``:
    flows that are alive, counted or estimated. ``reply_packets``,
    ``reply_bytes``: of NAT, what clients were sent. ``open_connections``: of a
    service with a ``connection_limit``, what counts for it now.
    """

    key: Key
    index: int
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


class NatState(enum.IntEnum):
    """Of a flow: enum oxp_nat_state."""

    HALF_OPEN = 2
    ESTABLISHED = 3
    TIME_WAIT = 4


class NatFlow(typing.NamedTuple):
    """A flow of NAT: what the client has, and what the member sees.

    ``idle``, ``expires``: seconds since its last packet, and until it ends
    without another one.
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
    """Seconds without a packet after which flows of NAT end that are not
    established: struct oxp_nat_timeouts, without the units."""

    tcp_opening: int
    tcp_closing: int
    time_wait: int
    udp_opening: int


class NatUsage(typing.NamedTuple):
    """Addresses, ports and flows of the node's pools."""

    addresses_v4: int
    addresses_v6: int
    ports: int
    half_open: int
    established: int
    time_wait: int


class Summary(typing.NamedTuple):
    """As much of a service as shows whether anything has changed.

    ``version``: another one whenever its table or a member's state is.
    ``bytes``, ``flows``, ``packets``: of its counters. ``drops``: packets that
    are not among these. ``active``: flows that are alive. ``reply_bytes``: of
    NAT, what clients were sent. ``second_chance``: whether packets name the
    other member of open slots. ``slots``: of its table.
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
    """How probes to a VIP reach one of its members."""

    vip: str
    member: str
    encapsulation: Encapsulation = Encapsulation.IPIP
    dscp: int = 0
    sid_function: int = 0
    port: int = 0
    tunnel: Tunnel | None = None


class Uplink(typing.NamedTuple):
    """Where packets leave the node.

    ``ifindex``: of the device that the program runs on, below any VLAN.
    ``mtu``: bytes of the greatest IP packet. ``vlans``: tags, the outermost
    first. A next hop without a MAC address is None: the uplink carries
    nothing of that family.
    """

    ifindex: int
    mtu: int
    own_mac: str
    next_hop_mac_v4: str | None = None
    next_hop_mac_v6: str | None = None
    vlans: tuple = ()


class NodeSettings(typing.NamedTuple):
    """What holds for all services of the node."""

    source_v4: str | None = None
    source_v6: str | None = None
    entropy_v4: int = 0
    entropy_v6: int = 0
    flags: NodeFlag = NodeFlag(0)
    icmp_rate: int = 0
