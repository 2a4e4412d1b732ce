# SPDX-License-Identifier: Apache-2.0
"""A slow upload."""

from lab.fabric import transfer


class Upload(transfer.Transfer):
    """Sends a file by PUT; the end of the block waits for the answer."""

    def __init__(self, lab, address, port, path, content):
        """:raises OSError: there is no connection."""
        super().__init__(lab, address, port)
        self._content = content
        self.connection.putrequest('PUT', path)
        self.connection.putheader('Content-Length', str(len(content)))
        self.connection.endheaders()

    def length(self):
        return len(self._content)

    def move(self, size):
        self.connection.send(self._content[self.moved:self.moved + size])
        return size

    def finish(self):
        answer = self.connection.getresponse()
        answer.read()
        # 201: the file is new. 204: it was replaced.
        if answer.status not in (201, 204):
            return f'{answer.status} {answer.reason}'
        return None
