# SPDX-License-Identifier: Apache-2.0
"""A slow upload, which lasts whatever happens to its connection."""

import http.client

from lab import background
from lab import namespaces
from lab.fabric import client

TIMEOUT_S = 120
# Bytes, and the seconds between two of them.
_PART, _PAUSE_S = 32 * 1024, 0.02


class Upload(background.Background):
    """A file that is sent by PUT, over a connection that lasts for a `with`
    block.

    It is sent slowly, and the last quarter not before the end of the block,
    which waits for the server's answer.

    :ivar sent: bytes that were given to the kernel, so far.
    :ivar problem: why the server has not taken the file, or None.
    """

    def __init__(self, lab, address, port, path, content):
        """:raises OSError: there is no connection."""
        super().__init__()
        self._connection = http.client.HTTPConnection(
            str(address), port, timeout=TIMEOUT_S)
        with namespaces.inside(lab, client.CLIENT):
            self._connection.connect()
        self._connection.auto_open = 0  # never again, and from nowhere else
        self._content = content
        self._connection.putrequest('PUT', path)
        self._connection.putheader('Content-Length', str(len(content)))
        self._connection.endheaders()
        self.sent = 0
        self.problem = None

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._connection.close()

    def work(self):
        """Send it."""
        length = len(self._content)
        try:
            while self.sent < length:
                if not self.ending.is_set():
                    self.ending.wait(_PAUSE_S)
                    if self.sent >= length * 3 // 4:
                        continue
                part = self._content[self.sent:self.sent + _PART]
                self._connection.send(part)
                self.sent += len(part)
            answer = self._connection.getresponse()
            answer.read()
            # A new file, or one in place of another.
            if answer.status not in (201, 204):
                self.problem = f'{answer.status} {answer.reason}'
        except (OSError, http.client.HTTPException) as error:
            self.problem = f'{error!r} after {self.sent} bytes'
