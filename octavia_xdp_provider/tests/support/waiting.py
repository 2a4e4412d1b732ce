# SPDX-License-Identifier: Apache-2.0
"""Waiting for something that a real process or kernel is about to do."""

from lab import processes


class Waiting:
    """To be mixed into a test case."""

    # Seconds, far above what it takes on however busy a machine.
    SOON = 60
    # Seconds between two looks: more where a look starts a process.
    LOOK = 0.02

    def wait(self, what, condition, timeout=None, interval=None):
        """See lab.processes.wait_for()."""
        return processes.wait_for(what, condition, timeout or self.SOON,
                                  interval or self.LOOK)
