# SPDX-License-Identifier: Apache-2.0
"""The node's report of itself to the scheduler and the operator."""

import pbr.version

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.node import checker_status


class NodeState:
    """Collects the states of the agent's parts.

    :param files: run_directory.RunDirectory.
    :param uplinks: uplinks.monitor.UplinkMonitor.
    :param other_processes: processes.Processes.
    :param own_addresses: returns the node's own addresses (str).
    :param open_slots: returns messages.OpenSlots.
    :param nat: returns messages.NatState or None.
    """

    def __init__(self, conf, files, dataplane, announce, uplinks, probes,
                 other_processes, own_addresses, open_slots, nat=lambda: None):
        self._zone = conf.agent.zone
        self._processes = other_processes
        self._own_addresses = own_addresses
        self._nat = nat
        self._open_slots = open_slots
        self._files = files
        self._datapath = dataplane
        self._announce = announce
        self._uplinks = uplinks
        self._probes = probes
        self._probe_through = conf.agent.probe_through_datapath
        self._version = pbr.version.VersionInfo(
            'octavia-xdp-provider').release_string()

    def read(self, problems):
        """:param problems: what keeps the node from its wanted state (str).

        :returns: messages.NodeState.
        """
        status = self._announce.status()
        neighbours = status.neighbours if status else {}
        info = self._datapath.info()
        return {
            'version': self._version,
            'document_version': spec.VERSION,
            'probe_through_datapath': self._probe_through,
            'problems': list(problems),
            **self._uplinks.report(),
            **self._probes.report(),
            'uplinks_ready': sorted(self._uplinks.ready),
            'health_checker': checker_status.read(
                self._files.checker_socket),
            'processes': self._processes.look(),
            'services': info.services,
            'services_max': info.services_max,
            'members': info.members,
            'members_max': info.members_max,
            'addresses': sorted(self._own_addresses())[
                :messages.NODE_ADDRESSES_MAX],
            'zone': self._zone,
            'nat': self._nat(),
            'open_slots': self._open_slots(),
            'announced': len(status.announced) if status else 0,
            'bgp_neighbours': neighbours,
            'bgp_established': [status.sessions_up if status else 0,
                                len(neighbours)],
            'outcomes': {
                outcome.name.lower(): counters._asdict()
                for outcome, counters in self._datapath.outcomes().items()
                if counters.packets},
        }
