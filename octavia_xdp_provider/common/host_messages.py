# SPDX-License-Identifier: Apache-2.0
"""What agents of hypervisors and controllers say to each other
(common/host_rpc.py)."""

from typing import Annotated
from typing import Any

import pydantic
from typing_extensions import TypedDict

from octavia_xdp_provider.common import fields
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import shape

# Pages: no message grows with the number of ports.
DOCUMENTS_PAGE = 100
DOCUMENTS_PAGE_BYTES = 1 << 20
COMPARE_PAGE = 2000
REPORT_PAGE = 200
# Of all counters in one report.
COUNTERS_MAX = 4096
# Flows in one message, and of one port that was moved.
FLOWS_PAGE = 1000
FLOWS_MAX = 16384

Id = host_spec.Uuid
Integer = messages.Integer
Text = messages.Text
# As the kernel has it: a signed 32-bit number from 1.
Ifindex = Annotated[int, pydantic.Field(ge=1, le=2 ** 31 - 1)]
# As common/contracts/enumerations.h has them, in lower case.
Outcome = Annotated[str, pydantic.Field(pattern=r'^[a-z][a-z0-9_]{0,31}$')]


@shape.strict
class Entry(TypedDict):
    """A port or an address set that a hypervisor should have, in this
    generation (common/host_spec.py)."""

    id: Id
    kind: host_spec.Kind
    generation: Integer
    document: dict[str, Any]


@shape.strict
class FetchAnswer(TypedDict):
    """What is different from what an agent fetched before; one page.

    ``as_of``: the newest generation there is. That of the first page is the
    one from which the next fetch goes on. ``changed``: by id. ``removed``:
    ids, on the first page. ``more``: the id after which the next page
    begins, or null. ``compare``: a difference alone is not enough, for the
    database has not seen what the agent has. ``common``: whole, on each
    page. ``refused``: why this hypervisor gets nothing, in words, or null;
    the rest is empty then, and what it has stays.
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
    """All that a hypervisor should have: generations by id; one page."""

    as_of: Integer
    generations: dict[Id, Integer]
    more: Id | None


@shape.strict
class Held(TypedDict):
    """A port or an address set on a hypervisor.

    ``generation``: the one that the agent has looked at. ``ifindex``: of the
    port's tap, null where it is not here (or not yet), and for address sets:
    entries without a tap are in the datapath nevertheless. ``error``: why it
    could not be made true, or null.
    """

    generation: Integer
    ifindex: Ifindex | None
    error: Text | None


@shape.strict
class EntryCounters(TypedDict):
    """Of an entry since it was made. ``flows``: that began; ``drops``:
    packets."""

    key: fields.TunnelKey
    packets_in: Integer
    bytes_in: Integer
    packets_out: Integer
    bytes_out: Integer
    flows: Integer
    drops: Integer


@shape.strict
class PortCounters(TypedDict):
    """Of a port: packets that were dropped, by outcome; ``active``: flows
    that are alive now."""

    drops: dict[Outcome, Integer]
    active: Integer
    entries: Annotated[list[EntryCounters], pydantic.Field(
        max_length=host_spec.ENTRIES_MAX)]


@pydantic.with_config(pydantic.ConfigDict(strict=True, extra='allow'))
class HostState(TypedDict, total=False):
    """What an agent reports of itself and its hypervisor.

    ``agent``: its version. ``document_version``: newest of documents that it
    knows. ``kernel``: release, as of uname(2). ``geneve``: own addresses to
    which LB nodes may send it, one of each IP version at most. ``srv6``:
    network of 96 bits whose addresses are SIDs; null for none. ``mtu``: of
    the underlay, bytes. ``…_max``: what its tables take; ``…``: what is in
    them. ``drops``: packets by outcome, of no port. ``problems``: why it
    does not do what is wanted, mostly none. A newer agent may say more.
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
    drops: dict[Outcome, Integer]
    problems: Annotated[list[Text], pydantic.Field(max_length=64)]


@shape.strict
class Report(TypedDict):
    """What has changed on a hypervisor since its last report; one page.

    ``as_of``: of the fetch all of which the agent has looked at.
    ``complete``: nothing is missing any more that the hypervisor has.
    ``held``: by id, whole. ``gone``: ids of those that it does not have any
    more. ``counters``: by id of the port. ``state``: null if it is as
    before.
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
    """A client's connection with a member, which the member has answered.

    ``key``: of the entry on the hypervisor whose message it is. ``client``,
    ``port``: the client's. ``closing``: one side has ended it.
    """

    key: fields.TunnelKey
    client: fields.Address
    port: fields.Port
    closing: bool


Flows = Annotated[list[Flow], pydantic.Field(max_length=FLOWS_PAGE)]

# Whether a report was taken, as with LB nodes.
ReportAnswer = messages.ReportAnswer
