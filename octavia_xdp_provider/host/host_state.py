# SPDX-License-Identifier: Apache-2.0
"""What the agent reports about itself and its hypervisor."""

import os

from oslo_config import cfg
import pbr.version

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.host import worker

PROBLEMS_MAX = 64


class HostState:
    """Collects the report from the parts of the agent."""

    def __init__(self, conf: cfg.ConfigOpts, agent_worker: worker.Worker
                 ) -> None:
        self._options = conf.host_agent
        self._worker = agent_worker
        self._version = pbr.version.VersionInfo(
            'octavia-xdp-provider').release_string()

    def read(self, problems: list[str]) -> host_messages.HostState:
        """:param problems: why the wanted state is not reached."""
        settings, facts = self._worker.settings, self._worker.facts
        assert settings is not None  # nothing is reported before a pass
        sid = settings.datapath.sid
        return {
            'agent': self._version,
            'document_version': host_spec.VERSION,
            'kernel': os.uname().release,
            'geneve': settings.geneve,
            'srv6': f'{sid}/96' if sid else None,
            'mtu': settings.mtu,
            'ports': len(facts.ports),
            'ports_max': self._options.ports_max,
            'entries': len(facts.entries),
            'entries_max': self._options.entries_max,
            'flows': facts.flows,
            'flows_max': self._options.flows_max,
            'flows_full': facts.outcomes.get('flows_full', 0),
            'half_open_evicted': facts.outcomes.get('half_open_evicted', 0),
            'limited_ports': facts.most_limited(),
            'drops': facts.unclaimed(),
            'problems': [problem[:messages.TEXT_MAX]
                         for problem in problems[:PROBLEMS_MAX]],
        }
