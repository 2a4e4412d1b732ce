# SPDX-License-Identifier: Apache-2.0
"""UDP flows of the client that stay in use during changes."""

import collections
import contextlib
import socket

from lab import background
from lab import namespaces
from lab.fabric import client
from lab.fabric import udp_echo


class UdpFlows(background.Background):
    """Sends datagrams of several flows to a VIP during a `with` block.

    :ivar rounds: how many datagrams have been sent in each flow.
    :ivar seen: for each flow, {"member address port": number of answers by
        the member with this source of the flow}.
    :ivar unanswered: for each flow, the number of unanswered datagrams.
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
                    flow = stack.enter_context(socket.socket(
                        socket.AF_INET6 if ':' in self._end[0]
                        else socket.AF_INET, socket.SOCK_DGRAM))
                flow.settimeout(self._timeout)
                flow.connect(self._end)
                self._sockets.append(flow)
            self._stack = stack.pop_all()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._stack.close()

    @property
    def ports(self):
        """The client's port of each flow."""
        return [flow.getsockname()[1] for flow in self._sockets]

    def work(self):
        """Send a datagram in each flow, until the end of the block."""
        while not self.ending.wait(self._pause):
            for number, flow in enumerate(self._sockets):
                self._ask(number, flow)
            self.rounds += 1

    def _ask(self, number, flow):
        try:
            flow.send(udp_echo.WHENCE)
            self.seen[number][flow.recv(4096).decode()] += 1
        except OSError:
            self.unanswered[number] += 1
