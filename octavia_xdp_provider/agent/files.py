# SPDX-License-Identifier: Apache-2.0
"""Files that a pass writes, and what keeps them from being written."""

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class FileErrors(dict):
    """What is not written as wanted → why not."""

    def write(self, what, write):
        """Call a function that writes a file.

        :returns: what it returns; None if the file cannot be written.
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
