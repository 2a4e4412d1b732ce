# SPDX-License-Identifier: Apache-2.0
"""Files of the agent of a proxy node.

``[proxy] state_directory`` is its own: what the controller sent last, and
records of load balancers. In ``[proxy] run_directory`` it tells the launcher
what to run, see contracts/proxy_launch.py.
"""

import contextlib
import os
import tempfile

from oslo_config import cfg

from octavia_xdp_provider.process.agents import run_directory

_OWN_MODE = 0o700


class RunDirectory(run_directory.RunDirectory):
    """Paths of the agent's own directory, and of those that it shares."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf.proxy.state_directory)
        self.shared: str = conf.proxy.run_directory

    @property
    def records(self) -> str:
        """Records of load balancers."""
        return self.path('load-balancers')

    @property
    def orders(self) -> str:
        """What is to run (agent → launcher)."""
        return os.path.join(self.shared, 'wanted')

    @property
    def secrets(self) -> str:
        """Directories with certificates (agent → launcher)."""
        return os.path.join(self.shared, 'secrets')

    @property
    def states(self) -> str:
        """What runs (launcher → agent)."""
        return os.path.join(self.shared, 'state')

    @property
    def launcher_lock(self) -> str:
        """Lock of the launcher that runs."""
        return os.path.join(self.shared, 'launcher.lock')

    def make(self) -> None:
        """Create the directories that are missing.

        :raises OSError: one of them cannot be created.
        """
        os.makedirs(self.directory, mode=_OWN_MODE, exist_ok=True)
        for path in (self.records, self.secrets, self.orders):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, _OWN_MODE)

    def check_writable(self) -> None:
        """See RunDirectory; also checks the directory of orders."""
        super().check_writable()
        with tempfile.TemporaryFile(dir=self.orders):
            pass
