# SPDX-License-Identifier: Apache-2.0
"""Errors of the files that a pass writes."""

from collections.abc import Callable
from typing import TypeVar

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

ResultT = TypeVar('ResultT')


class FileErrors(dict[str, str]):
    """Maps the kind of a file to the error of its last write."""

    def write(self, what: str, write: Callable[[], ResultT]
              ) -> ResultT | None:
        """Call a function that writes a file, and keep and log its error.

        :returns: the result of ``write``, or None after an OSError.
        """
        try:
            written = write()
        except OSError as error:
            text = f'{what} cannot be written: {error.strerror or error}'
            if self.get(what) != text:
                LOG.error('The file of the %s.', text)
            self[what] = text
            return None
        if self.pop(what, None):
            LOG.info('The file of the %s can be written again.', what)
        return written
