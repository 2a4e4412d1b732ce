# SPDX-License-Identifier: Apache-2.0
"""A slow download."""

import hashlib

from lab.fabric import client
from lab.fabric import transfer


class Download(transfer.Transfer):
    """Fetches a file by GET.

    :ivar status: the HTTP status.
    """

    def __init__(self, lab, address, port, path, namespace=client.CLIENT):
        """:param namespace: of the client.

        :raises OSError: there is no connection, or no answer.
        """
        super().__init__(lab, address, port, namespace)
        self.connection.request('GET', path)
        self._answer = self.connection.getresponse()
        self.status = self._answer.status
        self._digest = hashlib.sha256()

    @property
    def checksum(self):
        """SHA-256 of the received bytes."""
        return self._digest.hexdigest()

    def length(self):
        return int(self._answer.headers['Content-Length'])

    def move(self, size):
        part = self._answer.read(size)
        self._digest.update(part)
        return len(part)
