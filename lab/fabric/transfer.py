# SPDX-License-Identifier: Apache-2.0
"""A slow transfer, which lasts whatever happens to its connection."""

import http.client

from lab import background
from lab import namespaces
from lab.fabric import client

TIMEOUT_S = 120
PART = 32 * 1024  # bytes
_PAUSE_S = 0.02  # between two parts


class Transfer(background.Background):
    """A file by HTTP, over a connection that lasts for a `with` block.

    It moves slowly, and the last quarter not before the end of the block, so
    that the connection has something to carry however long that takes. The
    end of the block waits for the rest.

    :ivar port: the client's.
    :ivar moved: bytes, so far.
    :ivar problem: why the file did not arrive whole, or None.
    """

    def __init__(self, lab, address, port, namespace=client.CLIENT):
        """:param namespace: of the client.

        :raises OSError: there is no connection.
        """
        super().__init__()
        self.connection = http.client.HTTPConnection(
            str(address), port, timeout=TIMEOUT_S)
        with namespaces.inside(lab, namespace):
            self.connection.connect()
        self.port = self.connection.sock.getsockname()[1]
        self.connection.auto_open = 0  # never again, and from nowhere else
        self.moved = 0
        self.problem = None

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.close()

    def close(self):
        self.connection.close()

    def length(self):
        """Bytes of the file."""
        raise NotImplementedError

    def move(self, size):
        """Move at most so many bytes; how many it were, 0: there is no more.

        :raises OSError, HTTPException: it failed.
        """
        raise NotImplementedError

    def finish(self):
        """All has moved: why the server did not take it, or None."""
        return None

    def work(self):
        """Move the file."""
        length = self.length()
        try:
            while self.moved < length:
                if not self.ending.is_set():
                    self.ending.wait(_PAUSE_S)
                    if self.moved >= length * 3 // 4:
                        continue
                part = self.move(min(PART, length - self.moved))
                self.moved += part
                if not part:
                    self.problem = f'it ended after {self.moved} bytes'
                    return
            self.problem = self.finish()
        except (OSError, http.client.HTTPException) as error:
            self.problem = f'{error!r} after {self.moved} bytes'
