# SPDX-License-Identifier: Apache-2.0
"""The directory by which the processes of a machine exchange files."""

import os
import tempfile

# A full file system may still accept empty files.
_CHECK_BYTES = 4096


class RunDirectory:
    """Paths in the directory; subclasses add their own."""

    def __init__(self, directory: str) -> None:
        self.directory: str = directory

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @property
    def wanted(self) -> str:
        """Directory with the cached wanted state."""
        return self.path('wanted')

    def check_writable(self) -> None:
        """Check that files can be written.

        :raises OSError: they cannot, for example on a full file system.
        """
        with tempfile.TemporaryFile(dir=self.directory) as file:
            file.write(bytes(_CHECK_BYTES))
