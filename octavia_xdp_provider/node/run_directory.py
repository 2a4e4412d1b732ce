# SPDX-License-Identifier: Apache-2.0
"""The files by which the processes of a node work together.

All of them lie in ``[agent] run_directory``, with those of
agent/bgp/announcements.py.
"""

import os

from oslo_config import cfg

from octavia_xdp_provider.common import run_directory
from octavia_xdp_provider.node import datapath


class RunDirectory(run_directory.RunDirectory):
    """Paths, and the datapath that lies behind them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf.agent.run_directory)
        self._conf = conf

    @property
    def checks(self) -> str:
        """What the health checker probes: a directory (agent →
        octavia-xdp-hc)."""
        return self.path('checks')

    @property
    def checks_secret(self) -> str:
        """From which the keys of checks follow (agent)."""
        return self.path('checks.secret')

    @property
    def queue(self) -> str:
        """Changed results (octavia-xdp-hc → result handler)."""
        return self.path('queue')

    @property
    def rejected(self) -> str:
        """What was found in the queue and could not be used (result
        handler)."""
        return self.path('rejected')

    @property
    def agent_wakeup(self) -> str:
        """Unix datagram socket: a table has switched (handler → agent)."""
        return self.path('agent.wakeup')

    @property
    def handler_heartbeat(self) -> str:
        """When the result handler has last done all (handler → agent)."""
        return self.path('handler.alive')

    @property
    def agent_heartbeat(self) -> str:
        """The same of the agent's worker, for octavia-xdp-ctl."""
        return self.path('agent.alive')

    @property
    def reserve(self) -> str:
        """Room that the agent keeps for the file of announcements."""
        return self.path('reserve')

    @property
    def lock(self) -> str:
        """Held by whoever changes the datapath."""
        return self.path('datapath.lock')

    @property
    def handler_wakeup(self) -> str:
        """Unix datagram socket: services have changed (agent → handler)."""
        return self.path('handler.wakeup')

    @property
    def checker_socket(self) -> str:
        """Where octavia-xdp-hc shows its live table."""
        return self.path('hc.sock')

    def make(self) -> None:
        """Create the directories."""
        os.makedirs(self.queue, mode=0o775, exist_ok=True)

    def open_datapath(self, create: bool = False) -> datapath.Datapath:
        """Open the node's forwarding state.

        :raises DatapathError: ENOENT where there is none and ``create`` is
            false.
        """
        options = self._conf.datapath
        return datapath.Datapath(
            options.pin_directory, self.lock,
            create=create, services_max=options.services_max,
            members_max=options.members_max,
            slots_max=options.slots, flows_max=options.flows_max,
            library=options.library)
