# SPDX-License-Identifier: Apache-2.0
"""UDP flows of the client that live on while things change."""

import collections
import contextlib
import socket

from lab import background
from lab import namespaces
from lab.fabric import client
from lab.fabric import udp_echo


class UdpFlows(background.Background):
    """Flows to a VIP, each from a socket of its own, that are asked again and
    again; use it in a `with` block.

    :ivar rounds: how often all of them have been asked.
    :ivar seen: of each flow, "member address port" → how often a member has
        answered that it saw the flow come from there.
    :ivar unanswered: of each flow, how many datagrams.
    """

    def __init__(self, lab, address, port, number=40, pause=0.2, timeout=1.0):
        super().__init__()
        self.rounds = 0
        self.seen = [collections.Counter() for _ in range(number)]
        self.unanswered = [0] * number
        self._lab = lab
        self._end = str(address), port
        self._pause = pause
        self._timeout = timeout
        self._sockets = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for _ in self.seen:
                with namespaces.inside(self._lab, client.CLIENT):
                    one = stack.enter_context(socket.socket(
                        socket.AF_INET6 if ':' in self._end[0]
                        else socket.AF_INET, socket.SOCK_DGRAM))
                one.settimeout(self._timeout)
                one.connect(self._end)
                self._sockets.append(one)
            self._stack = stack.pop_all()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._stack.close()

    @property
    def ports(self):
        """The client's port of each."""
        return [one.getsockname()[1] for one in self._sockets]

    def work(self):
        """Ask all flows, until the end of the block."""
        while not self.ending.wait(self._pause):
            for number, one in enumerate(self._sockets):
                self._ask(number, one)
            self.rounds += 1

    def _ask(self, number, one):
        try:
            one.send(udp_echo.WHENCE)
            self.seen[number][one.recv(4096).decode()] += 1
        except OSError:
            self.unanswered[number] += 1
