# SPDX-License-Identifier: Apache-2.0
"""The files that the processes of a node exchange.

All of them are in ``[agent] run_directory``, as are those of
agent/bgp/announcements.py.
"""

import os

from oslo_config import cfg

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import run_directory


class RunDirectory(run_directory.RunDirectory):
    """The paths, and access to the datapath."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf.agent.run_directory)
        self._conf = conf

    @property
    def checks(self) -> str:
        """Directory of the checks files (agent → octavia-xdp-hc)."""
        return self.path('checks')

    @property
    def checks_secret(self) -> str:
        """Secret for the keys of checks (agent)."""
        return self.path('checks.secret')

    @property
    def queue(self) -> str:
        """Directory of changed results (octavia-xdp-hc → result handler)."""
        return self.path('queue')

    @property
    def rejected(self) -> str:
        """Directory for unusable files of the queue (result handler)."""
        return self.path('rejected')

    @property
    def agent_wakeup(self) -> str:
        """Unix datagram socket: tables have switched (handler → agent)."""
        return self.path('agent.wakeup')

    @property
    def handler_heartbeat(self) -> str:
        """Heartbeat of the result handler (handler → agent)."""
        return self.path('handler.alive')

    @property
    def agent_heartbeat(self) -> str:
        """Heartbeat of the agent's worker (agent → octavia-xdp-ctl)."""
        return self.path('agent.alive')

    @property
    def reserve(self) -> str:
        """Space reserved for the announcements file (agent)."""
        return self.path('reserve')

    @property
    def lock(self) -> str:
        """Lock of processes that change the datapath."""
        return self.path('datapath.lock')

    @property
    def handler_wakeup(self) -> str:
        """Unix datagram socket: services have changed (agent → handler)."""
        return self.path('handler.wakeup')

    @property
    def checker_socket(self) -> str:
        """Unix stream socket of octavia-xdp-hc, which shows its checks."""
        return self.path('hc.sock')

    def make(self) -> None:
        """Create the directories."""
        os.makedirs(self.queue, mode=0o775, exist_ok=True)

    def open_datapath(self, create: bool = False) -> datapath.Datapath:
        """Open the node's forwarding state.

        :raises DatapathError: ENOENT if there is none and ``create`` is
            false.
        """
        options = self._conf.datapath
        return datapath.Datapath(
            options.pin_directory, self.lock,
            create=create, services_max=options.services_max,
            members_max=options.members_max,
            slots_max=options.slots, flows_max=options.flows_max,
            library=options.library)
