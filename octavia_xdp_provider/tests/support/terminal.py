# SPDX-License-Identifier: Apache-2.0
"""Commands that draw on a screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

# Seconds that something may take, on however busy a machine.
_SOON_S = 60


class Screen:
    """A command in a terminal of its own."""

    def __init__(self, words, kind, lines=24, columns=80):
        self._process, self._terminal = pty.fork()
        if not self._process:
            os.environ.pop('TERM', None)
            if kind:
                os.environ['TERM'] = kind
            fcntl.ioctl(0, termios.TIOCSWINSZ,
                        struct.pack('HHHH', lines, columns, 0, 0))
            os.execvp(words[0], words)
        self._seen = b''

    def expect(self, what):
        """All that came since the last time, once this is in it."""
        end = time.monotonic() + _SOON_S
        while what.encode() not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], 1)
            if time.monotonic() >= end:
                raise AssertionError(self._seen)
            if ready:
                try:
                    self._seen += os.read(self._terminal, 65536)
                except OSError:
                    raise AssertionError(self._seen) from None
        seen, self._seen = self._seen.decode(errors='replace'), b''
        return seen

    def press(self, keys):
        os.write(self._terminal, keys.encode())

    def wait(self):
        _process, status = os.waitpid(self._process, 0)
        self._process = None
        return os.waitstatus_to_exitcode(status)

    def close(self):
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            self.wait()
        os.close(self._terminal)
