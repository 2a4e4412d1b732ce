# SPDX-License-Identifier: Apache-2.0
"""A transfer that outlasts whatever happens to its connection."""

import hashlib
import http.client

from lab import background
from lab import namespaces
from lab.fabric import client

TIMEOUT_S = 120
# Bytes, and the seconds between two reads.
_PART, _PAUSE_S = 32 * 1024, 0.02


class Download(background.Background):
    """A file, by a connection that lasts for a `with` block.

    It is read slowly, and the last quarter not before the end of the block,
    so that the connection has something to carry however long that takes. The
    end of the block waits for the rest.

    :ivar status: of HTTP.
    :ivar port: the client's.
    :ivar received: bytes, so far.
    :ivar problem: why the file did not arrive whole, or None.
    """

    def __init__(self, lab, address, port, path, namespace=client.CLIENT):
        """:param namespace: of who downloads.

        :raises OSError: there is no connection, or no answer.
        """
        super().__init__()
        self._connection = http.client.HTTPConnection(
            str(address), port, timeout=TIMEOUT_S)
        with namespaces.inside(lab, namespace):
            self._connection.connect()
        self.port = self._connection.sock.getsockname()[1]
        self._connection.auto_open = 0  # never again, and from nowhere else
        self._connection.request('GET', path)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.received = 0
        self.problem = None
        self._digest = hashlib.sha256()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.close()

    def close(self):
        self._connection.close()

    @property
    def checksum(self):
        """SHA-256 of what has arrived."""
        return self._digest.hexdigest()

    def work(self):
        """Read it."""
        length = int(self._answer.headers['Content-Length'])
        try:
            while self.received < length:
                if not self.ending.is_set():
                    self.ending.wait(_PAUSE_S)
                    if self.received >= length * 3 // 4:
                        continue
                part = self._answer.read(min(_PART, length - self.received))
                self._digest.update(part)
                self.received += len(part)
                if not part:
                    self.problem = f'it ended after {self.received} bytes'
                    return
        except (OSError, http.client.HTTPException) as error:
            self.problem = f'{error!r} after {self.received} bytes'
