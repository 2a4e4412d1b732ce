# SPDX-License-Identifier: Apache-2.0
"""What nodes and controller say to each other (common/rpc.py)."""

from typing import Annotated
from typing import Any
from typing import Literal

import pydantic
from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import fields
from octavia_xdp_provider.common import history
from octavia_xdp_provider.common import shape

# Pages: no message grows with the number of load balancers.
DOCUMENTS_PAGE = 100
DOCUMENTS_PAGE_BYTES = 1 << 20
# Of one document, which a page has at least. oslo.messaging makes it half as
# long again at most, and then it has to fit into a node's queue
# (controller/broker.py).
DOCUMENT_BYTES_MAX = 10 << 20
COMPARE_PAGE = 2000
REPORT_PAGE = 200
REPORT_PAGE_MEMBERS = 8192
# Of a text in a report, characters; of the state in it, bytes as JSON.
TEXT_MAX = 2000
STATE_BYTES_MAX = 1 << 16
# Of a node, as it reports them.
NODE_ADDRESSES_MAX = 64
NAT_POOLS_MAX = 512
# Load balancers with the most open slots that a node names.
OPEN_SLOTS_MAX = 100
# LB nodes that hand packets of NAT on to each other (OXP_NAT_PEERS_MAX).
NAT_PEERS_MAX = 16
# Projects with the most flows by NAT that a node names.
NAT_PROJECTS_MAX = 50

# Processes of a node, as it names them: what makes tables follow health, and
# what announces.
RESULT_HANDLER = 'octavia-xdp-result-handler'
SPEAKER = 'octavia-xdp-exabgp'
_PROCESSES_MAX = 16

# Bytes that 800 Gbit/s make in four months: the rest of the room is for sums.
COUNTER_MAX = 2 ** 60
# Of what is there at a time.
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

    ``draining``: the node shall announce it as a last resort (RFC 8326).
    ``withdrawn``: not at all, while its flows by NAT that are there go on;
    only with ``draining``, and of load balancers with forwarding nat.
    """

    id: Id
    generation: Integer
    document: dict[str, Any]
    draining: NotRequired[bool]
    withdrawn: NotRequired[bool]


@shape.strict
class FetchAnswer(TypedDict):
    """What is different from what a node fetched before; one page.

    ``as_of``: the newest generation there is. That of the first page is the
    one from which the next fetch goes on. ``changed``: by id. ``removed``:
    ids, on the first page. ``more``: the id after which the next page
    begins, or null. ``compare``: a difference alone is not enough, for the
    node is unknown here or has seen newer generations than there are.
    """

    as_of: Integer
    changed: list[Entry]
    removed: list[Id]
    more: Id | None
    compare: bool


@shape.strict
class CompareAnswer(TypedDict):
    """All that a node should have: generations by id; one page."""

    as_of: Integer
    generations: dict[Id, Integer]
    more: Id | None


@shape.strict
class Counters(TypedDict):
    """Of a listener on a node, since its service was made.

    ``drops``: packets. ``active``: flows that are alive now. ``bytes_out``:
    what clients were sent, of listeners whose answers pass the node.
    """

    bytes: Counter
    flows: Counter
    drops: NotRequired[Counter]
    active: NotRequired[Number]
    bytes_out: NotRequired[Counter]


@shape.strict
class Held(TypedDict):
    """A load balancer on a node.

    ``generation``: the one that the node has looked at. ``error``: why it
    could not be made true, or null. ``members``: states of monitored ones by
    id. ``announced``: whether all its VIPs that have a service with a member
    are announced over an established session, and there is one. ``history``:
    of its pools; left out where there is none.
    """

    generation: Integer
    error: Text | None
    members: dict[Id, MemberState]
    announced: bool
    history: NotRequired[history.History]


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class NatState(TypedDict, total=False):
    """A node's NAT. ``pools``: as they are in its datapath.

    ``ports``: of all their addresses, each of which is one flow's or free.
    ``flows``: those that are alive. ``share``: how many one project may have.
    ``projects``: flows by project, of those with the most. ``peers``: nodes
    with which it hands packets on, itself among them. ``problem``: why pools
    or time-outs are not as configured; left out: they are.
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
    """An LB node that hands packets of NAT on, and takes them at an address
    of its pools."""

    host: Host
    address: fields.Address


# In the same order for all nodes.
NatPeers = Annotated[list[NatPeer], pydantic.Field(max_length=NAT_PEERS_MAX)]


@shape.strict
class NatPeersAnswer(TypedDict):
    """The nodes that hand packets of NAT on to each other. ``moving``:
    whether a load balancer leaves one of them by plan, so that routers move
    its flows to others."""

    peers: NatPeers
    moving: bool


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class OpenSlots(TypedDict, total=False):
    """Slots in which flows are about of members that have changed.

    ``slots``: of all services. ``load_balancers``: id → those of its services
    without a second chance, whose flows break where routers move them; at
    most OPEN_SLOTS_MAX. ``more``: how many more load balancers have such.
    ``as_of``: as in Report, of the last fetch that these figures reflect.
    """

    slots: Integer
    load_balancers: Annotated[dict[Text, Integer],
                              pydantic.Field(max_length=OPEN_SLOTS_MAX)]
    more: Integer
    as_of: Integer


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class HealthChecker(TypedDict, total=False):
    """Those of the checker's own figures that controllers look at."""

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
    """Of an uplink, what controllers look at. ``problem``: why it is out."""

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
    """What a node reports of itself, for the operator and the scheduler.

    Whatever a controller or a command reads of it has its type here: what a
    node says must not break what is shown of others.

    ``problems``: what all on it suffers from, mostly nothing.
    ``bgp_established``: sessions that are up, and all there are.
    ``uplinks_ready``: IP versions of outer packets that can be sent on.
    ``health_checker``: the checker's own figures, null if it does not
    answer. ``addresses``: its own, at most NODE_ADDRESSES_MAX, which are
    nobody's member and no VIP: no more, as a node could take them from
    tenants; as many of next hops and BGP neighbours are no VIP. ``zone``:
    its availability zone, null for none. ``document_version``: the newest of
    load balancers' that it knows; ``probe_through_datapath``: whether it
    sends health checks as traffic. ``nat``: null without pools.
    ``processes``: of other processes
    of the node but the checker, what is wrong with them; null: nothing. A
    newer node may say more.
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
    zone: Text | None
    document_version: Integer
    probe_through_datapath: bool
    nat: NatState | None
    open_slots: OpenSlots


@shape.strict
class Report(TypedDict):
    """What has changed on a node since its last report; one page.

    ``as_of``: of the fetch all of which the node has looked at.
    ``complete``: nothing is missing any more that the node has. ``held``: by
    id of the load balancer, whole. ``gone``: ids of those that the node does
    not have any more. ``counters``: by id of the load balancer and of the
    listener. ``state``: what the node reports of itself, or null if that is
    as before.
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
class ReportAnswer(TypedDict):
    """Whether a report was taken; ``epoch`` and ``seq``: of the last one
    that was. If not, the node begins an epoch greater than this one."""

    taken: bool
    epoch: Integer
    seq: Integer


class ChangeAnswer(TypedDict, total=False):
    """What became of a change.

    ``now``: the database's time, seconds since the epoch; always there.
    Beside it ``accepted``, the id of the request that waits for Octavia's
    commit, or one of the texts; ``detail`` is what the operator is told
    beside ``refused``.
    """

    now: float
    accepted: str
    refused: str
    detail: str
    conflict: str
    error: str
