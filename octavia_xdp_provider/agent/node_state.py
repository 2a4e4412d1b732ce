# SPDX-License-Identifier: Apache-2.0
"""The node's report of itself to the scheduler and the operator."""

from collections.abc import Callable
from collections.abc import Set
from typing import Any
from typing import cast

from oslo_config import cfg
import pbr.version

from octavia_xdp_provider.agent import facts as agent_facts
from octavia_xdp_provider.agent import parts as agent_parts
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.health import checker_status


class NodeState:
    """Collects the states of the agent's parts.

    :param own_addresses: returns the node's own addresses.
    """

    def __init__(self, conf: cfg.ConfigOpts, parts: agent_parts.Parts,
                 facts: agent_facts.Facts,
                 own_addresses: Callable[[], Set[str]]) -> None:
        self._conf = conf
        self._parts = parts
        self._facts = facts
        self._own_addresses = own_addresses
        self._version = pbr.version.VersionInfo(
            'octavia-xdp-provider').release_string()

    def read(self, problems: list[str]) -> messages.NodeState:
        """:param problems: what keeps the node from its wanted state."""
        parts = self._parts
        status = parts.announce.status()
        neighbours = status.neighbours if status else {}
        info = parts.datapath.info()
        state: dict[str, Any] = {
            'version': self._version,
            'document_version': spec.VERSION,
            'probe_through_datapath': self._conf.agent.probe_through_datapath,
            'problems': list(problems),
            **parts.uplinks.report(),
            **parts.probes.report(),
            'uplinks_ready': sorted(parts.uplinks.ready),
            'health_checker': checker_status.read(
                parts.files.checker_socket),
            'processes': parts.processes.look(),
            'services': info.services,
            'services_max': info.services_max,
            'members': info.members,
            'members_max': info.members_max,
            'addresses': sorted(self._own_addresses())[
                :messages.NODE_ADDRESSES_MAX],
            'nat': parts.nat.report(self._facts.nat_flows()),
            'open_slots': self._facts.open_slots(),
            'announced': len(status.announced) if status else 0,
            'bgp_neighbours': neighbours,
            'bgp_established': [status.sessions_up if status else 0,
                                len(neighbours)],
            'outcomes': {
                outcome.name.lower(): counters._asdict()
                for outcome, counters in parts.datapath.outcomes().items()
                if counters.packets},
        }
        return cast(messages.NodeState, state)
