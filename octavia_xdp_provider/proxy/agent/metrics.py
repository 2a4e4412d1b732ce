# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the agent of a proxy node."""

from collections.abc import Iterator

import prometheus_client

from octavia_xdp_provider.process.agents import link as agent_link
from octavia_xdp_provider.process.agents import metrics
from octavia_xdp_provider.proxy.agent import worker as agent_worker

PREFIX = 'octavia_xdp_proxy_agent_'


class Collector(metrics.Collector):
    """Adds values of the worker."""

    prefix = PREFIX

    def __init__(self, link: agent_link.Link, worker: agent_worker.Worker
                 ) -> None:
        super().__init__(link)
        self._worker = worker

    def collect(self) -> Iterator[prometheus_client.Metric]:
        yield from super().collect()
        wanted, held = self._link.wanted, self._worker.held
        documents = wanted.documents if wanted else {}
        yield self.gauge('load_balancers', 'Load balancers that this node '
                         'shall have', len(documents))
        yield self.gauge(
            'failed_load_balancers', 'Load balancers that it cannot apply',
            sum(fact['error'] is not None for fact in held.values()))
        yield self.gauge(
            'unfinished_load_balancers', 'Load balancers whose HAProxy does '
            'not have their newest configuration yet', sum(
                key not in held or held[key]['generation'] != generation
                for key, (generation, _document) in documents.items()))
        yield self.gauge('launcher_up', 'Whether the launcher runs',
                         float(self._worker.launcher_problem is None))
