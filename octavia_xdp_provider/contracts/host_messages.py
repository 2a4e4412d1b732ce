# SPDX-License-Identifier: Apache-2.0
"""Payloads of the calls between agents of hypervisors and controllers
(contracts/host_rpc.py)."""

from typing import Annotated
from typing import Any

import pydantic
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import shape

# Pages: no message grows with the number of ports.
DOCUMENTS_PAGE = 100
DOCUMENTS_PAGE_BYTES = 1 << 20
COMPARE_PAGE = 2000
REPORT_PAGE = 200
# Entries with counters in one report.
COUNTERS_MAX = 4096
# Flows in one message, and of one port that has moved.
FLOWS_PAGE = 1000
FLOWS_MAX = 16384
# Ports at a limit in the state that a hypervisor reports.
LIMITED_PORTS_MAX = 16

Id = fields.Uuid
Integer = messages.Integer
Text = messages.Text
# As in the kernel: a signed 32-bit number from 1.
Ifindex = Annotated[int, pydantic.Field(ge=1, le=2 ** 31 - 1)]
# Names of contracts/enumerations.h in lower case.
Outcome = Annotated[str, pydantic.Field(pattern=r'^[a-z][a-z0-9_]{0,31}$')]


@shape.strict
class Entry(TypedDict):
    """A port or an address set that a hypervisor should have, in this
    generation (contracts/host_spec.py)."""

    id: Id
    kind: host_spec.Kind
    generation: Integer
    document: dict[str, Any]


@shape.strict
class FetchAnswer(TypedDict):
    """What has changed since the agent's last fetch; one page.

    ``as_of``: the newest generation; the next fetch continues from that of
    the first page. ``changed``: sorted by id. ``removed``: ids, on the first
    page only. ``more``: the id after which the next page begins, or null.
    ``compare``: the difference is not enough, because the agent has seen
    newer generations than exist, or lost too many ids for a page.
    ``common``: complete, on each page. ``refused``: why this hypervisor is
    sent no documents, and keeps its state, or null.
    """

    as_of: Integer
    changed: list[Entry]
    removed: list[Id]
    more: Id | None
    compare: bool
    common: host_spec.Common
    refused: Text | None


@shape.strict
class CompareAnswer(TypedDict):
    """Generations by id of everything a hypervisor should have; one page."""

    as_of: Integer
    generations: dict[Id, Integer]
    more: Id | None


@shape.strict
class Held(TypedDict):
    """A port or an address set on a hypervisor.

    ``generation``: the one that the agent has processed. ``ifindex``: of the
    port's tap; null for address sets, and if there is no tap here (yet): its
    entries are in the datapath nevertheless. ``error``: why it could not be
    applied, or null.
    """

    generation: Integer
    ifindex: Ifindex | None
    error: Text | None


@shape.strict
class EntryCounters(TypedDict):
    """Counters of an entry since it was created. ``flows``: flows that began;
    ``drops``: packets."""

    key: fields.TunnelKey
    packets_in: Integer
    bytes_in: Integer
    packets_out: Integer
    bytes_out: Integer
    flows: Integer
    drops: Integer


@shape.strict
class PortCounters(TypedDict):
    """Counters of a port. ``drops``: packets by outcome; ``active``: flows
    that are alive now."""

    drops: dict[Outcome, Integer]
    active: Integer
    entries: Annotated[list[EntryCounters], pydantic.Field(
        max_length=host_spec.ENTRIES_MAX)]


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class HostState(TypedDict, total=False):
    """The state of an agent and its hypervisor.

    ``agent``: its version. ``document_version``: the newest version of
    documents that it supports. ``kernel``: release of uname(2). ``geneve``:
    own addresses to which LB nodes may send it, at most one per IP version.
    ``srv6``: 96-bit network whose addresses are SIDs; null for none. ``mtu``:
    of the underlay, in bytes. ``…_max``: capacities of its tables; ``…``:
    what is in them. ``flows_full``: packets of flows that could not be
    confirmed for want of a place. ``half_open_evicted``: packets that began a
    flow in the place of a half-open one. ``limited_ports``: both by port and
    outcome, for the ports with the most. ``drops``: packets by outcome that
    belong to no port. ``problems``: why it does not apply the wanted state,
    usually none. A newer agent may report further fields.
    """

    agent: Text
    document_version: Integer
    kernel: Text
    geneve: Annotated[list[fields.Address], pydantic.Field(max_length=2)]
    srv6: fields.Network | None
    mtu: Integer
    entries: Integer
    entries_max: Integer
    ports: Integer
    ports_max: Integer
    flows: Integer
    flows_max: Integer
    flows_full: Integer
    half_open_evicted: Integer
    limited_ports: Annotated[dict[Id, dict[Outcome, Integer]], pydantic.Field(
        max_length=LIMITED_PORTS_MAX)]
    drops: dict[Outcome, Integer]
    problems: Annotated[list[Text], pydantic.Field(max_length=64)]


@shape.strict
class Report(TypedDict):
    """What has changed on a hypervisor since its last report; one page.

    ``as_of``: of the last fetch that the agent has processed completely.
    ``complete``: with this page everything on the hypervisor has been
    reported. ``held``: complete, by id. ``gone``: ids that are no longer on
    the hypervisor. ``counters``: by port id. ``state``: null if unchanged.
    """

    as_of: Integer
    complete: bool
    held: Annotated[dict[Id, Held], pydantic.Field(max_length=REPORT_PAGE)]
    gone: Annotated[list[Id], pydantic.Field(max_length=COMPARE_PAGE)]
    counters: Annotated[dict[Id, PortCounters],
                        pydantic.Field(max_length=REPORT_PAGE)]
    state: HostState | None


@shape.strict
class Flow(TypedDict):
    """A client's connection that a member has answered.

    ``key``: of the entry on the hypervisor that sends or gets the message.
    ``client``, ``port``: the client's. ``closing``: one side has ended it.
    """

    key: fields.TunnelKey
    client: fields.Address
    port: fields.Port
    closing: bool


Flows = Annotated[list[Flow], pydantic.Field(max_length=FLOWS_PAGE)]

# The same as for LB nodes.
ReportAnswer = messages.ReportAnswer
