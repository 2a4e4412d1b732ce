# SPDX-License-Identifier: Apache-2.0
"""Payloads of the calls between nodes and controllers (contracts/rpc.py)."""

from typing import Annotated
from typing import Any
from typing import Literal

import pydantic
from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import shape

# Pages: no message grows with the number of load balancers.
DOCUMENTS_PAGE = 100
DOCUMENTS_PAGE_BYTES = 1 << 20
# Of one document; a page holds at least one. oslo.messaging's encoding adds
# at most half of its size, and the result must fit into a node's queue
# (controller/broker.py).
DOCUMENT_BYTES_MAX = 10 << 20
COMPARE_PAGE = 2000
BUNDLES_PAGE = 100
REPORT_PAGE = 200
REPORT_PAGE_MEMBERS = 8192
# Characters of a text in a report; bytes of its state, as JSON.
TEXT_MAX = 2000
STATE_BYTES_MAX = 1 << 16
# Addresses and pools that a node reports.
NODE_ADDRESSES_MAX = 64
NAT_POOLS_MAX = 512
# Load balancers that a node reports as those with the most open slots.
OPEN_SLOTS_MAX = 100
# LB nodes that forward NAT packets to each other (OXP_NAT_PEERS_MAX).
NAT_PEERS_MAX = 16
# Projects that a node reports as those with the most NAT flows.
NAT_PROJECTS_MAX = 50

# Names that a node reports of its processes: the one that updates tables by
# health, and the BGP speaker.
RESULT_HANDLER = 'octavia-xdp-result-handler'
SPEAKER = 'octavia-xdp-exabgp'
_PROCESSES_MAX = 16
_OUTCOMES_MAX = 256

# The bytes of 800 Gbit/s in four months; higher bits leave room for sums.
COUNTER_MAX = 2 ** 60
# Of a number of things that exist at a time.
NUMBER_MAX = 2 ** 32 - 1
_SESSIONS_MAX = 65535

Integer = fields.Integer
Counter = Annotated[int, pydantic.Field(ge=0, le=COUNTER_MAX)]
Number = Annotated[int, pydantic.Field(ge=0, le=NUMBER_MAX)]
Figure = Annotated[float, pydantic.Field(ge=0, le=NUMBER_MAX,
                                         allow_inf_nan=False)]
Host = Annotated[str, pydantic.Field(min_length=1, max_length=255)]
Id = fields.Id
Text = Annotated[str, pydantic.Field(max_length=TEXT_MAX)]
MemberState = Literal['up', 'down', 'unknown']


@shape.strict
class Entry(TypedDict):
    """A load balancer that a node should have, in this generation.

    ``draining``: the node must announce it as a last resort (RFC 8326).
    ``withdrawn``: the node must not announce it, but existing NAT flows
    continue; only with ``draining`` and with forwarding nat.
    """

    id: Id
    generation: Integer
    document: dict[str, Any]
    draining: NotRequired[bool]
    withdrawn: NotRequired[bool]


@shape.strict
class FetchAnswer(TypedDict):
    """What has changed since the node's last fetch; one page.

    ``as_of``: the newest generation; the next fetch continues from that of
    the first page. ``changed``: sorted by id. ``removed``: ids, on the first
    page only. ``more``: the id after which the next page begins, or null.
    ``compare``: the difference is not enough, because the node is unknown,
    has seen newer generations than exist, or lost too many ids for a page.
    """

    as_of: Integer
    changed: list[Entry]
    removed: list[Id]
    more: Id | None
    compare: bool


@shape.strict
class CompareAnswer(TypedDict):
    """Generations by id of everything a node should have; one page."""

    as_of: Integer
    generations: dict[Id, Integer]
    more: Id | None


@shape.strict
class Counters(TypedDict):
    """Counters of a listener on a node since its service was created.

    ``drops``: packets. ``active``: flows that are alive now. ``bytes_out``:
    bytes sent to clients, for listeners whose answers pass the node.
    """

    bytes: Counter
    flows: Counter
    drops: NotRequired[Counter]
    active: NotRequired[Number]
    bytes_out: NotRequired[Counter]


@shape.strict
class Held(TypedDict):
    """A load balancer on a node.

    ``generation``: the one that the node has processed. ``error``: why it
    could not be applied, or null. ``members``: states of monitored members by
    id. ``announced``: whether it has VIPs with a service that has a member,
    and all of them are announced over an established session. ``history``:
    of its pools; left out if there is none.
    """

    generation: Integer
    error: Text | None
    members: dict[Id, MemberState]
    announced: bool
    history: NotRequired[history.History]


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class NatState(TypedDict, total=False):
    """NAT on a node. ``pools``: those in its datapath.

    ``ports``: number of ports of all pool addresses, used and free.
    ``flows``: live flows. ``share``: the most flows that a project may have.
    ``projects``: flows by project, of the projects with the most. ``peers``:
    nodes that forward packets to each other, this one included.
    ``problem``: why pools or time-outs differ from the configuration; left
    out if they do not.
    """

    pools: Annotated[list[fields.Network],
                     pydantic.Field(max_length=NAT_POOLS_MAX)]
    ports: Number
    flows: Number
    share: Number
    projects: Annotated[dict[Text, Number],
                        pydantic.Field(max_length=NAT_PROJECTS_MAX)]
    peers: Number
    problem: Text


@shape.strict
class NatPeer(TypedDict):
    """An LB node that forwards NAT packets to its peers, and receives them at
    an address of its pools."""

    host: Host
    address: fields.Address


# In the same order on all nodes.
NatPeers = Annotated[list[NatPeer], pydantic.Field(max_length=NAT_PEERS_MAX)]


@shape.strict
class NatPeersAnswer(TypedDict):
    """The nodes that forward NAT packets to each other. ``moving``: whether
    a load balancer is leaving one of them on purpose, so that routers move its
    flows to others."""

    peers: NatPeers
    moving: bool


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class OpenSlots(TypedDict, total=False):
    """Slots whose member has changed and that may still have earlier flows.

    ``slots``: of all services. ``load_balancers``: id → slots of its services
    without a second chance, whose flows break if routers move them; at most
    OPEN_SLOTS_MAX. ``more``: number of further such load balancers.
    ``as_of``: as in Report, of the last fetch that these figures reflect.
    """

    slots: Integer
    load_balancers: Annotated[dict[Text, Integer],
                              pydantic.Field(max_length=OPEN_SLOTS_MAX)]
    more: Integer
    as_of: Integer


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class HealthChecker(TypedDict, total=False):
    """Figures of the health checker that controllers read."""

    checks: Number
    up: Number
    stretch_percent: Figure
    late_p99_ms: Figure


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class UplinkHop(TypedDict, total=False):
    """The next hop of an uplink in one IP version."""

    address: Text | None
    mac: Text | None
    last_resort: bool


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class Uplink(TypedDict, total=False):
    """Fields of an uplink that controllers read. ``problem``: why it is out.
    """

    problem: Text | None
    v4: UplinkHop
    v6: UplinkHop


def _up_of_all(value: list[int]) -> list[int]:
    if value[0] > value[1]:
        raise errors.BadValue(
            f'{value[0]} sessions of {value[1]} cannot be up',
            'give those that are up first')
    return value


Sessions = Annotated[
    list[Annotated[int, pydantic.Field(ge=0, le=_SESSIONS_MAX)]],
    pydantic.Field(min_length=2, max_length=2),
    pydantic.AfterValidator(_up_of_all)]


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class NodeState(TypedDict, total=False):
    """The state of a node itself, for the operator and the scheduler.

    Every field that a controller or a command reads is typed here, so that a
    node's report cannot break the display of other nodes.

    ``problems``: problems that affect the whole node, usually none.
    ``bgp_established``: number of sessions that are up, and of all.
    ``uplinks_ready``: IP versions of outer packets that can be sent.
    ``health_checker``: the checker's own figures, null if it does not
    answer. ``addresses``: the node's own, which cannot be members or VIPs;
    bounded by NODE_ADDRESSES_MAX, or a node could take addresses away from
    tenants. As many of next hops and BGP neighbours cannot be VIPs.
    ``document_version``: the newest version of documents that it supports.
    ``probe_through_datapath``: whether it sends health checks the way of
    traffic. ``nat``: null without pools. ``processes``: what is wrong with
    processes other than the checker, or null. ``outcomes``: packets
    and bytes by outcome, without those of 0. A newer node may report more.
    """

    version: Text
    problems: list[Text]
    bgp_neighbours: dict[str, str]
    bgp_established: Sessions
    uplinks_ready: list[Integer]
    health_checker: HealthChecker | None
    processes: Annotated[dict[Text, Text | None], pydantic.Field(
        max_length=_PROCESSES_MAX)]
    uplinks: list[Uplink]
    services: Number
    services_max: Number
    members: Number
    members_max: Number
    announced: Number | list[str]
    addresses: Annotated[list[Text], pydantic.Field(
        max_length=NODE_ADDRESSES_MAX)]
    document_version: Integer
    probe_through_datapath: bool
    nat: NatState | None
    open_slots: OpenSlots
    outcomes: Annotated[dict[Text, dict[Text, Counter]],
                        pydantic.Field(max_length=_OUTCOMES_MAX)]


@shape.strict
class Report(TypedDict):
    """What has changed on a node since its last report; one page.

    ``as_of``: of the last fetch that the node has processed completely.
    ``complete``: with this page everything on the node has been reported.
    ``held``: complete, by load balancer id. ``gone``: ids of load balancers
    that are no longer on the node. ``counters``: by load balancer id and
    listener id. ``state``: of the node itself, or null if unchanged.
    """

    as_of: Integer
    complete: bool
    held: Annotated[dict[Id, Held], pydantic.Field(max_length=REPORT_PAGE)]
    gone: Annotated[list[Id], pydantic.Field(max_length=COMPARE_PAGE)]
    counters: Annotated[dict[Id, dict[Id, Counters]],
                        pydantic.Field(max_length=REPORT_PAGE)]
    state: NodeState | None
    clock: NotRequired[Integer]


@shape.strict
class BundlesAnswer(TypedDict):
    """Bundles by name, sealed for the node that asked.

    Those that do not fit into a message are left out, and so are those of load
    balancers that are not placed on the node. ``problem``: why some are left
    out that should not be, or null.
    """

    bundles: dict[sealed.Name, sealed.Sealed]
    problem: Text | None


@shape.strict
class Tickets(TypedDict):
    """Keys of TLS session tickets, a bundle of this name."""

    name: sealed.Name
    sealed: sealed.Sealed


@shape.strict
class TicketsAnswer(TypedDict):
    """Keys of tickets by load balancer id; ``problem`` as in BundlesAnswer.
    """

    tickets: dict[Id, Tickets]
    problem: Text | None


@shape.strict
class ReportAnswer(TypedDict):
    """Whether a report was accepted; ``epoch`` and ``seq``: of the last one
    that was. If it was not, the node begins an epoch above this one."""

    taken: bool
    epoch: Integer
    seq: Integer


class ChangeAnswer(TypedDict, total=False):
    """The outcome of a change.

    ``now``: the database's time in seconds since the epoch, always present.
    In addition either ``accepted``, the id of the request that waits for
    Octavia's commit, or one of the texts; ``detail`` adds to ``refused``
    what only the operator may see.
    """

    now: float
    accepted: str
    refused: str
    detail: str
    conflict: str
    error: str
