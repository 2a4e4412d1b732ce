# SPDX-License-Identifier: Apache-2.0
"""The directory by which the processes of one machine work together."""

import os
import tempfile

# A file system that is full may still take empty files.
_CHECK_BYTES = 4096


class RunDirectory:
    """Paths in it; which there are, those who use it add."""

    def __init__(self, directory: str) -> None:
        self.directory: str = directory

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @property
    def wanted(self) -> str:
        """Cache of what the controller sent last: a directory."""
        return self.path('wanted')

    def check_writable(self) -> None:
        """Find out whether files can be written.

        :raises OSError: they cannot; the file system is full, say.
        """
        with tempfile.TemporaryFile(dir=self.directory) as file:
            file.write(bytes(_CHECK_BYTES))
