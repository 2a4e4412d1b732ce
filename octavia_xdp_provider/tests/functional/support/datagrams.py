# SPDX-License-Identifier: Apache-2.0
"""A conversation in which each datagram that is lost is noticed."""

import contextlib
import threading

# Seconds after which an answer does not come any more.
LOST_S = 20


class _Entered(threading.Thread):
    """Runs as long as it is entered."""

    def __init__(self):
        super().__init__(daemon=True)
        self._ended = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join()


class Echo(_Entered):
    """Answers datagrams, as long as it is entered."""

    def __init__(self, server):
        super().__init__()
        self._server = server
        self._server.settimeout(0.1)

    def run(self):
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                self._server.sendto(*self._server.recvfrom(100))


class Asking(_Entered):
    """Sends a datagram when the one before was answered.

    :ivar lost: numbers of those that were not, nor were sent again.
    """

    def __init__(self, client, where):
        super().__init__()
        client.connect(where)
        client.settimeout(LOST_S)
        self._client = client
        self.answered, self.lost = 0, []

    def more(self, number):
        """A function that says whether so many more were answered, or one
        is lost."""
        wanted = self.answered + number
        return lambda: self.answered >= wanted or self.lost

    def run(self):
        number = 0
        while not self._ended.is_set() and not self.lost:
            number += 1
            self._client.send(b'%d' % number)
            try:
                if self._client.recv(100) == b'%d' % number:
                    self.answered += 1
                    continue
            except TimeoutError:
                pass
            self.lost.append(number)
