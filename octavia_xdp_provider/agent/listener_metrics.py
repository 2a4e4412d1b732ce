# SPDX-License-Identifier: Apache-2.0
"""Traffic of each listener on this node, for Prometheus.

The values come from the worker's last read of the tables, as do Octavia's
statistics. Each series belongs to one service, that is a listener at one of
its VIPs, and shows the datapath's counter: it grows across restarts of the
agent, and ends with the service.
"""

from prometheus_client import core

PREFIX = 'octavia_xdp_agent_listener_'
LABELS = ('project', 'load_balancer', 'listener', 'vip')
# Field of datapath.Summary → (whether it is a counter, help text).
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
# Field → name of the metric, where they differ.
_NAMES = {'active': 'active_flows'}


class Collector:
    """Collects the series when Prometheus scrapes.

    :param conf: [agent] load_balancer_metrics may change at any time.
    :param link: link.Link.
    :param worker: worker.Worker.
    """

    def __init__(self, conf, link, worker):
        self._conf = conf
        self._link = link
        self._worker = worker

    def describe(self):
        """Return nothing, so that registering collects nothing."""
        return []

    def collect(self):
        """Called by Prometheus' registry."""
        if not self._conf.agent.load_balancer_metrics:
            return
        families = {
            name: _family(name, *figure) for name, figure in FIGURES.items()}
        wanted = self._link.wanted
        documents = wanted.documents if wanted else {}
        for (load_balancer_id, listener_id, key,
             summary) in self._worker.traffic():
            labels = (_project(documents.get(load_balancer_id)),
                      load_balancer_id, listener_id, key.address)
            for name, family in families.items():
                family.add_metric(labels, getattr(summary, name))
        yield from families.values()


def _project(entry):
    """Return the project's id, or '' if the document has none.

    :param entry: (generation, document) or None.
    """
    return (entry[1].get('project_id') if entry else None) or ''


def _family(name, grows, text):
    kind = core.CounterMetricFamily if grows else core.GaugeMetricFamily
    return kind(PREFIX + _NAMES.get(name, name), text, labels=LABELS)
