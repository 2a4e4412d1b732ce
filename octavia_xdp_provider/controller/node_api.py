# SPDX-License-Identifier: Apache-2.0
"""The nodes' calls: fetch what they should have, report what they have."""

import threading
import time

from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.common import rpc

LOG = logging.getLogger(__name__)


class Health:
    """What each node sees of the members, kept in memory.

    It is a cache: a node repeats it whole with every report, so that a
    restarted controller has it again within one report interval.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._by_host = {}

    def update(self, host, members):
        """:param members: load balancer id → {member id: state}.

        :returns: ids of load balancers whose members changed.
        """
        with self._lock:
            before = self._by_host.get(host, {})
            self._by_host[host] = members
        return {key for key in before.keys() | members.keys()
                if before.get(key) != members.get(key)}

    def any_reported(self, hosts):
        """Whether one of the hosts has reported since this process started."""
        with self._lock:
            return any(host in self._by_host for host in hosts)

    def of(self, load_balancer_id, hosts):
        """host → {member id: state}, for those of the hosts that reported."""
        with self._lock:
            return {host: self._by_host[host][load_balancer_id]
                    for host in hosts
                    if load_balancer_id in self._by_host.get(host, {})}


class NodesEndpoint:
    """RPC endpoint of the LB nodes."""

    target = oslo_messaging.Target(namespace=rpc.NODES_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, store, health, liveness, touched, node_appeared):
        """:param touched: called with ids of load balancers to look at.

        :param node_appeared: called when a node is new or back.
        """
        self._store = store
        self._health = health
        self._liveness = liveness
        self._touched = touched
        self._node_appeared = node_appeared

    def fetch(self, context, host, known):
        """See Store.fetch."""
        return self._store.fetch(host, known)

    def report(self, context, host, report):
        """Take a node's report.

        :param report: ``{"as_of": n, "synced": {id: {"generation": n,
            "error": text or None}}, "members": {id: {member id: "up" |
            "down" | "unknown"}}, "counters": {id: {listener id: {"bytes":
            n, "flows": n}}}, "state": {…}}``; ``as_of`` of the fetch that
            the report is based on, ``state`` is the node's word about
            itself for the operator.
        """
        self._liveness.heard()
        if self._store.seen(host, report['state']):
            LOG.info('Node %s reported for the first time.', host)
            self._node_appeared()
        touched = self._store.report(host, report['as_of'], report['synced'])
        touched |= self._health.update(host, report['members'])
        self._store.count(host, report['counters'])
        for load_balancer_id, synced in report['synced'].items():
            if synced['error'] and load_balancer_id in touched:
                LOG.error('Node %s cannot do load balancer %s: %s', host,
                          load_balancer_id, synced['error'])
        if touched:
            self._touched(touched)


def alive(node, node_timeout, now=None):
    """Whether the node has reported recently enough to be waited for."""
    now = time.time() if now is None else now
    return now - node.last_seen <= node_timeout
