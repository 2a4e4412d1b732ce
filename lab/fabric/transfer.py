# SPDX-License-Identifier: Apache-2.0
"""A slow transfer of a file over one connection."""

import http.client

from lab import background
from lab import namespaces
from lab.fabric import client

TIMEOUT_S = 120
PART = 32 * 1024  # bytes
_PAUSE_S = 0.02  # between two parts


class Transfer(background.Background):
    """Transfers a file by HTTP over a connection during a `with` block.

    The transfer is slow, and the last quarter begins at the end of the block,
    so that the connection is in use during the whole block. The end of the
    block waits for the rest.

    :ivar port: the client's port.
    :ivar moved: bytes transferred so far.
    :ivar problem: why the transfer failed, or None.
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
        # A reconnection would come from another namespace.
        self.connection.auto_open = 0
        self.moved = 0
        self.problem = None

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.close()

    def close(self):
        self.connection.close()

    def length(self):
        """Return the length of the file in bytes."""
        raise NotImplementedError

    def move(self, size):
        """Transfer at most `size` bytes, and return how many; 0 at the end.

        :raises OSError, HTTPException: it failed.
        """
        raise NotImplementedError

    def finish(self):
        """Return why the server refused the complete file, or None."""
        return None

    def work(self):
        """Transfer the file."""
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
