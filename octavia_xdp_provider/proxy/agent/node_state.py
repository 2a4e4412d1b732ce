# SPDX-License-Identifier: Apache-2.0
"""The node's report of itself to the scheduler and the operator."""

from oslo_config import cfg
import pbr.version
from pyroute2 import IPRoute

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.proxy.agent import launcher
from octavia_xdp_provider.proxy.agent import parts as agent_parts
from octavia_xdp_provider.proxy.agent import worker as agent_worker

_PROBLEMS_MAX = 64


class NodeState:
    """Collects the states of the agent's parts."""

    def __init__(self, conf: cfg.ConfigOpts, parts: agent_parts.Parts,
                 worker: agent_worker.Worker) -> None:
        self._options = conf.proxy
        self._parts = parts
        self._worker = worker
        self._version = pbr.version.VersionInfo(
            'octavia-xdp-provider').release_string()

    def read(self, problems: list[str]) -> messages.NodeState:
        """:param problems: what keeps the node from its wanted state."""
        return {
            'version': self._version,
            'document_version': spec.VERSION,
            'problems': [problem[:messages.TEXT_MAX]
                         for problem in problems[:_PROBLEMS_MAX]],
            'services': self._worker.reconciler.listeners,
            'services_max': self._options.listeners_max,
            'addresses': own_addresses()[:messages.NODE_ADDRESSES_MAX],
            'health_checker': self._parts.health.figures(),
            'processes': {launcher.NAME: self._worker.launcher_problem}}


def own_addresses() -> list[str]:
    """Return the addresses of this node's management namespace, sorted."""
    with IPRoute() as netlink:
        return sorted({
            message.get_attr('IFA_ADDRESS')
            for message in netlink.get_addr()} - {None, '127.0.0.1', '::1'})
