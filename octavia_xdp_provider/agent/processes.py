# SPDX-License-Identifier: Apache-2.0
"""Whether the node's other processes do what they are there for."""

import time

from octavia_xdp_provider.common import messages
from octavia_xdp_provider.node import checker_status
from octavia_xdp_provider.node import heartbeat

CHECKER = 'octavia-xdp-hc'


class Processes:
    """Looks at them. Any thread may use it.

    :param files: run_directory.RunDirectory.
    :param announce: bgp.announcements.Announcements.
    """

    def __init__(self, files, announce):
        self._files = files
        self._announce = announce
        # They are started at the same time.
        self._began_s = time.monotonic()

    def look(self):
        """Name → what is wrong with it, or None; of all but the checker,
        which has figures of its own to be reported."""
        return {messages.RESULT_HANDLER: self._result_handler(),
                messages.SPEAKER: self._speaker()}

    def work(self):
        """Name → whether it works."""
        answers = checker_status.read(self._files.checker_socket) is not None
        return {CHECKER: answers, **{
            name: problem is None for name, problem in self.look().items()}}

    def _result_handler(self):
        if heartbeat.stands_still(self._files.handler_heartbeat,
                                  self._began_s):
            return (f'{messages.RESULT_HANDLER} stands still: no health '
                    'result gets into the tables')
        return None

    def _speaker(self):
        status = self._announce.status()
        if status is None:
            return (f'{messages.SPEAKER} does not run: no VIP is announced')
        if status.error:
            return f'{messages.SPEAKER}: {status.error}'[:messages.TEXT_MAX]
        return None
