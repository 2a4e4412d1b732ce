# SPDX-License-Identifier: Apache-2.0
"""The files by which the processes of a node work together.

All of them lie in ``[agent] run_directory``, with those of
announcements.py.
"""

import os

from octavia_xdp_provider.node import datapath


class NodeFiles:
    """Paths, and the datapath that lies behind them."""

    def __init__(self, conf):
        self._conf = conf
        self.directory = conf.agent.run_directory

    def path(self, name):
        return os.path.join(self.directory, name)

    @property
    def wanted(self):
        """Cache of what the controller last told, JSON (agent)."""
        return self.path('wanted.json')

    @property
    def checks(self):
        """What the health checker probes (agent → octavia-xdp-hc)."""
        return self.path('checks.json')

    @property
    def queue(self):
        """Changed results (octavia-xdp-hc → result handler)."""
        return self.path('queue')

    @property
    def bell(self):
        """Unix datagram socket: a table has switched (handler → agent)."""
        return self.path('agent.bell')

    @property
    def lock(self):
        """Held by whoever changes the datapath."""
        return self.path('datapath.lock')

    @property
    def handler_bell(self):
        """Unix datagram socket: services have changed (agent → handler)."""
        return self.path('handler.bell')

    @property
    def checker_socket(self):
        """Where octavia-xdp-hc shows its live table."""
        return self.path('hc.sock')

    def make(self):
        """Create the directories."""
        os.makedirs(self.queue, mode=0o755, exist_ok=True)

    def open_datapath(self, create=False):
        """Open the node's forwarding state.

        :raises DatapathError: ENOENT where there is none and ``create`` is
            false.
        """
        options = self._conf.datapath
        return datapath.Datapath(
            options.pin_directory, self.lock,
            create=create, services_max=options.services_max,
            slots_max=options.slots, flows_max=options.flows_max,
            library=options.library)
