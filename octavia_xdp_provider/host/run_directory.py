# SPDX-License-Identifier: Apache-2.0
"""The files of a hypervisor's agent, below ``[host_agent] run_directory``."""

import os

from oslo_config import cfg

from octavia_xdp_provider.common import run_directory
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types

_MODE = 0o700


class RunDirectory(run_directory.RunDirectory):
    """Paths, and the datapath that lies behind them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf.host_agent.run_directory)
        self._options = conf.host_agent

    @property
    def common(self) -> str:
        """Cache of what it sent for all hypervisors."""
        return self.path('common.json')

    @property
    def address_sets(self) -> str:
        """Which number of the datapath is whose address set."""
        return self.path('address-sets.json')

    def make(self) -> None:
        """Create the directory."""
        os.makedirs(self.directory, mode=_MODE, exist_ok=True)

    def create_datapath(self) -> bool:
        """Make the pinned state unless it is there; whether it was not.

        :raises HostError: the kernel is too old, say.
        """
        options = self._options
        return datapath.Datapath.create(
            options.pin_directory, types.Sizes(
                entries=options.entries_max, ports=options.ports_max,
                flows=options.flows_max), options.library)

    def open_datapath(self) -> datapath.Datapath:
        """:raises HostError: ENOENT where there is none."""
        return datapath.Datapath(self._options.pin_directory,
                                 self._options.library)
