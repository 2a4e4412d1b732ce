# SPDX-License-Identifier: Apache-2.0
"""Sums the listener statistics of all nodes and sends them to Octavia.

Of a listener that proxy nodes serve, these alone count (store/tier_counters):
connections of clients, bytes that these sent and received, and requests that
failed. Of others LB nodes count. Unless a load balancer has forwarding nat,
members answer clients directly, and LB nodes do not see these packets. Their
fields are:

* ``bytes_in``: bytes of clients' IP packets that were forwarded
* ``total_connections``: opened flows, recognized by TCP's SYN, SCTP's INIT and
  QUIC's Initial; flows of plain UDP are not counted
* ``bytes_out``: bytes of IP packets that were sent to clients with nat,
  otherwise 0
* ``active_connections``: active flows of the nodes that are alive: with nat
  the exact number, including half-open flows, otherwise a count or an estimate
  (see statuses.rst). It rises and falls
* ``request_errors``: packets for the listener that nodes dropped for any
  reason; packets of unknown listeners only count at their node
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import Any
from typing import Protocol

from oslo_log import log as logging

from octavia_xdp_provider.controller.octavia import errors

LOG = logging.getLogger(__name__)

# Listeners in a message: it must fit a socket's buffer.
LISTENERS_MAX = 500
# Messages that may be refused in a round: nine find one bad record.
REFUSED_MAX = 30

# Bytes, flows, drops, active flows and bytes sent back of a listener.
Sums = tuple[int, ...]
Record = dict[str, Any]


class Counters(Protocol):
    def statistics(self, node_timeout: float) -> Mapping[str, Sums]:
        """Return listener id → sums over all nodes; sums of active flows only
        include nodes that have reported within ``node_timeout`` seconds."""


class Octavia(Protocol):
    def set_statistics(self, listeners: Iterable[Record]) -> None:
        """See octavia.client."""


class Statistics:
    """Sends the sums that have changed to Octavia.

    Octavia replaces its row of a listener, so one process must sum up all
    nodes. The sums are in the database. Except for active flows they never
    fall: neither the loss of a node nor a restart affects them.

    One thread of the leading controller uses it. A former leader may still
    send older sums, so each change is sent a second time, so that they are
    overwritten.
    """

    def __init__(self, counters: Counters, octavia: Octavia,
                 node_timeout: float) -> None:
        self._counters = counters
        self._node_timeout = node_timeout
        self._octavia = octavia
        self._sent: dict[str, Sums] = {}
        self._again: set[str] = set()
        self._refused: dict[str, Sums] = {}

    def send(self) -> None:
        """Send changed sums. Those that are not accepted are sent later."""
        sums = self._counters.statistics(self._node_timeout)
        changed = {key for key, value in sums.items()
                   if self._sent.get(key) != value
                   and self._refused.get(key) != value}
        due = sorted(changed | self._again & sums.keys())
        self._again = changed
        for memory in (self._sent, self._refused):
            for key in memory.keys() - sums.keys():
                del memory[key]
        round_ = _Round()
        try:
            for start in range(0, len(due), LISTENERS_MAX):
                self._send(due[start:start + LISTENERS_MAX], sums, round_)
        except errors.OctaviaUnavailable as error:
            LOG.warning('Listener statistics: %s; trying again.', error)
        if round_.accepted:
            for key, refusal in round_.refused.items():
                LOG.error('Octavia refuses the statistics of listener %s, '
                          'which are not sent until they change: %s', key,
                          refusal)
                self._refused[key] = sums[key]

    def _send(self, keys: list[str], sums: Mapping[str, Sums],
              round_: '_Round') -> None:
        try:
            self._octavia.set_statistics(
                [record(key, *sums[key]) for key in keys])
        except errors.Rejected as error:
            # Either one record is invalid, and must not stop the others, or
            # Octavia can set none.
            round_.refusals_left -= 1
            if round_.refusals_left <= 0:
                raise
            if len(keys) == 1:
                round_.refused[keys[0]] = error
                return
            middle = len(keys) // 2
            self._send(keys[:middle], sums, round_)
            self._send(keys[middle:], sums, round_)
        else:
            round_.accepted = True
            self._sent.update((key, sums[key]) for key in keys)


@dataclasses.dataclass
class _Round:
    """``refusals_left``: number of messages that may still be refused."""

    refusals_left: int = REFUSED_MAX
    accepted: bool = False
    refused: dict[str, Exception] = dataclasses.field(default_factory=dict)


def record(listener_id: str, bytes_in: int, connections: int,
           drops: int = 0, active: int = 0, bytes_out: int = 0) -> Record:
    """Return a listener's statistics as octavia-lib's record."""
    return {'id': listener_id, 'active_connections': active,
            'bytes_in': bytes_in, 'bytes_out': bytes_out,
            'request_errors': drops, 'total_connections': connections}
