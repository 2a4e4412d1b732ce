# SPDX-License-Identifier: Apache-2.0
"""Traffic of each listener on this node, for Prometheus.

These are the figures of the last look at the tables, as they are reported for
Octavia's statistics: the tables are not read again. A series is of one
service, a listener at one of its VIPs, and has the datapath's own counter, so
that it grows as long as the service is there, also when the agent restarts.
With the service the series ends.
"""

from prometheus_client import core

PREFIX = 'octavia_xdp_agent_listener_'
LABELS = ('project', 'load_balancer', 'listener', 'vip')
# Fields of datapath.Summary: whether they only grow, and what they are.
FIGURES = {
    'packets': (True, 'Packets that were forwarded to members'),
    'bytes': (True, 'Bytes of these packets as clients sent them, from the '
                    'IP header on'),
    'flows': (True, 'Flows that began: SYNs of TCP, INITs of SCTP, Initials '
                    'of QUIC'),
    'drops': (True, 'Packets to the listener that were dropped'),
    'active': (False, 'Flows that are alive, counted or estimated; 0 while '
                      'the node does not announce the VIP'),
}
# Where the metric is not called as the field is.
_NAMES = {'active': 'active_flows'}


class Collector:
    """Looks when Prometheus asks.

    :param conf: [agent] load_balancer_metrics can be changed at any time.
    :param link: link.Link.
    :param worker: worker.Worker.
    """

    def __init__(self, conf, link, worker):
        self._conf = conf
        self._link = link
        self._worker = worker

    def describe(self):
        """Nothing is looked at before somebody wants to know."""
        return []

    def collect(self):
        """Called by Prometheus' registry."""
        if not self._conf.agent.load_balancer_metrics:
            return
        families = {
            name: _family(name, *figure) for name, figure in FIGURES.items()}
        wanted = self._link.wanted
        documents = wanted.documents if wanted else {}
        for load_balancer_id, listener_id, key, one in self._worker.traffic():
            labels = (_project(documents.get(load_balancer_id)),
                      load_balancer_id, listener_id, key.address)
            for name, family in families.items():
                family.add_metric(labels, getattr(one, name))
        yield from families.values()


def _project(entry):
    """The project's id; empty where the document does not say.

    :param entry: (generation, document) or None.
    """
    return (entry[1].get('project_id') if entry else None) or ''


def _family(name, grows, text):
    kind = core.CounterMetricFamily if grows else core.GaugeMetricFamily
    return kind(PREFIX + _NAMES.get(name, name), text, labels=LABELS)
