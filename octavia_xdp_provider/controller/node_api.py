# SPDX-License-Identifier: Apache-2.0
"""RPC calls of LB nodes: fetch the wanted state, report the actual one."""

from collections.abc import Callable
from collections.abc import Iterable
import json
import time
from typing import Annotated

from oslo_log import log as logging
import oslo_messaging
import pydantic

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.controller import majority
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.process import ages

LOG = logging.getLogger(__name__)

# Seconds until reported load balancers are due in the work queue. This process
# handles them at once, unless it is busy or dies.
_LOOK_S = 3.0

# Seconds for which an answer about peers is reused for other nodes.
_PEERS_S = 2.0

# Arguments of the methods.
_HOST = shape.arguments(host=messages.Host)
_HISTORY = shape.arguments(
    host=messages.Host, after=messages.Id | None,
    ids=Annotated[list[messages.Id], pydantic.Field(
        max_length=history.PAGE)] | None)
_FETCH = shape.arguments(host=messages.Host, since=messages.Integer,
                         after=messages.Id | None)
_DOCUMENTS = shape.arguments(
    host=messages.Host, ids=Annotated[list[messages.Id], pydantic.Field(
        max_length=messages.DOCUMENTS_PAGE)])
_REPORT = shape.arguments(host=messages.Host, epoch=messages.Integer,
                          seq=messages.Integer, report=messages.Report)


class NodesEndpoint:
    """RPC endpoint of the LB nodes.

    All arguments are validated first. A compromised node can only harm the
    load balancers that it carries.

    :raises Refused: by each method, if arguments are malformed.
    """

    target = oslo_messaging.Target(namespace=rpc.NODES_NAMESPACE,
                                   version=rpc.NODES_VERSION)

    # Time of the last answer about peers, by time.monotonic(), and the answer.
    _peers: tuple[float, messages.NatPeersAnswer] = float('-inf'), {
        'peers': [], 'moving': False}

    def __init__(self, store: queries.Store,
                 touched: Callable[[str, Iterable[str], dict[str, int]],
                                   object],
                 node_appeared: Callable[[], object],
                 fetched: Callable[[str, int | None],
                                   object] = lambda host, as_of: None
                 ) -> None:
        """:param fetched: see Pages.fetched.

        :param touched: called with a host, ids of load balancers on which it
            has reported, and the generations that it has; without ids if all
            load balancers of the node are concerned.

        :param node_appeared: called when a node has reported for the first
            time.
        """
        self._store = store
        self._touched = touched
        self._node_appeared = node_appeared
        self._fetched = fetched

    def nat_peers(self, context: object, host: str) -> messages.NatPeersAnswer:
        """Return the nodes that hand packets of NAT on to each other: all but
        dead ones, including nodes that drain or are out of service."""
        _HOST.check({'host': host})
        answered_at, answer = self._peers
        now = time.monotonic()
        if now - answered_at > _PEERS_S:
            peers = nat.peers({
                node.host: node.state or {} for node in self._store.nodes.all()
                if node.condition != clusters.Condition.DEAD.value})
            answer = {'peers': peers, 'moving': self._store.placements.drains(
                peer['host'] for peer in peers)}
            self._peers = now, answer
        return answer

    def history(self, context: object, host: str, after: str | None = None,
                ids: list[str] | None = None) -> history.Answer:
        """Return a page of the histories of a node's pools, as most live nodes
        report them."""
        _HISTORY.check({'host': host, 'after': after, 'ids': ids})
        histories, more = self._store.histories.of_others(
            host, after, clusters.Condition.DEAD.value, ids)
        agreed = {key: majority.agreed(reported.changes, reported.members)
                  for key, reported in histories.items()}
        return {'load_balancers': {
            key: pools for key, pools in agreed.items() if pools},
            'more': more}

    def fetch(self, context: object, host: str, since: int,
              after: str | None = None) -> messages.FetchAnswer:
        """See Deltas.changes."""
        _FETCH.check({'host': host, 'since': since, 'after': after})
        page = self._store.deltas.changes(host, since, after)
        is_all = after is None and page['more'] is None
        self._fetched(host, page['as_of'] if is_all and not page['compare']
                      else None)
        return page

    def compare(self, context: object, host: str, after: str | None = None
                ) -> messages.CompareAnswer:
        """See Deltas.generations."""
        _FETCH.check({'host': host, 'since': 0, 'after': after})
        return self._store.deltas.generations(host, after)

    def documents(self, context: object, host: str, ids: list[str]
                  ) -> list[messages.Entry]:
        """See Deltas.documents."""
        _DOCUMENTS.check({'host': host, 'ids': ids})
        return self._store.deltas.documents(host, ids)

    def report(self, context: object, host: str, epoch: int, seq: int,
               report: messages.Report) -> messages.ReportAnswer:
        """Store a node's report (messages.Report)."""
        _REPORT.check({'host': host, 'epoch': epoch, 'seq': seq,
                       'report': report})
        _check_state(report['state'])
        _check_clock(report)
        taken = self._store.reports.take(host, epoch, seq, report, _LOOK_S)
        self._handle(host, taken.is_new, taken.touched, report['held'])
        if taken.all_marked:
            self._touched(host, (), {})
        return taken.answer

    def _handle(self, host: str, is_new: bool, touched: set[str],
              held: dict[str, messages.Held]) -> None:
        """:param held: id of a load balancer → what the node has of it."""
        if is_new:
            LOG.info('Node %s reported for the first time.', host)
            self._node_appeared()
        for key in touched & held.keys():
            if held[key]['error']:
                LOG.error('Node %s cannot do load balancer %s: %s', host, key,
                          held[key]['error'])
        if touched:
            self._touched(host, touched, {
                key: held[key]['generation']
                for key in touched & held.keys()})


class HeartbeatEndpoint:
    """RPC endpoint of the nodes' heartbeats."""

    target = oslo_messaging.Target(namespace=rpc.HEARTBEAT_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, note_alive: Callable[[str], object]) -> None:
        """:param note_alive: called with a host."""
        self._note_alive = note_alive

    def heartbeat(self, context: object, host: str) -> None:
        """Note a node's heartbeat."""
        _HOST.check({'host': host})
        self._note_alive(host)


def _check_state(state: messages.NodeState | None) -> None:
    """:raises Refused: the node's state is too long."""
    size = len(json.dumps(state))
    if size > messages.STATE_BYTES_MAX:
        raise errors.Refused(
            'report.state', f'it has {size} bytes',
            f'use at most {messages.STATE_BYTES_MAX}')


def _check_clock(report: messages.Report) -> None:
    """:raises Refused: the report has times, but not the node's own time."""
    if 'clock' not in report and any(
            held.get('history') for held in report['held'].values()):
        raise errors.Refused('report.clock', 'it is missing', 'give it')


def alive(node: rows.Node, node_timeout: float, now: float) -> bool:
    """Return whether a node has reported within ``node_timeout`` seconds."""
    return ages.age(node.last_seen, now) <= node_timeout
