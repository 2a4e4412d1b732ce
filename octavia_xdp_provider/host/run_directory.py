# SPDX-License-Identifier: Apache-2.0
"""The files of a hypervisor's agent, below ``[host_agent] run_directory``."""

import os

from oslo_config import cfg

from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.process.agents import run_directory

_MODE = 0o700


class RunDirectory(run_directory.RunDirectory):
    """Paths of the agent's files, and its datapath."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf.host_agent.run_directory)
        self._options = conf.host_agent

    @property
    def common(self) -> str:
        """Cache of the data common to all hypervisors."""
        return self.path('common.json')

    @property
    def address_sets(self) -> str:
        """File of the numbers of address sets."""
        return self.path('address-sets.json')

    def make(self) -> None:
        """Create the directory."""
        os.makedirs(self.directory, mode=_MODE, exist_ok=True)

    def create_datapath(self) -> bool:
        """Create the pinned state; return False if it exists already.

        :raises HostError: for example, the kernel is too old.
        """
        options = self._options
        return datapath.Datapath.create(
            options.pin_directory, types.Sizes(
                entries=options.entries_max, ports=options.ports_max,
                flows=options.flows_max), options.library)

    def open_datapath(self) -> datapath.Datapath:
        """:raises HostError: ENOENT if there is no pinned state."""
        return datapath.Datapath(self._options.pin_directory,
                                 self._options.library)
