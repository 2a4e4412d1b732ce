# SPDX-License-Identifier: Apache-2.0
"""Files by which the agent of a proxy node, its health checker and HAProxy
processes know each other, in [proxy] run_directory."""

import contextlib
import os
import pathlib

# The agent's alone, and of a group in which the health checker is.
_MODE, _QUEUE_MODE, _PRIVATE_MODE = 0o1770, 0o770, 0o700


class Files:
    """Paths, and the directories that the agent makes."""

    def __init__(self, run_directory: str) -> None:
        self._runtime = pathlib.Path(run_directory, 'runtime')
        self._own = pathlib.Path(run_directory, 'health')

    def sockets(self, identity: str) -> pathlib.Path:
        """Directory of a load balancer's sockets (launcher, HAProxy)."""
        return self._runtime / identity

    @property
    def checks(self) -> str:
        """Directory of the checks files (agent → octavia-xdp-hc)."""
        return str(self._own / 'checks')

    @property
    def secret(self) -> pathlib.Path:
        """Secret for the keys of checks (agent)."""
        return self._own / 'checks.secret'

    @property
    def queue(self) -> str:
        """Directory of changed results (octavia-xdp-hc → agent)."""
        return str(self._own / 'queue')

    @property
    def rejected(self) -> str:
        """Directory for unusable files of the queue (agent)."""
        return str(self._own / 'rejected')

    @property
    def checker_socket(self) -> str:
        """Socket of octavia-xdp-hc, which shows its checks."""
        return str(self._own / 'hc.sock')

    @property
    def counters(self) -> pathlib.Path:
        """Directory of counters of processes that have ended (agent)."""
        return self._own / 'counters'

    def make(self) -> None:
        """Create the directories that are missing.

        :raises OSError: one of them cannot be created.
        """
        for path, mode in ((self._own, _MODE), (self.queue, _QUEUE_MODE),
                           (self.counters, _PRIVATE_MODE)):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode)
                os.chmod(path, mode)
