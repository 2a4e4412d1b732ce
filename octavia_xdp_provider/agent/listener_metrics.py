# SPDX-License-Identifier: Apache-2.0
"""Traffic of each listener on this node, for Prometheus.

The values come from the worker's last read of the tables, as do Octavia's
statistics. Each series belongs to one service, that is a listener at one of
its VIPs, and shows the datapath's counter: it grows across restarts of the
agent, and ends with the service.
"""

from collections.abc import Iterator
from typing import Any

from oslo_config import cfg
import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.agent import facts as agent_facts
from octavia_xdp_provider.process.agents import link as agent_link
from octavia_xdp_provider.process.agents import wanted as wanted_state

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
    'flow_table_full': (True, 'Packets that began a flow for which the flow '
                              'table had no place: a change of members may '
                              'break it'),
    'active': (False, 'Flows that are alive, counted or estimated; 0 while '
                      'the node does not announce the VIP'),
}
# Field → name of the metric, where they differ.
_NAMES = {'active': 'active_flows'}


class Collector:
    """Collects the series when Prometheus scrapes.

    :param conf: [agent] load_balancer_metrics may change at any time.
    """

    def __init__(self, conf: cfg.ConfigOpts, link: agent_link.Link,
                 facts: agent_facts.Facts) -> None:
        self._conf = conf
        self._link = link
        self._facts = facts

    def describe(self) -> list[prometheus_client.Metric]:
        """Return nothing, so that registering collects nothing."""
        return []

    def collect(self) -> Iterator[prometheus_client.Metric]:
        """Called by Prometheus' registry."""
        if not self._conf.agent.load_balancer_metrics:
            return
        families = {
            name: _family(name, *figure) for name, figure in FIGURES.items()}
        wanted = self._link.wanted
        documents = wanted.documents if wanted else {}
        for (load_balancer_id, listener_id, key,
             summary) in self._facts.traffic():
            labels = (_project(documents.get(load_balancer_id)),
                      load_balancer_id, listener_id, key.address)
            for name, family in families.items():
                family.add_metric(labels, getattr(summary, name))
        yield from families.values()


def _project(entry: wanted_state.Entry | None) -> str:
    """Return the project's id, or '' if the document has none."""
    return (entry[1].get('project_id') if entry else None) or ''


def _family(name: str, grows: bool, text: str) -> Any:
    kind = core.CounterMetricFamily if grows else core.GaugeMetricFamily
    return kind(PREFIX + _NAMES.get(name, name), text, labels=LABELS)
