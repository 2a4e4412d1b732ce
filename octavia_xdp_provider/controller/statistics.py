# SPDX-License-Identifier: Apache-2.0
"""Listener statistics: what all nodes counted, sent to Octavia.

What is sent of a listener. Unless its load balancer has forwarding nat,
members answer clients directly, and what they send is known to nobody here:

* ``bytes_in``: of clients' IP packets that were forwarded
* ``total_connections``: flows that were opened, seen by TCP's SYN, SCTP's
  INIT and QUIC's Initial; none of plain UDP
* ``bytes_out``: with nat, of the IP packets that were sent to clients;
  otherwise 0, answers do not pass the nodes
* ``active_connections``: flows that the nodes which are alive now see alive:
  with nat those that they have, half open ones as well, otherwise counted or
  estimated; what that says is in statuses.rst. It rises and falls
* ``request_errors``: packets for the listener that nodes dropped, whatever
  for; those of which it is not known which listener they are for are counted
  by nobody but the node
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


class Store(Protocol):
    def statistics(self, node_timeout: float) -> Mapping[str, Sums]:
        """By id of the listener, summed over all nodes that ever counted;
        active flows over those that were heard in so many seconds."""


class Octavia(Protocol):
    def set_statistics(self, listeners: Iterable[Record]) -> None:
        """See octavia.client."""


class Statistics:
    """Sends Octavia the sums that have changed since the last time.

    Octavia replaces its row of a listener by what it is sent, so that one
    place must add up all nodes. The sums are in the database. But for active
    flows they never fall: neither a node that leaves nor a restart makes them
    jump.

    Used by one thread of the leading controller. One that has just lost
    the lead may still send what it read before. So what has changed is sent
    a second time: an older figure cannot stay.
    """

    def __init__(self, store: Store, octavia: Octavia,
                 node_timeout: float) -> None:
        self._store = store
        self._node_timeout = node_timeout
        self._octavia = octavia
        self._sent: dict[str, Sums] = {}
        self._again: set[str] = set()
        self._refused: dict[str, Sums] = {}

    def send(self) -> None:
        """Send what has changed. What was not accepted is sent later."""
        sums = self._store.statistics(self._node_timeout)
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
            for key, why in round_.refused.items():
                LOG.error('Octavia refuses the statistics of listener %s '
                          'until they change: %s', key, why)
                self._refused[key] = sums[key]

    def _send(self, keys: list[str], sums: Mapping[str, Sums],
              round_: '_Round') -> None:
        try:
            self._octavia.set_statistics(
                [record(key, *sums[key]) for key in keys])
        except errors.Rejected as error:
            # One of them is to blame, and must not stop the others; or
            # Octavia can set none.
            round_.left -= 1
            if round_.left <= 0:
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
    """``left``: how many messages may still be refused."""

    left: int = REFUSED_MAX
    accepted: bool = False
    refused: dict[str, Exception] = dataclasses.field(default_factory=dict)


def record(listener_id: str, bytes_in: int, connections: int,
           drops: int = 0, active: int = 0, bytes_out: int = 0) -> Record:
    """A listener's statistics as octavia-lib has them."""
    return {'id': listener_id, 'active_connections': active,
            'bytes_in': bytes_in, 'bytes_out': bytes_out,
            'request_errors': drops, 'total_connections': connections}
