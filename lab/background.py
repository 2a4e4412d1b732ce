# SPDX-License-Identifier: Apache-2.0
"""Work in a thread for as long as a `with` block lasts."""

import threading


class Background:
    """Starts work() with the block; the end of the block waits for it.

    work() returns soon after `ending` is set.
    """

    def __init__(self):
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self.work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self.ending.set()
        self._thread.join()

    def work(self):
        """What to do until the end of the block."""
        raise NotImplementedError
