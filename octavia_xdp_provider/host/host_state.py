# SPDX-License-Identifier: Apache-2.0
"""What the agent reports of itself and of its hypervisor."""

import os
import typing

from oslo_config import cfg
import pbr.version

from octavia_xdp_provider.common import host_messages
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import messages

PROBLEMS_MAX = 64


class HostState:
    """Puts together what the parts of the agent know.

    :param worker: worker.Worker.
    """

    def __init__(self, conf: cfg.ConfigOpts, worker: typing.Any) -> None:
        self._options = conf.host_agent
        self._worker = worker
        self._version = pbr.version.VersionInfo(
            'octavia-xdp-provider').release_string()

    def read(self, problems: list[str]) -> host_messages.HostState:
        """:param problems: why what is wanted is not done."""
        settings, facts = self._worker.settings, self._worker.facts
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
            'drops': facts.unclaimed(),
            'problems': [one[:messages.TEXT_MAX]
                         for one in problems[:PROBLEMS_MAX]],
        }
