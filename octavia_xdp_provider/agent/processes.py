# SPDX-License-Identifier: Apache-2.0
"""Health of the node's other processes."""

import time

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import run_directory

CHECKER = 'octavia-xdp-hc'


class Processes:
    """Checks the other processes. Any thread may use it."""

    def __init__(self, files: run_directory.RunDirectory,
                 announce: announcements.Announcements) -> None:
        self._files = files
        self._announce = announce
        # All processes of a node are started at the same time.
        self._began_s = time.monotonic()

    def look(self) -> dict[str, str | None]:
        """Return name → problem or None, for all processes but the checker,
        which is reported with figures of its own."""
        return {messages.RESULT_HANDLER: self._result_handler(),
                messages.SPEAKER: self._speaker()}

    def work(self) -> dict[str, bool]:
        """Return name → whether the process works."""
        answers = checker_status.read(self._files.checker_socket) is not None
        return {CHECKER: answers, **{
            name: problem is None for name, problem in self.look().items()}}

    def _result_handler(self) -> str | None:
        if heartbeat.stands_still(self._files.handler_heartbeat,
                                  self._began_s):
            return (f'{messages.RESULT_HANDLER} stands still: no health '
                    'result gets into the tables')
        return None

    def _speaker(self) -> str | None:
        status = self._announce.status()
        if status is None:
            return (f'{messages.SPEAKER} does not run: no VIP is announced')
        if status.error:
            return f'{messages.SPEAKER}: {status.error}'[:messages.TEXT_MAX]
        return None
